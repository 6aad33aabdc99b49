//! The server's resident memory, as far as it can be read: from its metrics, or from the system if it runs on this machine.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

const METRIC: &str = "process_resident_memory_bytes";

/// Its source.
#[derive(Debug, Clone)]
pub enum Source {
    /// HOST:PORT of the admin listener.
    Admin(String),
    /// A process of this machine.
    Process(u32),
}

impl Source {
    /// Resident bytes; `None` if they cannot be read.
    pub async fn bytes(&self) -> Option<u64> {
        match self {
            Self::Process(id) => {
                in_status(&std::fs::read_to_string(format!("/proc/{id}/status")).ok()?, "VmRSS:")
            }
            Self::Admin(address) => in_metrics(&get(address, "/metrics").await?, METRIC),
        }
    }
}

/// The answer of the admin listener, with its head.
pub async fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    Some(answer)
}

/// The bytes of a line of `/proc/PID/status`.
pub fn in_status(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// The value of a metric without labels.
pub fn in_metrics(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    Some(value.trim().parse::<f64>().ok()? as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_both_texts() {
        assert_eq!(in_status("VmPeak:\t 9 kB\nVmRSS:\t    2048 kB\n", "VmRSS:"), Some(2 << 20));
        let text = "HTTP/1.1 200 OK\r\n\r\n# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes 3.5e7\n";
        assert_eq!(in_metrics(text, METRIC), Some(35_000_000));
        assert_eq!(
            (in_status("", "VmRSS:"), in_metrics("HTTP/1.1 404 Not Found\r\n\r\n", METRIC)),
            (None, None)
        );
    }
}
