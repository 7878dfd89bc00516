//! A small HTTP server on a Unix socket, and optionally on a port of this machine.
//!
//! The server reads the request's head and writes one answer. It supports only `GET` and `HEAD`, so it needs no server
//! crate.
//!
//! Each connection has a thread, and one second in total for its request. Each socket has separate slots. If all slots
//! are taken, a new connection gets the slot of the oldest connection whose request is incomplete. So slow clients
//! cannot block others.
//!
//! On the port, a request must name this machine as its `Host`. So a page in a browser cannot read the answers under
//! another name that resolves to this machine (DNS rebinding).

use crate::own;
use std::collections::BTreeMap;
use std::fs::{self, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The total time that a client has to send its request and to read the answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The limit of a request's length, in bytes.
const LONGEST_REQUEST: usize = 8 << 10;

/// The number of connections that a socket serves at one time.
const MOST_CLIENTS: usize = 16;

/// The content of a server. Several threads call it at the same time.
pub trait Answer: Send + Sync + 'static {
    /// The answer to `GET` of a path without the query.
    fn get(&self, path: &str) -> Response;
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code and its text, such as `200 OK`.
    pub status: &'static str,
    /// The media type of the body.
    pub kind: &'static str,
    /// The body.
    pub body: String,
}

impl Response {
    /// An answer in plain text.
    pub fn plain(status: &'static str, body: &str) -> Self {
        Self {
            status,
            kind: "text/plain; charset=utf-8",
            body: body.to_owned(),
        }
    }

    /// A successful answer with a document.
    pub fn document(kind: &'static str, body: String) -> Self {
        Self {
            status: "200 OK",
            kind,
            body,
        }
    }
}

/// Why a socket cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The system refuses to create the Unix socket.
    #[error("the socket {} cannot be created; name another with --socket", path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The socket's path has a file other than the socket of a server that has ended.
    #[error("the socket {} cannot be created: {why}; name another with --socket", path.display())]
    Taken {
        /// Its path.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The port is not available.
    #[error("cannot listen on {address}; name another address with --listen")]
    Port {
        /// The address and the port.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
}

/// The sockets, before the first request is answered.
#[derive(Debug)]
pub struct Listeners {
    unix: UnixListener,
    path: PathBuf,
    /// The socket's device and inode.
    socket: (u64, u64),
    tcp: Option<TcpListener>,
}

impl Listeners {
    /// Opens a Unix socket at `path` with the permissions `mode`, and a port if one is given. The caller must hold a
    /// lock that excludes other servers of its kind, so that a socket at `path` belongs to a server that has ended.
    pub fn open(path: &Path, mode: u32, port: Option<SocketAddr>) -> Result<Self, ListenError> {
        remove_dead_socket(path)?;
        let (unix, socket) = bind(path, mode).map_err(|source| ListenError::Socket {
            path: path.to_owned(),
            source,
        })?;
        let listen = |address| TcpListener::bind(address).map_err(|source| ListenError::Port { address, source });
        Ok(Self {
            unix,
            path: path.to_owned(),
            socket,
            tcp: port.map(listen).transpose()?,
        })
    }

    /// Answers requests until the process ends.
    pub fn serve(self, answer: Arc<dyn Answer>) -> io::Result<Server> {
        let answering = Answering {
            answer,
            clients: Arc::default(),
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

/// Creates a Unix socket. Returns it with its device and inode.
fn bind(path: &Path, mode: u32) -> io::Result<(UnixListener, (u64, u64))> {
    let unix = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    let socket = identity(&fs::symlink_metadata(path)?);
    Ok((unix, socket))
}

/// Removes the socket of a server that has ended at `path`. Any other file stays, and is an error.
fn remove_dead_socket(path: &Path) -> Result<(), ListenError> {
    let failed = |source| ListenError::Socket {
        path: path.to_owned(),
        source,
    };
    let taken = |why: String| ListenError::Taken {
        path: path.to_owned(),
        why,
    };
    let there = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        there => there.map_err(failed)?,
    };
    if let Some(why) = own::not_an_own_socket(&there) {
        return Err(taken(format!("another file has its name: {why}")));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path).map_err(failed),
        _ => Err(taken("another process listens there".to_owned())),
    }
}

/// A server that answers. The Unix socket is removed when this is dropped.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    socket: (u64, u64),
}

impl Drop for Server {
    fn drop(&mut self) {
        // Another program may have created another file in its place.
        if fs::symlink_metadata(&self.path).is_ok_and(|there| identity(&there) == self.socket) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The identity of a file, which differs for a later file of the same name.
fn identity(there: &Metadata) -> (u64, u64) {
    (there.dev(), there.ino())
}

/// Answers the clients of one socket.
#[derive(Clone)]
struct Answering {
    answer: Arc<dyn Answer>,
    clients: Arc<Clients>,
    /// The time limit of a client.
    limit: Duration,
}

/// The connections of a socket.
#[derive(Default)]
struct Clients(Mutex<Slots>);

#[derive(Default)]
struct Slots {
    /// Counts connections, so that older ones have lower numbers.
    last: u64,
    /// The connection while its request is incomplete. `None` while it is answered.
    taken: BTreeMap<u64, Option<Box<dyn Connection>>>,
}

impl Clients {
    /// A slot for a connection. If all slots are taken, the oldest connection whose request is incomplete loses its
    /// slot. `None` if there is no such connection.
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
    /// Keeps the slot, because the request is complete. False if another connection has taken it.
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
    /// A second handle that can end the connection while another thread reads it.
    fn again(&self) -> io::Result<Box<dyn Connection>>;
    fn end(&self);
    fn limit(&self, time: Duration) -> io::Result<()>;
    /// Whether a request must name this machine as its `Host`.
    fn has_host(&self) -> bool;
}

macro_rules! connection {
    ($stream:ty, $has_host:literal) => {
        impl Connection for $stream {
            fn again(&self) -> io::Result<Box<dyn Connection>> {
                Ok(Box::new(self.try_clone()?))
            }

            fn end(&self) {
                // The connection may have ended already.
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

/// A connection with a time limit for all calls together.
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
            // The process has probably run out of descriptors, so an immediate retry would fail.
            std::thread::sleep(Duration::from_millis(100));
            return;
        };
        let Some(slot) = self.clients.take(again) else { return };
        let answering = self.clone();
        // If no thread can be started, the connection is closed.
        let _ = std::thread::Builder::new().name("client".into()).spawn(move || {
            // A client that has disconnected needs no answer.
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
        let Response { status, kind, body } = self.response(&request, connection.has_host());
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

    fn response(&self, request: &str, has_host: bool) -> Response {
        if has_host && !names_this_machine(request) {
            let text = "ask for localhost, or for the address that the server listens on\n";
            return Response::plain("421 Misdirected Request", text);
        }
        let mut words = request.split_ascii_whitespace();
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if !matches!(method, "GET" | "HEAD") {
            return Response::plain("405 Method Not Allowed", "only GET is understood\n");
        }
        self.answer.get(target.split('?').next().unwrap_or_default())
    }
}

/// Whether the request's `Host` is this machine: `localhost` or an address of this machine, with or without a port.
fn names_this_machine(request: &str) -> bool {
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
    fn only_an_own_socket_without_a_listener_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.sock");
        let open = || Listeners::open(&path, 0o600, None);
        fs::write(&path, "notes").unwrap();
        let refused = open().err().unwrap().to_string();
        assert!(
            refused.contains("not a socket") && refused.contains("--socket"),
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
        let refused = open().err().unwrap().to_string();
        assert!(refused.contains("another process listens"), "{refused}");
        drop(listener);
        assert!(open().is_ok());
    }

    /// A server without pages.
    struct Empty;

    impl Answer for Empty {
        fn get(&self, path: &str) -> Response {
            Response::plain("404 Not Found", path)
        }
    }

    fn answering(limit: Duration) -> Answering {
        Answering {
            answer: Arc::new(Empty),
            clients: Arc::default(),
            limit,
        }
    }

    #[test]
    fn a_path_is_answered_without_its_query_and_other_methods_are_refused() {
        let answering = answering(Duration::ZERO);
        assert_eq!(
            answering.response("GET /metrics?a=b HTTP/1.1\r\n\r\n", false).body,
            "/metrics"
        );
        for request in ["POST /state HTTP/1.1\r\n\r\n", "\r\n\r\n"] {
            assert!(
                answering.response(request, false).status.starts_with("405"),
                "{request}"
            );
        }
    }

    #[test]
    fn on_the_port_only_requests_that_name_this_machine_are_answered() {
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
            assert!(answering.response(&request, true).status.starts_with(status), "{host}");
        }
        for request in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: localhost\r\nHost: example.org\r\n\r\n",
        ] {
            assert!(answering.response(request, true).status.starts_with("421"), "{request}");
        }
    }

    /// A server on a port, and its address.
    fn server(limit: Duration) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answering = answering(limit);
        std::thread::spawn(move || listener.incoming().for_each(|stream| answering.accept(stream)));
        address
    }

    #[test]
    fn clients_that_do_not_finish_do_not_block_others() {
        let address = server(Duration::from_secs(600));
        let slow: Vec<TcpStream> = (0..2 * MOST_CLIENTS)
            .map(|_| {
                let mut stream = TcpStream::connect(address).unwrap();
                // The server may have ended the connection in favour of the next one.
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
    fn the_time_limit_is_for_the_whole_request_and_not_for_each_byte() {
        let address = server(Duration::from_millis(200));
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut end = [0];
        loop {
            // Sends a byte each 20 ms, until the server ends the connection.
            let ended = stream.write_all(b"G").is_err() || matches!(stream.read(&mut end), Ok(0));
            if ended {
                break;
            }
            assert!(Instant::now() < deadline, "the connection has no end");
        }
    }
}
