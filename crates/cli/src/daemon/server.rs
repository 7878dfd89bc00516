//! Answering `pinfold top` and Prometheus: HTTP on a Unix socket, and on a port of this machine where that is wanted.
//!
//! A request is two lines that are read and one answer that is written, so that no server's crate is needed: `GET /state` is the
//! state as JSON, `GET /metrics` the same for Prometheus. Whoever asks waits for the next beat of the daemon, which makes a
//! state only then: nobody pays for what nobody asks. Connections have a thread each, few at a time, and a second to say what
//! they want.

use super::config::Export;
use super::exposition;
use super::state::State;
use anyhow::{Context, Result, bail};
use pinfold_linux::own;
use std::fs::{self, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a client may take to ask, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// How much later than it should a beat may come: a machine may be so busy that the daemon has to wait for its turn.
const LATE: Duration = Duration::from_secs(10);

/// A request is shorter than this.
const LONGEST_REQUEST: usize = 8 << 10;

/// How many are answered at a time.
const MOST_CLIENTS: usize = 16;

/// What the loop and those who ask share.
#[derive(Default)]
pub(super) struct Board {
    post: Mutex<Post>,
    posted: Condvar,
}

#[derive(Default)]
struct Post {
    wanted: bool,
    number: u64,
    state: Option<Arc<State>>,
}

impl Board {
    /// Whether somebody waits for a state.
    pub(super) fn wanted(&self) -> bool {
        self.lock().wanted
    }

    /// Hands out a state.
    pub(super) fn post(&self, state: State) {
        let mut post = self.lock();
        post.state = Some(Arc::new(state));
        post.number += 1;
        post.wanted = false;
        self.posted.notify_all();
    }

    /// The next state; `None` when the daemon does not make one in time.
    fn next(&self, patience: Duration) -> Option<Arc<State>> {
        let deadline = Instant::now() + patience;
        let mut post = self.lock();
        let seen = post.number;
        while post.number == seen {
            post.wanted = true;
            let left = deadline.checked_duration_since(Instant::now())?;
            let waited = self.posted.wait_timeout(post, left);
            post = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        post.state.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Post> {
        self.post.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sockets, before anybody is answered.
pub(super) struct Listeners {
    unix: UnixListener,
    path: PathBuf,
    /// The socket's device and inode.
    socket: (u64, u64),
    tcp: Option<TcpListener>,
}

impl Listeners {
    /// Opens the sockets. The lock of the one daemon is held, so that a socket that is there is left by a dead one.
    pub(super) fn open(export: &Export, usual: &Path) -> Result<Self> {
        let path = export.socket.clone().unwrap_or_else(|| usual.to_owned());
        let failure = || {
            format!(
                "the socket {} cannot be made; name another with --socket",
                path.display()
            )
        };
        remove_dead_socket(&path).with_context(failure)?;
        let unix = UnixListener::bind(&path).with_context(failure)?;
        fs::set_permissions(&path, Permissions::from_mode(export.mode.0)).with_context(failure)?;
        let socket = identity(&fs::symlink_metadata(&path).with_context(failure)?);
        let tcp = match export.listen {
            None => None,
            Some(address) => Some(TcpListener::bind(address.0).with_context(|| {
                format!(
                    "{} cannot be listened on; name another address with --listen",
                    address.0
                )
            })?),
        };
        Ok(Self {
            unix,
            path,
            socket,
            tcp,
        })
    }

    /// Answers from now on, until the process ends. `interval` is how often there can be a state.
    pub(super) fn serve(self, board: &Arc<Board>, interval: Duration) -> io::Result<Server> {
        let clients = Arc::new(AtomicUsize::new(0));
        let patience = interval * 2 + LATE;
        let (unix, tcp) = (self.unix, self.tcp);
        let answering = Answering {
            board: Arc::clone(board),
            clients,
            patience,
        };
        let again = answering.clone();
        std::thread::Builder::new()
            .name("unix".into())
            .spawn(move || unix.incoming().for_each(|stream| again.accept(stream)))?;
        if let Some(tcp) = tcp {
            std::thread::Builder::new()
                .name("tcp".into())
                .spawn(move || tcp.incoming().for_each(|stream| answering.accept(stream)))?;
        }
        Ok(Server {
            path: self.path,
            socket: self.socket,
        })
    }
}

/// Removes the socket that a dead daemon has left at `path`. Anything else stays, and is an error.
fn remove_dead_socket(path: &Path) -> Result<()> {
    let there = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        there => there?,
    };
    if let Some(why) = own::not_an_own_socket(&there) {
        bail!("something else is there: {why}");
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(fs::remove_file(path)?),
        _ => bail!("another process listens there"),
    }
}

/// What answers. Its socket goes with it.
pub(super) struct Server {
    path: PathBuf,
    socket: (u64, u64),
}

impl Drop for Server {
    fn drop(&mut self) {
        // Somebody may have put something else in its place.
        if fs::symlink_metadata(&self.path).is_ok_and(|there| identity(&there) == self.socket) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// By what a file is told from another that has its name later.
fn identity(there: &Metadata) -> (u64, u64) {
    (there.dev(), there.ino())
}

#[derive(Clone)]
struct Answering {
    board: Arc<Board>,
    clients: Arc<AtomicUsize>,
    patience: Duration,
}

/// A connection that gives up in time.
trait Client: Read + Write + Send + 'static {
    fn give_up_after(&self, patience: Duration) -> io::Result<()>;
}

impl Client for UnixStream {
    fn give_up_after(&self, patience: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(patience))?;
        self.set_write_timeout(Some(patience))
    }
}

impl Client for TcpStream {
    fn give_up_after(&self, patience: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(patience))?;
        self.set_write_timeout(Some(patience))
    }
}

impl Answering {
    fn accept<C: Client>(&self, stream: io::Result<C>) {
        let Ok(mut stream) = stream else {
            // Out of descriptors, most likely: not to be asked again at once.
            std::thread::sleep(Duration::from_millis(100));
            return;
        };
        if self.clients.fetch_add(1, Ordering::SeqCst) >= MOST_CLIENTS {
            self.clients.fetch_sub(1, Ordering::SeqCst);
            return;
        }
        let answering = self.clone();
        let begun = std::thread::Builder::new().name("client".into()).spawn(move || {
            // Whoever has gone needs no answer.
            let _ = answering.answer(&mut stream);
            answering.clients.fetch_sub(1, Ordering::SeqCst);
        });
        if begun.is_err() {
            self.clients.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn answer(&self, stream: &mut impl Client) -> io::Result<()> {
        stream.give_up_after(PATIENCE)?;
        let request = read_request(stream)?;
        let (status, kind, body) = self.response(&request);
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        if !request.starts_with("HEAD ") {
            stream.write_all(body.as_bytes())?;
        }
        stream.flush()
    }

    fn response(&self, request: &str) -> (&'static str, &'static str, String) {
        const PLAIN: &str = "text/plain; charset=utf-8";
        let mut words = request.split_ascii_whitespace();
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if !matches!(method, "GET" | "HEAD") {
            return ("405 Method Not Allowed", PLAIN, "only GET is understood\n".to_owned());
        }
        let path = target.split('?').next().unwrap_or_default();
        if !matches!(path, "/metrics" | "/state") {
            return ("404 Not Found", PLAIN, "there are /metrics and /state\n".to_owned());
        }
        match self.board.next(self.patience) {
            None => (
                "503 Service Unavailable",
                PLAIN,
                "the daemon has not made a beat in time\n".to_owned(),
            ),
            Some(state) if path == "/metrics" => ("200 OK", exposition::CONTENT_TYPE, exposition::text(&state)),
            Some(state) => {
                let text = serde_json::to_string(&*state).unwrap_or_default();
                ("200 OK", "application/json", text + "\n")
            }
        }
    }
}

/// Reads up to the empty line that ends a request's head.
fn read_request(stream: &mut impl Read) -> io::Result<String> {
    let mut bytes = vec![];
    let mut buffer = [0; 512];
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        let length = stream.read(&mut buffer)?;
        if length == 0 || bytes.len() + length > LONGEST_REQUEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        bytes.extend_from_slice(&buffer[..length]);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_without_an_end_or_too_long_is_no_request() {
        assert!(read_request(&mut &b"GET /state HTTP/1.1\r\n"[..]).is_err());
        assert!(read_request(&mut vec![b'x'; 2 * LONGEST_REQUEST].as_slice()).is_err());
        let whole = read_request(&mut &b"GET /state HTTP/1.1\r\n\r\n"[..]).unwrap();
        assert!(whole.starts_with("GET /state"));
    }

    #[test]
    fn only_a_socket_of_ours_on_which_nobody_listens_gives_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.sock");
        let open = || {
            let export = Export {
                socket: Some(path.clone()),
                ..Export::default()
            };
            Listeners::open(&export, Path::new("unused"))
        };
        fs::write(&path, "notes").unwrap();
        let refused = format!("{:#}", open().err().unwrap());
        assert!(
            refused.contains("no socket") && refused.contains("--socket"),
            "{refused}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "notes");
        fs::remove_file(&path).unwrap();

        let elsewhere = folder.path().join("elsewhere.sock");
        drop(UnixListener::bind(&elsewhere).unwrap());
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(open().is_err() && elsewhere.exists());
        fs::remove_file(&path).unwrap();

        let listener = UnixListener::bind(&path).unwrap();
        let refused = format!("{:#}", open().err().unwrap());
        assert!(refused.contains("another process listens"), "{refused}");
        drop(listener);
        assert!(open().is_ok());
    }

    #[test]
    fn what_is_not_there_is_told_of_without_waiting_for_the_daemon() {
        let answering = Answering {
            board: Arc::default(),
            clients: Arc::default(),
            patience: Duration::ZERO,
        };
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("POST /state HTTP/1.1\r\n\r\n", "405"),
            ("GET /metrics?a=b HTTP/1.1\r\n\r\n", "503"),
            ("\r\n\r\n", "405"),
        ] {
            assert!(answering.response(request).0.starts_with(status), "{request}");
        }
    }
}
