//! The body of an answer, charged to the account of its connection until HTTP has written it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http_body::{Frame, SizeHint};
use tonic::{
    Status,
    body::Body,
    codegen::{self, Bytes},
};

use super::{call_log::CallLog, dispatch::Open};
use crate::store::account::{CALL_BYTES, CallAccount, ConnectionAccount, Unread};

/// Bytes that are passed to HTTP at once: a client that takes so much in a few seconds reads.
const PIECE_BYTES: usize = 64 << 10;

pub struct AnswerBody {
    body: Body,
    connection: Arc<ConnectionAccount>,
    account: CallAccount,
    is_unary: bool,
    log: Option<CallLog>,
    open: Arc<Option<Open>>,
    /// A part that was made and not passed on.
    part: Bytes,
    unread: Option<Unread>,
}

/// A piece that is passed on. It is dropped when the connection has written it.
struct Unwritten {
    piece: Bytes,
    _unread: Option<Unread>,
    _open: Arc<Option<Open>>,
}

impl AsRef<[u8]> for Unwritten {
    fn as_ref(&self) -> &[u8] {
        &self.piece
    }
}

impl AnswerBody {
    pub fn new(
        body: Body,
        connection: Arc<ConnectionAccount>,
        account: CallAccount,
        is_unary: bool,
        log: Option<CallLog>,
        open: Option<Open>,
    ) -> Self {
        let (open, part) = (Arc::new(open), Bytes::new());
        Self { body, connection, account, is_unary, log, open, part, unread: None }
    }

    /// The next piece of a part.
    fn piece(&mut self) -> Frame<Bytes> {
        let piece = self.part.split_to(self.part.len().min(PIECE_BYTES));
        let unread = self.unread.as_mut().map(|unread| unread.split(piece.len()));
        let open = Arc::clone(&self.open);
        Frame::data(Bytes::from_owner(Unwritten { piece, _unread: unread, _open: open }))
    }
}

impl codegen::Body for AnswerBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if !this.part.is_empty() {
            return Poll::Ready(Some(Ok(this.piece())));
        }
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        let Some(Ok(frame)) = frame else { return Poll::Ready(frame) };
        if let (Some(log), Some(trailers)) = (&mut this.log, frame.trailers_ref()) {
            log.ended(trailers);
        }
        Poll::Ready(Some(Ok(match frame.into_data() {
            Err(trailers) => trailers,
            Ok(data) => {
                if let Some(log) = &mut this.log {
                    log.sent(&data);
                }
                // What it was encoded from is gone.
                if this.is_unary {
                    this.account.keep(CALL_BYTES);
                }
                this.unread = Some(this.connection.unread(data.len()));
                this.part = data;
                this.piece()
            }
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.part.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

impl From<AnswerBody> for Body {
    fn from(answer: AnswerBody) -> Self {
        Self::new(answer)
    }
}
