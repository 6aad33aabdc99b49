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
    frames::{COMPRESSED, HEADER, framed, take},
};

/// Reads nothing before the service does, and refuses what is no message in the way of a body that fails.
pub fn body(sent: Body, call: Arc<Call>, options: Arc<Options>, meter: Meter) -> Body {
    let message = async move {
        let mut charged = Charged { meter, bytes: 0 };
        let sent = match &call.message {
            Some(message) => message.clone(),
            None => whole(sent, &options, &mut charged).await?,
        };
        let message = message(sent, &call, &options, &mut charged).await?;
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
        if whole.len() + data.len() > options.message_bytes + HEADER {
            return Err((options.refusal)(Refused::TooLarge));
        }
        charged.take(data.len())?;
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

/// The message in binary.
async fn message(
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
        true => {
            // It may become as much.
            charged.take(limit)?;
            let message = decompressed(&sent, limit).map_err(options.refusal)?;
            charged.give_back(limit - message.len());
            message
        }
        false => sent,
    };
    if message.len() > limit {
        return Err((options.refusal)(Refused::TooLarge));
    }
    call.codec.decode(message, call.method.input()).await.map_err(options.refusal)
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
}
