//! Programs on a pseudo-terminal.

use std::{
    fs::{File, OpenOptions},
    io::Read as _,
    process::{Child, Command, ExitStatus},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use anstream::adapter::strip_str;
use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

/// Longer than anything here takes on a slow and busy machine. It decides nothing but when to give up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that ends with its test, also if that fails.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program whose output goes to a pseudo-terminal.
pub struct Terminal {
    child: Guarded,
    output: Receiver<String>,
    /// Everything that came so far, with its colours.
    raw: String,
}

impl Terminal {
    /// Runs the command on a terminal with this number of columns.
    pub fn run(command: &mut Command, columns: u16) -> Self {
        let controller =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let path = ptsname(&controller, Vec::new()).unwrap();
        let terminal =
            OpenOptions::new().read(true).write(true).open(path.to_str().unwrap()).unwrap();
        let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&controller, size).unwrap();
        let child = command
            .env("TERM", "xterm-256color")
            .env_remove("CLICOLOR")
            .env_remove("CLICOLOR_FORCE")
            .stdin(terminal.try_clone().unwrap())
            .stdout(terminal.try_clone().unwrap())
            .stderr(terminal)
            .spawn()
            .unwrap();
        // The command keeps the terminal open for as long as it has its handles.
        command.stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::null());
        command.stderr(std::process::Stdio::null());
        let (sender, output) = mpsc::channel();
        let mut controller = File::from(controller);
        thread::spawn(move || {
            let mut pending = Vec::new();
            let mut bytes = [0; 4096];
            // On Linux a read fails when no process has the terminal open any more.
            while let Ok(number) = controller.read(&mut bytes)
                && number > 0
            {
                pending.extend(&bytes[..number]);
                let valid = match std::str::from_utf8(&pending) {
                    Ok(text) => text.len(),
                    Err(error) => error.valid_up_to(),
                };
                let rest = pending.split_off(valid);
                let text = String::from_utf8(std::mem::replace(&mut pending, rest)).unwrap();
                if sender.send(text).is_err() {
                    return;
                }
            }
        });
        Self { child: Guarded(child), output, raw: String::new() }
    }

    /// The text that came, without colours and cursor movements.
    pub fn text(&self) -> String {
        strip_str(&self.raw).to_string().replace('\r', "")
    }

    /// Waits until the text is there.
    pub fn wait_for(&mut self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.text().contains(text) {
            let left = deadline.saturating_duration_since(Instant::now());
            let more = self.output.recv_timeout(left);
            self.raw += &more.unwrap_or_else(|_| panic!("no {text:?} in {}", self.text()));
        }
    }

    pub fn wait(mut self) -> (ExitStatus, String, String) {
        while let Ok(more) = self.output.recv_timeout(PATIENCE) {
            self.raw += &more;
        }
        let status = self.child.0.wait().unwrap();
        (status, self.text(), self.raw)
    }

    pub fn stop(mut self) -> String {
        let id = self.child.0.id().to_string();
        assert!(Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
        while let Ok(more) = self.output.recv_timeout(PATIENCE) {
            self.raw += &more;
        }
        self.child.0.wait().unwrap();
        self.text()
    }
}
