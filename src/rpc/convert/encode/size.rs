//! The bytes of an answer, in the form in which it is sent.

use prost::{Message, length_delimiter_len};

use crate::domain::{error::Error, limits::MESSAGE_BYTES};

/// Bytes of an answer's items. The rest of a message is for a page token of two ids, the flags of a batch, tags and lengths.
pub const ANSWER_BYTES: usize = MESSAGE_BYTES - 4096;

/// Bytes of a message as a field of another.
pub fn field_bytes(message: &impl Message) -> usize {
    let bytes = message.encoded_len();
    1 + length_delimiter_len(bytes) + bytes
}

pub fn fits(answer: &impl Message) -> bool {
    answer.encoded_len() <= ANSWER_BYTES
}

/// As many items as fit, in their order, beside the `used` bytes of the answer.
pub fn page<T, M: Message>(
    items: &[T],
    mut used: usize,
    mut encode: impl FnMut(&T) -> Result<M, Error>,
) -> Result<Vec<M>, Error> {
    let mut page = Vec::with_capacity(items.len());
    for item in items {
        let message = match encode(item) {
            Err(Error::AnswerTooLarge) => break,
            message => message?,
        };
        used += field_bytes(&message);
        if used > ANSWER_BYTES {
            break;
        }
        page.push(message);
    }
    Ok(page)
}

/// As [`page`], in an answer of their own. If the first item does not fit, no later page can hold it.
pub fn full_page<T, M: Message>(
    items: &[T],
    encode: impl FnMut(&T) -> Result<M, Error>,
) -> Result<Vec<M>, Error> {
    let page = page(items, 0, encode)?;
    if page.is_empty() && !items.is_empty() { Err(Error::AnswerTooLarge) } else { Ok(page) }
}
