//! The body of a request of gRPC, made of one of Connect as the service reads it.

use std::sync::Arc;

use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use prost::bytes::{Bytes, BytesMut};
use tonic::{Status, body::Body};

use crate::{
    Charged, Meter, Options, Refused,
    call::Call,
    codec::decompressed,
    frames::{COMPRESSED, framed, take},
};

/// Reads nothing before the service does, and refuses what is no message in the way of a body that fails.
pub fn body(sent: Body, call: Arc<Call>, options: Arc<Options>, meter: Meter) -> Body {
    let message = async move {
        let mut charged = Charged { meter, bytes: 0 };
        let sent = match &call.message {
            Some(message) => message.clone(),
            None => whole(sent, &options, &mut charged).await?,
        };
        let message = message(sent, &call, &options).await.map_err(options.refusal)?;
        Ok::<_, Status>(Frame::data(framed(0, &message)))
    };
    Body::new(StreamBody::new(stream::once(message)))
}

/// All that is sent, within the limit.
async fn whole(mut body: Body, options: &Options, charged: &mut Charged) -> Result<Bytes, Status> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        // An envelope, perhaps.
        if whole.len() + data.len() > options.message_bytes + crate::frames::HEADER {
            return Err((options.refusal)(Refused::TooLarge));
        }
        charged.take(data.len())?;
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

/// The message in binary.
async fn message(sent: Bytes, call: &Call, options: &Options) -> Result<Bytes, Refused> {
    let (is_compressed, sent) = match call.is_stream {
        true => enveloped(sent, call)?,
        // Nothing is also an empty message that is compressed.
        false => (call.is_gzip && !sent.is_empty(), sent),
    };
    let message = match is_compressed {
        true => decompressed(&sent, options.message_bytes)?,
        false => sent,
    };
    if message.len() > options.message_bytes {
        return Err(Refused::TooLarge);
    }
    call.codec.decode(message, call.method.input()).await
}

/// The message of an envelope, which is the only one, and whether it is compressed.
fn enveloped(mut sent: Bytes, call: &Call) -> Result<(bool, Bytes), Refused> {
    match take(&mut sent).filter(|_| sent.is_empty()) {
        None => Err(Refused::NotOne),
        Some((0, message)) => Ok((false, message)),
        Some((COMPRESSED, message)) if call.is_gzip => Ok((true, message)),
        Some(_) => Err(Refused::Flags),
    }
}
