//! Messages to the service manager, like `sd_notify(3)`: a datagram to the socket that `NOTIFY_SOCKET` names.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends `state`, such as `READY=1`, to the socket of this name. A name that starts with `@` is in the abstract
/// namespace.
pub fn notify(socket: &OsStr, state: &str) -> io::Result<()> {
    let name = socket.as_bytes();
    let address = match name.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_manager_gets_what_was_sent() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        notify(path.as_os_str(), "READY=1").unwrap();
        let mut received = [0; 64];
        let length = manager.recv(&mut received).unwrap();
        assert_eq!(&received[..length], b"READY=1");
    }

    #[test]
    fn an_abstract_name_is_understood() {
        let name = format!("pinfold-test-{}", std::process::id());
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        notify(OsStr::new(&format!("@{name}")), "STOPPING=1").unwrap();
        let mut received = [0; 64];
        assert_eq!(manager.recv(&mut received).unwrap(), 10);
    }
}
