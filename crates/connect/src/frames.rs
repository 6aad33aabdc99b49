//! Messages behind their length, as gRPC and the streams of Connect send them: a byte of flags, four bytes of length, the message.

use prost::bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

/// Bytes before a message.
pub const HEADER: usize = 5;

/// Of a message that is compressed.
pub const COMPRESSED: u8 = 1;

/// Of the last message of a stream of Connect.
pub const END: u8 = 2;

/// What is before a message.
pub fn header(flags: u8, length: usize) -> Bytes {
    let mut header = BytesMut::with_capacity(HEADER);
    header.put_u8(flags);
    header.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    header.freeze()
}

/// Takes a message and its flags from what has come; `None`: it is not complete.
pub fn take(bytes: &mut Bytes) -> Option<(u8, Bytes)> {
    let &[flags, ref length @ ..] = bytes.first_chunk::<HEADER>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    if bytes.len() - HEADER < length {
        return None;
    }
    bytes.advance(HEADER);
    Some((flags, bytes.split_to(length)))
}

/// Pieces of messages, kept as they came: they are charged until they are dropped.
#[derive(Default)]
pub struct Pieces(Vec<Bytes>);

impl Pieces {
    pub fn push(&mut self, piece: Bytes) {
        self.0.push(piece);
    }

    /// Bytes of the first message with its header, if that has come.
    fn length(&self) -> Option<usize> {
        let mut header = self.0.iter().flatten().copied().skip(1).take(HEADER - 1);
        let mut next = || header.next();
        let length = u32::from_be_bytes([next()?, next()?, next()?, next()?]);
        Some(HEADER + usize::try_from(length).ok()?)
    }

    /// Takes the first message.
    pub fn take(&mut self) -> Option<Bytes> {
        let have: usize = self.0.iter().map(Bytes::len).sum();
        if have < self.length()? {
            return None;
        }
        let mut whole = match &std::mem::take(&mut self.0)[..] {
            [one] => one.clone(),
            several => several.concat().into(),
        };
        let (_, message) = take(&mut whole)?;
        if !whole.is_empty() {
            self.0.push(whole);
        }
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_whole_from_any_pieces() {
        let sent = ["one", "", "three"]
            .map(|it| [&header(0, it.len())[..], it.as_bytes()].concat())
            .concat();
        for size in 1..=sent.len() {
            let (mut pieces, mut taken) = (Pieces::default(), Vec::new());
            for piece in sent.chunks(size) {
                pieces.push(Bytes::copy_from_slice(piece));
                taken.extend(std::iter::from_fn(|| pieces.take()));
            }
            assert_eq!(taken, ["one", "", "three"], "in pieces of {size}");
            assert!(pieces.0.is_empty());
        }
    }
}
