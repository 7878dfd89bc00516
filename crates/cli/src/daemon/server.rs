//! Answering `pinfold top` and Prometheus: HTTP on a Unix socket, and on a port of this machine where that is wanted.
//!
//! A request is two lines that are read and one answer that is written, so that no server's crate is needed: `GET /state` is the
//! state as JSON, `GET /metrics` the same for Prometheus. Whoever asks waits for the next beat of the daemon, which makes a
//! state only then: nobody pays for what nobody asks.
//!
//! A connection has a thread, and one second in all to say what it wants. Each socket has slots of its own. Where all are taken,
//! a new connection gets the slot of the oldest that has not yet said what it wants. So slow clients keep nobody out.
//!
//! On the port, a request has to name this machine as its `Host`: a page in a browser may not ask under another name that
//! leads here (DNS rebinding).

use super::config::Export;
use anyhow::{Context, Result, bail};
use pinfold_linux::own;
use pinfold_runtime::daemon::exposition;
use pinfold_runtime::daemon::state::State;
use std::collections::BTreeMap;
use std::fs::{self, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a client may take in all to ask, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// How much later than it should a beat may come: a machine may be so busy that the daemon has to wait for its turn.
const LATE: Duration = Duration::from_secs(10);

/// A request is shorter than this.
const LONGEST_REQUEST: usize = 8 << 10;

/// How many are answered at a time on a socket.
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

    fn lock(&self) -> MutexGuard<'_, Post> {
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
        let answering = Answering {
            board: Arc::clone(board),
            clients: Arc::default(),
            patience: interval * 2 + LATE,
            limit: PATIENCE,
        };
        let (unix, tcp) = (self.unix, self.tcp);
        let by_unix = answering.clone();
        std::thread::Builder::new()
            .name("unix".into())
            .spawn(move || unix.incoming().for_each(|stream| by_unix.accept(stream)))?;
        if let Some(tcp) = tcp {
            let by_tcp = Answering {
                clients: Arc::default(),
                ..answering
            };
            std::thread::Builder::new()
                .name("tcp".into())
                .spawn(move || tcp.incoming().for_each(|stream| by_tcp.accept(stream)))?;
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

/// What distinguishes a file from another that has its name later.
fn identity(there: &Metadata) -> (u64, u64) {
    (there.dev(), there.ino())
}

/// Answers the clients of one socket.
#[derive(Clone)]
struct Answering {
    board: Arc<Board>,
    clients: Arc<Clients>,
    /// How long the daemon may take for a state.
    patience: Duration,
    /// How long a client may take.
    limit: Duration,
}

/// Who is connected to a socket.
#[derive(Default)]
struct Clients(Mutex<Slots>);

#[derive(Default)]
struct Slots {
    /// Counts connections, so that older ones have lower numbers.
    last: u64,
    /// Ends the connection, while its request is not there; `None` while it is answered.
    taken: BTreeMap<u64, Option<Box<dyn Connection>>>,
}

impl Clients {
    /// A slot for a connection, if need be that of the oldest whose request is not there; `None` where there is none.
    fn take(self: &Arc<Self>, connection: Box<dyn Connection>) -> Option<Slot> {
        let mut slots = self.lock();
        if slots.taken.len() >= MOST_CLIENTS {
            let slow = slots
                .taken
                .iter()
                .find_map(|(&number, slow)| slow.as_ref().map(|_| number))?;
            if let Some(Some(slow)) = slots.taken.remove(&slow) {
                slow.end();
            }
        }
        slots.last += 1;
        let number = slots.last;
        slots.taken.insert(number, Some(connection));
        Some(Slot {
            clients: Arc::clone(self),
            number,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's slot, until it is dropped.
struct Slot {
    clients: Arc<Clients>,
    number: u64,
}

impl Slot {
    /// The request is there: nobody else gets the slot any more. False where somebody else has it already.
    fn keep(&self) -> bool {
        let mut slots = self.clients.lock();
        slots
            .taken
            .get_mut(&self.number)
            .is_some_and(|slow| slow.take().is_some())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.clients.lock().taken.remove(&self.number);
    }
}

/// A connection of either kind of socket.
trait Connection: Read + Write + Send + 'static {
    /// The same connection, to end it while it is read.
    fn again(&self) -> io::Result<Box<dyn Connection>>;
    fn end(&self);
    fn limit(&self, time: Duration) -> io::Result<()>;
    /// Whether whoever asks has to name the machine that he asks.
    fn has_host(&self) -> bool;
}

macro_rules! connection {
    ($stream:ty, $has_host:literal) => {
        impl Connection for $stream {
            fn again(&self) -> io::Result<Box<dyn Connection>> {
                Ok(Box::new(self.try_clone()?))
            }

            fn end(&self) {
                // It may have ended by itself.
                let _ = self.shutdown(Shutdown::Both);
            }

            fn limit(&self, time: Duration) -> io::Result<()> {
                self.set_read_timeout(Some(time))?;
                self.set_write_timeout(Some(time))
            }

            fn has_host(&self) -> bool {
                $has_host
            }
        }
    };
}
connection!(UnixStream, false);
connection!(TcpStream, true);

/// A connection for a limited time in all, however many calls it takes.
struct Limited<'a> {
    connection: &'a mut dyn Connection,
    deadline: Instant,
}

impl Limited<'_> {
    fn limit(&self) -> io::Result<()> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.connection.limit(left)
    }
}

impl Read for Limited<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.limit()?;
        self.connection.read(buffer)
    }
}

impl Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.limit()?;
        self.connection.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.connection.flush()
    }
}

impl Answering {
    fn accept<C: Connection>(&self, stream: io::Result<C>) {
        let Ok((mut stream, again)) = stream.and_then(|stream| stream.again().map(|again| (stream, again))) else {
            // Out of descriptors, most likely: not to be asked again at once.
            std::thread::sleep(Duration::from_millis(100));
            return;
        };
        let Some(slot) = self.clients.take(again) else { return };
        let answering = self.clone();
        // Where there is no thread, the connection ends with what would have run.
        let _ = std::thread::Builder::new().name("client".into()).spawn(move || {
            // Whoever has gone needs no answer.
            let _ = answering.answer(&mut stream, &slot);
        });
    }

    fn limited<'a>(&self, connection: &'a mut dyn Connection) -> Limited<'a> {
        Limited {
            connection,
            deadline: Instant::now() + self.limit,
        }
    }

    fn answer(&self, connection: &mut dyn Connection, slot: &Slot) -> io::Result<()> {
        let request = read_request(&mut self.limited(connection))?;
        if !slot.keep() {
            return Ok(());
        }
        let (status, kind, body) = self.response(&request, connection.has_host());
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let mut limited = self.limited(connection);
        limited.write_all(head.as_bytes())?;
        if !request.starts_with("HEAD ") {
            limited.write_all(body.as_bytes())?;
        }
        limited.flush()
    }

    fn response(&self, request: &str, has_host: bool) -> (&'static str, &'static str, String) {
        const PLAIN: &str = "text/plain; charset=utf-8";
        if has_host && !asks_this_machine(request) {
            let text = "ask for localhost, or for the address that the daemon listens on\n";
            return ("421 Misdirected Request", PLAIN, text.to_owned());
        }
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

/// Whether the request's `Host` is this machine: `localhost` or an address of its own, with a port or without.
fn asks_this_machine(request: &str) -> bool {
    let headers = request.lines().skip(1).filter_map(|line| line.split_once(':'));
    let mut hosts = headers.filter(|(name, _)| name.eq_ignore_ascii_case("host"));
    let (Some((_, host)), None) = (hosts.next(), hosts.next()) else {
        return false;
    };
    let host = host.trim();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let is_loopback = |host: &str| {
        let with_port = host.parse().map(|address: SocketAddr| address.ip());
        let address = with_port.or_else(|_| host.trim_matches(['[', ']']).parse::<IpAddr>());
        address.is_ok_and(|address| address.is_loopback())
    };
    name.eq_ignore_ascii_case("localhost") || is_loopback(host)
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
        let answering = answering(Duration::ZERO);
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("POST /state HTTP/1.1\r\n\r\n", "405"),
            ("GET /metrics?a=b HTTP/1.1\r\n\r\n", "503"),
            ("\r\n\r\n", "405"),
        ] {
            assert!(answering.response(request, false).0.starts_with(status), "{request}");
        }
    }

    fn answering(limit: Duration) -> Answering {
        Answering {
            board: Arc::default(),
            clients: Arc::default(),
            patience: Duration::ZERO,
            limit,
        }
    }

    #[test]
    fn on_the_port_only_who_names_this_machine_is_answered() {
        let answering = answering(Duration::ZERO);
        for (host, answered) in [
            ("localhost", true),
            ("LOCALHOST:9798", true),
            ("127.0.0.1", true),
            ("127.0.0.1:9798", true),
            ("[::1]:9798", true),
            ("[::1]", true),
            ("rebound.example.org:9798", false),
            ("localhost.example.org", false),
            ("192.0.2.1:9798", false),
            ("", false),
        ] {
            let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n");
            let status = if answered { "404" } else { "421" };
            assert!(answering.response(&request, true).0.starts_with(status), "{host}");
        }
        for request in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: localhost\r\nHost: example.org\r\n\r\n",
        ] {
            assert!(answering.response(request, true).0.starts_with("421"), "{request}");
        }
    }

    /// A server without a daemon, and its port.
    fn server(limit: Duration) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answering = answering(limit);
        std::thread::spawn(move || listener.incoming().for_each(|stream| answering.accept(stream)));
        address
    }

    #[test]
    fn clients_that_do_not_finish_keep_nobody_out() {
        let address = server(Duration::from_secs(600));
        let slow: Vec<TcpStream> = (0..2 * MOST_CLIENTS)
            .map(|_| {
                let mut stream = TcpStream::connect(address).unwrap();
                // The server may have ended it for the next one.
                let _ = stream.write_all(b"G");
                stream
            })
            .collect();
        for number in 0..72 {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 404"), "request {number}: {answer:?}");
        }
        drop(slow);
    }

    #[test]
    fn a_request_has_a_limit_in_all_and_not_for_each_byte() {
        let address = server(Duration::from_millis(200));
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut end = [0];
        loop {
            // A byte each 20 ms, until the server has had enough.
            let ended = stream.write_all(b"G").is_err() || matches!(stream.read(&mut end), Ok(0));
            if ended {
                break;
            }
            assert!(Instant::now() < deadline, "the connection has no end");
        }
    }
}
