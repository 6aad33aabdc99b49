//! How much of an answer is left, measured in the form in which it is sent.

use prost::{Message, length_delimiter_len};

use crate::domain::{error::Error, limits::MESSAGE_BYTES};

/// Bytes kept for what an answer holds beside its items: a page token of two ids, the flags of a batch, tags and lengths.
const ENVELOPE_BYTES: usize = 4096;

/// What is left of an answer.
#[derive(Clone, Debug)]
pub struct Room(usize);

impl Room {
    /// A whole answer.
    pub fn of_answer() -> Self {
        Self(MESSAGE_BYTES - ENVELOPE_BYTES)
    }

    /// Bytes left.
    pub fn left(&self) -> usize {
        self.0
    }

    /// Takes so many bytes. Whether there were so many; otherwise nothing is taken.
    #[must_use]
    pub fn take(&mut self, bytes: usize) -> bool {
        match self.0.checked_sub(bytes) {
            Some(left) => self.0 = left,
            None => return false,
        }
        true
    }

    /// Takes what a message needs as a field of the answer.
    #[must_use]
    pub fn take_field(&mut self, message: &impl Message) -> bool {
        self.take(field_bytes(message))
    }
}

/// Bytes of a message as a field of another.
pub fn field_bytes(message: &impl Message) -> usize {
    let bytes = message.encoded_len();
    1 + length_delimiter_len(bytes) + bytes
}

/// The messages of as many items as there is room for, in their order.
pub fn page<T, M: Message>(
    items: &[T],
    room: &mut Room,
    mut encode: impl FnMut(&T, usize) -> Result<M, Error>,
) -> Result<Vec<M>, Error> {
    let mut page = Vec::with_capacity(items.len());
    for item in items {
        match encode(item, room.left()) {
            Ok(message) if room.take_field(&message) => page.push(message),
            Ok(_) | Err(Error::AnswerTooLarge) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(page)
}

/// As [`page`], where the first item has the whole answer to itself, so that one that does not fit never will.
pub fn full_page<T, M: Message>(
    items: &[T],
    encode: impl FnMut(&T, usize) -> Result<M, Error>,
) -> Result<Vec<M>, Error> {
    let page = page(items, &mut Room::of_answer(), encode)?;
    if page.is_empty() && !items.is_empty() { Err(Error::AnswerTooLarge) } else { Ok(page) }
}
