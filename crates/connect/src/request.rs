//! The body of a request of gRPC, made of one of Connect as the service reads it.

use std::sync::Arc;

use futures_util::{TryStreamExt as _, stream};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use prost::bytes::{Bytes, BytesMut};
use tonic::{Status, body::Body};

use crate::{
    Charged, Meter, Options, Refused,
    call::Call,
    codec::{Codec, decode, decompressed},
    frames::{COMPRESSED, HEADER, header, take},
};

/// Bytes of a message for one of its JSON, at most: in a list of any values `0,` becomes 11.
pub const BINARY_FOR_JSON: usize = 6;

/// Reads nothing before the service does, and refuses what is no message in the way of a body that fails. Of a call that was refused it is
/// read to its end, kept nowhere and converted to nothing.
pub fn body(sent: Body, call: Arc<Call>, options: Arc<Options>, meter: Meter) -> Body {
    let message = async move {
        let mut charged = Charged { meter, bytes: 0 };
        let sent = match &call.message {
            Some(message) => message.clone(),
            None => whole(sent, &options, &mut charged).await?,
        };
        if charged.meter.is_refused() {
            return Ok(Vec::new());
        }
        let message = message(sent, &call, &options, &mut charged)?;
        Ok::<_, Status>(vec![header(0, message.len()), message])
    };
    let pieces = |pieces: Vec<Bytes>| {
        stream::iter(pieces.into_iter().map(|it| Ok::<_, Status>(Frame::data(it))))
    };
    Body::new(StreamBody::new(stream::once(message).map_ok(pieces).try_flatten()))
}

/// All that is sent, within the limit.
async fn whole(mut body: Body, options: &Options, charged: &mut Charged) -> Result<Bytes, Status> {
    let (mut whole, mut read) = (BytesMut::new(), 0);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        read += data.len();
        // An envelope, perhaps.
        if read > options.message_bytes + HEADER {
            return Err((options.refusal)(Refused::TooLarge));
        }
        if !charged.meter.is_refused() {
            charged.take(data.len())?;
            whole.extend_from_slice(&data);
        }
    }
    Ok(whole.freeze())
}

/// The message in binary.
fn message(
    sent: Bytes,
    call: &Call,
    options: &Options,
    charged: &mut Charged,
) -> Result<Bytes, Status> {
    let (is_compressed, sent) = match call.is_stream {
        true => enveloped(sent, call).map_err(options.refusal)?,
        // Nothing is also an empty message that is compressed.
        false => (call.is_gzip && !sent.is_empty(), sent),
    };
    let limit = options.message_bytes;
    let message = match is_compressed {
        true => charged.making(limit, options, || decompressed(&sent, limit))?,
        false => sent,
    };
    if message.len() > limit {
        return Err((options.refusal)(Refused::TooLarge));
    }
    match call.codec {
        Codec::Proto => Ok(message),
        Codec::Json => {
            let most = message.len().saturating_mul(BINARY_FOR_JSON).min(limit);
            charged.making(most, options, || decode(&message, &call.method.input(), limit))
        }
    }
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

#[cfg(test)]
mod tests {
    use std::{
        io::Write as _,
        sync::atomic::{AtomicUsize, Ordering::Relaxed},
    };

    use flate2::{Compression, write::GzEncoder};
    use prost_reflect::DescriptorPool;
    use prost_types::{
        DescriptorProto, FileDescriptorProto, MethodDescriptorProto, ServiceDescriptorProto,
    };

    use super::*;
    use crate::Charge;

    const LIMIT: usize = 1000;

    /// What is held, the most that was, and what may be.
    struct Account(AtomicUsize, AtomicUsize, usize);

    impl Charge for Account {
        fn take(&self, bytes: usize) -> Result<(), Status> {
            let held = self.0.fetch_add(bytes, Relaxed) + bytes;
            if held > self.2 {
                self.0.fetch_sub(bytes, Relaxed);
                return Err(Status::resource_exhausted("full"));
            }
            self.1.fetch_max(held, Relaxed);
            Ok(())
        }

        fn give_back(&self, bytes: usize) {
            self.0.fetch_sub(bytes, Relaxed);
        }

        fn unread(&self, _: usize) -> Box<dyn Send + Sync> {
            Box::new(())
        }
    }

    /// A service with a method of empty messages.
    fn pool() -> DescriptorPool {
        let named = |it: &str| Some(it.to_owned());
        let method = MethodDescriptorProto {
            name: named("Do"),
            input_type: named(".p.M"),
            output_type: named(".p.M"),
            ..Default::default()
        };
        let file = FileDescriptorProto {
            name: named("p.proto"),
            package: named("p"),
            syntax: named("proto3"),
            message_type: vec![DescriptorProto { name: named("M"), ..Default::default() }],
            service: vec![ServiceDescriptorProto {
                name: named("S"),
                method: vec![method],
                ..Default::default()
            }],
            ..Default::default()
        };
        let mut pool = DescriptorPool::new();
        pool.add_file_descriptor_proto(file).unwrap();
        pool
    }

    fn refusal(refused: Refused) -> Status {
        match refused {
            Refused::TooLarge => Status::resource_exhausted("too large"),
            _ => Status::invalid_argument("no message"),
        }
    }

    /// Reads the body of a call that is sent with gzip; the most that was charged.
    async fn read(plain: &[u8], most: usize) -> (Result<Bytes, Status>, usize) {
        read_of(plain, most, false).await
    }

    async fn read_of(
        plain: &[u8],
        most: usize,
        is_refused: bool,
    ) -> (Result<Bytes, Status>, usize) {
        let pool = pool();
        let method = pool.get_service_by_name("p.S").unwrap().methods().next().unwrap();
        let request = http::Request::post("/p.S/Do")
            .header("content-type", "application/proto")
            .header("content-encoding", "gzip");
        let call = Call::read(&request.body(()).unwrap().into_parts().0, &method).ok().unwrap();
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(plain).unwrap();
        let sent = Body::new(http_body_util::Full::from(encoder.finish().unwrap()));
        let options = Options { pool, message_bytes: LIMIT, refusal };
        let (meter, account) = (Meter::default(), Account(0.into(), 0.into(), most));
        let account = Arc::new(account);
        meter.set(Arc::clone(&account) as Arc<dyn Charge>);
        if is_refused {
            meter.refuse();
        }
        let body = body(sent, Arc::new(call), Arc::new(options), meter);
        let read = body.collect().await.map(http_body_util::Collected::to_bytes);
        assert_eq!(account.0.load(Relaxed), 0, "all of it is given back");
        (read, account.1.load(Relaxed))
    }

    #[tokio::test]
    async fn what_a_message_is_decompressed_into_is_charged_before_it_is() {
        let (read, charged) = read(&[7; LIMIT], 10 * LIMIT).await;
        assert_eq!(read.unwrap().len(), HEADER + LIMIT);
        assert!(charged > LIMIT, "{charged}");
        let (refused, _) = self::read(&[7; LIMIT], LIMIT).await;
        assert_eq!(refused.unwrap_err().message(), "full");
        let (refused, _) = self::read(&[7; LIMIT + 1], 10 * LIMIT).await;
        assert_eq!(refused.unwrap_err().message(), "too large");
    }

    #[tokio::test]
    async fn of_a_call_that_was_refused_nothing_is_kept_or_converted() {
        let (read, charged) = read_of(b"no message", LIMIT, true).await;
        assert_eq!((read.unwrap().len(), charged), (0, 0));
    }
}
