//! Numbers of users by name, without the name service in this process.
//!
//! A static glibc loads the modules of its name service (`libnss_*`) from a dynamic glibc of another version, and
//! crashes. So:
//!
//! 1. `/etc/passwd` is read.
//! 2. For a name that the file lacks, such as one of LDAP or SSSD, `getent` is run: a dynamic program, with a time
//!    limit.

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use pinfold_core::digits;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The sources of user names.
#[derive(Clone, Debug)]
pub struct Users {
    /// The file of the machine's local users.
    pub passwd: PathBuf,
    /// The paths of the program that queries the name service. The search path of this process is not used.
    pub getent: Vec<PathBuf>,
    /// The time limit of the name service.
    pub patience: Duration,
}

impl Default for Users {
    fn default() -> Self {
        Self {
            passwd: "/etc/passwd".into(),
            getent: vec!["/usr/bin/getent".into(), "/bin/getent".into()],
            patience: Duration::from_secs(5),
        }
    }
}

/// Why the number of a user is not available.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// No user has the name.
    #[error("there is no user `{0}`; write a name that `getent passwd` lists, or the user's number")]
    Unknown(String),
    /// The name service does not answer in time.
    #[error("the name service does not answer within {1:?} for the user `{0}`; write the user's number")]
    Slow(String, Duration),
    /// The name service cannot be queried.
    #[error("the user `{0}` is not in {1}, and the name service cannot be queried: {2}; write the user's number")]
    Failed(String, PathBuf, String),
}

impl Users {
    /// A user in messages: the number, and the name if the file of local users has it.
    pub fn shown(&self, number: u32) -> String {
        let bytes = fs::read(&self.passwd).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let name = text.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (digits::decimal(fields.nth(1)?) == Some(number)).then_some(name)
        });
        name.map_or_else(|| number.to_string(), |name| format!("{name} ({number})"))
    }

    /// The number of the user of this name.
    pub fn number(&self, name: &str) -> Result<u32, UserError> {
        let unknown = || UserError::Unknown(name.to_owned());
        // No user name has these characters, and `getent` would read the first one as an option.
        if name.is_empty() || name.starts_with('-') || name.contains([':', '\n', '\0']) {
            return Err(unknown());
        }
        let failed = |why: String| UserError::Failed(name.to_owned(), self.passwd.clone(), why);
        match fs::read(&self.passwd) {
            Ok(bytes) => {
                if let Some(number) = find(&bytes, name) {
                    return Ok(number);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error.to_string())),
        }
        let Some(getent) = self.getent.iter().find(|path| path.exists()) else {
            return Err(failed("getent is not installed".to_owned()));
        };
        let (answer, code) = ask(getent, name, self.patience)
            .map_err(|error| failed(format!("{}: {error}", getent.display())))?
            .ok_or_else(|| UserError::Slow(name.to_owned(), self.patience))?;
        match (find(&answer, name), code) {
            (Some(number), _) => Ok(number),
            // The manual of getent: "one or more supplied keys could not be found".
            (None, Some(2)) => Err(unknown()),
            (None, _) => Err(failed(format!("{} failed", getent.display()))),
        }
    }
}

/// The number of a user in lines of passwd(5).
fn find(lines: &[u8], name: &str) -> Option<u32> {
    String::from_utf8_lossy(lines).lines().find_map(|line| {
        let mut fields = line.split(':');
        let named = fields.next() == Some(name);
        digits::decimal(fields.nth(1)?).filter(|_| named)
    })
}

/// The answer of `getent` for a user, and its exit status. `None` if it takes too long.
fn ask(getent: &Path, name: &str, patience: Duration) -> io::Result<Option<(Vec<u8>, Option<i32>)>> {
    let child = Command::new(getent)
        .args(["passwd", "--", name])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // A process group allows all its children to be ended with it.
        .process_group(0)
        .spawn()?;
    let group = Pid::from_raw(child.id().cast_signed());
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new().name("getent".into()).spawn(move || {
        // A late answer has no reader.
        let _ = sender.send(child.wait_with_output());
    })?;
    let Ok(output) = receiver.recv_timeout(patience) else {
        // The group may have just ended.
        let _ = killpg(group, Signal::SIGKILL);
        return Ok(None);
    };
    output.map(|output| Some((output.stdout, output.status.code())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    /// Users of a file with one user, and of a name service that a shell script implements.
    fn users(script: &str) -> (tempfile::TempDir, Users) {
        let root = tempfile::tempdir().unwrap();
        let (passwd, getent) = (root.path().join("passwd"), root.path().join("getent"));
        fs::write(
            &passwd,
            "root:x:0:0::/root:/bin/sh\nanna:x:1001:100::/home/anna:/bin/sh\n",
        )
        .unwrap();
        fs::write(&getent, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&getent, Permissions::from_mode(0o755)).unwrap();
        let users = Users {
            passwd,
            getent: vec![root.path().join("nowhere"), getent],
            patience: Duration::from_secs(60),
        };
        (root, users)
    }

    fn refusal(users: &Users, name: &str) -> String {
        users.number(name).unwrap_err().to_string()
    }

    #[test]
    fn a_user_is_shown_by_name_where_the_machine_has_it() {
        let (_root, users) = users("exit 1");
        assert_eq!([users.shown(1001), users.shown(7)], ["anna (1001)", "7"]);
    }

    #[test]
    fn a_user_of_the_machine_is_found_without_the_name_service() {
        let (_root, users) = users("exit 1");
        assert_eq!(users.number("anna").unwrap(), 1001);
    }

    #[test]
    fn other_users_are_those_of_the_name_service() {
        let (_root, users) = users("[ $1 = passwd ] && [ $3 = berta ] && echo berta:*:70001:100::/:/bin/sh || exit 2");
        assert_eq!(users.number("berta").unwrap(), 70001);
        let refused = refusal(&users, "nosuch");
        assert!(
            refused.contains("`nosuch`") && refused.contains("getent passwd"),
            "{refused}"
        );
    }

    #[test]
    fn what_can_be_no_name_is_not_looked_up() {
        let (_root, users) = users("echo $3:x:0:0:::");
        for name in ["", "--service=x", "a:b", "a\nb"] {
            assert!(matches!(users.number(name), Err(UserError::Unknown(_))), "{name}");
        }
    }

    #[test]
    fn a_name_service_whose_module_is_not_there_is_no_crash() {
        let (_root, mut users) = users("exec /usr/bin/getent -s nosuchmodule \"$@\"");
        assert!(refusal(&users, "berta").contains("`berta`"));
        users.getent = vec![];
        let refused = refusal(&users, "berta");
        assert!(
            refused.contains("getent is not installed") && refused.contains("number"),
            "{refused}"
        );
    }

    #[test]
    fn a_slow_name_service_is_given_up_and_ended() {
        let (root, mut users) = users("echo $$ > ${0%/*}/started; sleep 600; echo late");
        users.patience = Duration::from_millis(300);
        let refused = refusal(&users, "berta");
        assert!(refused.contains("300ms") && refused.contains("number"), "{refused}");
        // If it reached its first line, it has ended: its number names no process, or another one.
        if let Ok(process) = fs::read_to_string(root.path().join("started")) {
            let command = format!("/proc/{}/cmdline", process.trim());
            let gone = || !fs::read_to_string(&command).is_ok_and(|line| line.contains("getent"));
            let deadline = std::time::Instant::now() + Duration::from_secs(60);
            while !gone() {
                assert!(std::time::Instant::now() < deadline, "{command} is still there");
                thread::yield_now();
            }
        }
    }
}
