//! Requests the state of the daemon.

use anyhow::{Context, Result, bail};
use pinfold_files::input;
use pinfold_runtime::daemon::state::State;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The time within which the daemon must answer: several of its intervals.
const PATIENCE: Duration = Duration::from_secs(60);

/// The daemon's state.
pub(super) fn ask(socket: &Path) -> Result<State> {
    State::read(&ask_text(socket)?).with_context(|| socket.display().to_string())
}

/// The daemon's state as it sends it.
pub(super) fn ask_text(socket: &Path) -> Result<String> {
    let mut stream = UnixStream::connect(socket).map_err(|error| explained(&error, socket))?;
    let shown = || format!("{} does not answer", socket.display());
    stream.set_read_timeout(Some(PATIENCE)).with_context(shown)?;
    stream
        .write_all(b"GET /state HTTP/1.1\r\nHost: pinfold\r\n\r\n")
        .with_context(shown)?;
    let mut answer = String::new();
    (&stream)
        .take(input::MOST)
        .read_to_string(&mut answer)
        .with_context(shown)?;
    let (head, body) = answer.split_once("\r\n\r\n").with_context(shown)?;
    if !head.starts_with("HTTP/1.1 200 ") {
        bail!("{}: {}", socket.display(), body.trim());
    }
    Ok(body.to_owned())
}

/// Why no daemon answers, and the remedy.
fn explained(error: &io::Error, socket: &Path) -> anyhow::Error {
    let socket = socket.display();
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => anyhow::anyhow!(
            "no daemon answers at {socket}: start one (`pinfold daemon`, or `systemctl start pinfold`), or name its socket with \
             --socket"
        ),
        io::ErrorKind::PermissionDenied => anyhow::anyhow!(
            "this user may not ask the daemon at {socket}: run this as root, or let others ask with `mode` in [export] of its \
             configuration"
        ),
        _ => anyhow::anyhow!("{socket}: {error}"),
    }
}
