//! PostgreSQL's messages on the wire, as far as the proxy looks at them.

use std::io;

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
};

/// Codes in the place of a protocol's version.
const SSL_REQUEST: i32 = 80_877_103;
const GSS_REQUEST: i32 = 80_877_104;

/// Forwards the first message. The proxy has no TLS.
pub async fn start_up(client: &mut TcpStream, server: &mut TcpStream) -> io::Result<()> {
    loop {
        let length = client.read_i32().await?;
        let code = client.read_i32().await?;
        if matches!(code, SSL_REQUEST | GSS_REQUEST) {
            client.write_all(b"N").await?;
            continue;
        }
        let mut rest = vec![0; length_of(length, 8)?];
        client.read_exact(&mut rest).await?;
        server.write_i32(length).await?;
        server.write_i32(code).await?;
        return server.write_all(&rest).await;
    }
}

fn length_of(length: i32, counted: usize) -> io::Result<usize> {
    let rest = usize::try_from(length).ok().and_then(|length| length.checked_sub(counted));
    rest.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// A message: its type and what follows its length.
pub async fn read_message(from: &mut (impl AsyncRead + Unpin)) -> io::Result<(u8, Vec<u8>)> {
    let kind = from.read_u8().await?;
    let mut body = vec![0; length_of(from.read_i32().await?, 4)?];
    from.read_exact(&mut body).await?;
    Ok((kind, body))
}

pub async fn write_message(
    to: &mut (impl AsyncWrite + Unpin),
    kind: u8,
    body: &[u8],
) -> io::Result<()> {
    to.write_u8(kind).await?;
    to.write_i32(i32::try_from(body.len() + 4).map_err(io::Error::other)?).await?;
    to.write_all(body).await
}

/// The strings that a message begins with.
pub fn strings(body: &[u8]) -> impl Iterator<Item = String> {
    body.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned())
}
