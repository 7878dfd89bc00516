//! Reads a topology in a separate process. hwloc trusts its input, and a damaged file or an unexpected `/sys` can crash
//! or block the process that reads it.
//!
//! 1. The caller's command starts the reader, with limits on memory and processor time. The reader ends with pinfold.
//! 2. The reader reads the source with `read` or `devices`, and writes the result to its standard output with `answer`.
//! 3. pinfold waits for the answer for a limited time, and rebuilds the topology from its parts. The reader's standard
//!    error has hwloc's messages; pinfold only checks whether there were any.

use super::{ReadError, Source};
use crate::child::dies_with_us;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The largest machine of today needs less than a second and 100 MB.
const MOST_MEMORY: u64 = 2 << 30;
const MOST_SECONDS: u64 = 20;
/// The limit is needed because a file may be a pipe without a writer.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// The answer for the largest machine of today has some 100 KB.
const LONGEST_ANSWER: usize = 64 << 20;

/// The answer of a reader, as JSON.
type Answer<T> = Result<T, Failure>;

/// Why a reader could not read.
#[derive(Serialize, Deserialize)]
struct Failure {
    /// The reason, with the remedy.
    why: String,
    /// Whether hwloc failed. Otherwise the source was refused.
    is_of_hwloc: bool,
}

/// The result of a reader.
#[derive(Debug)]
pub(super) struct Read<T> {
    pub(super) what: T,
    /// Whether hwloc wrote a message.
    pub(super) has_messages: bool,
}

/// The output of a reader: the result, or why there is none.
pub fn answer<T: Serialize>(read: Result<T, ReadError>) -> serde_json::Result<String> {
    let why = |error: &ReadError| {
        let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
        causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
    };
    let answer: Answer<T> = read.map_err(|error| Failure {
        why: why(&error),
        is_of_hwloc: error.is_of_hwloc(),
    });
    serde_json::to_string(&answer)
}

/// Reads a topology, or devices, with a command that writes the `answer`. Call it from the process's first thread: the
/// kernel ends the reader when the starting thread ends.
pub fn read_by<T: DeserializeOwned>(reader: &mut Command, source: &Source) -> Result<T, ReadError> {
    read(reader, source).map(|read| read.what)
}

/// Like `read_by`, and returns whether hwloc wrote a message.
pub(super) fn read<T: DeserializeOwned>(reader: &mut Command, source: &Source) -> Result<Read<T>, ReadError> {
    let failed = |cause: io::Error| ReadError::Reader {
        what: source.to_string(),
        source: cause,
    };
    let mut child = start(reader).map_err(failed)?;
    let mut received = Received::default();
    let whole = receive(&mut child, &mut received).map_err(failed);
    if !matches!(whole, Ok(true)) {
        // The child may have ended already.
        let _ = child.kill();
    }
    let status = child.wait().map_err(failed)?;
    let ended = |how: String| ReadError::Ended {
        what: source.to_string(),
        how,
    };
    if !whole? {
        let mebibytes = LONGEST_ANSWER >> 20;
        return Err(ended(format!(
            "takes longer than {LONGEST_WAIT:?}, or more than {mebibytes} MiB"
        )));
    }
    match serde_json::from_slice::<Answer<T>>(&received.answer) {
        Ok(Ok(what)) => Ok(Read {
            what,
            has_messages: received.has_messages,
        }),
        Ok(Err(Failure { why, is_of_hwloc: true })) => Err(ReadError::Failed(why)),
        Ok(Err(Failure { why, .. })) => Err(ReadError::Refused(why)),
        Err(_) if !status.success() => Err(ended(how(status))),
        Err(error) => Err(ended(format!("returned an invalid machine: {error}"))),
    }
}

fn start(reader: &mut Command) -> io::Result<Child> {
    // SAFETY: only system calls are made between fork and exec.
    unsafe {
        dies_with_us(reader).pre_exec(move || {
            for (resource, most) in [
                (Resource::RLIMIT_AS, MOST_MEMORY),
                (Resource::RLIMIT_CPU, MOST_SECONDS),
                (Resource::RLIMIT_CORE, 0),
            ] {
                // Only root may raise a limit that the user has set lower.
                let most = most.min(getrlimit(resource)?.1);
                setrlimit(resource, most, most)?;
            }
            Ok(())
        });
    }
    reader
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

/// The output of a child.
#[derive(Default)]
struct Received {
    answer: Vec<u8>,
    has_messages: bool,
}

/// Receives the child's output to its end. False if that takes too long, or if the output is too long.
fn receive(child: &mut Child, received: &mut Received) -> io::Result<bool> {
    let (Some(output), Some(messages)) = (child.stdout.as_mut(), child.stderr.as_mut()) else {
        return Ok(true);
    };
    let deadline = Instant::now() + LONGEST_WAIT;
    let mut piece = [0; 1 << 13];
    // A child that is blocked on its messages does not answer, so both are read to their ends.
    let (mut answers, mut complains) = (true, true);
    while (answers || complains) && received.answer.len() <= LONGEST_ANSWER {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let open = [(answers, output.as_fd()), (complains, messages.as_fd())];
        let open = open.into_iter().filter(|(is_open, _)| *is_open);
        let mut files: Vec<PollFd> = open.map(|(_, file)| PollFd::new(file, PollFlags::POLLIN)).collect();
        match poll(&mut files, timeout) {
            Ok(0) => return Ok(false),
            Ok(_) => {}
            Err(Errno::EINTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let mut ready = files.iter().map(|file| file.any().unwrap_or(false));
        let has_answer = answers && ready.next().unwrap_or(false);
        let has_message = complains && ready.next().unwrap_or(false);
        if has_answer {
            let length = read_some(output, &mut piece)?;
            received.answer.extend(&piece[..length]);
            answers = length > 0;
        }
        if has_message {
            complains = read_some(messages, &mut piece)? > 0;
            received.has_messages |= complains;
        }
    }
    Ok(!answers && !complains)
}

/// Reads from a file that has data or has ended.
fn read_some(from: &mut impl io::Read, piece: &mut [u8]) -> io::Result<usize> {
    loop {
        match from.read(piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Describes how a reader ended without an answer.
fn how(status: ExitStatus) -> String {
    match status.signal() {
        Some(libc::SIGXCPU | libc::SIGKILL) => format!("took more than {MOST_SECONDS} s"),
        Some(libc::SIGABRT) => format!("gave up, or needed more than {} GiB", MOST_MEMORY >> 30),
        Some(signal) => format!("ended with signal {signal}"),
        None => format!("ended with {status} and without an answer"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;
    use pinfold_core::Topology;

    fn read_by_shell(script: &str) -> Result<Topology, ReadError> {
        read_by(
            Command::new("sh").args(["-c", script]),
            &Source::Synthetic("pu:2".to_owned()),
        )
    }

    #[test]
    fn what_a_reader_answers_is_the_topology() {
        let source = Source::Synthetic("package:2 pu:2".to_owned());
        let text = answer(read(&source)).unwrap();
        let topology: Topology = read_by(Command::new("echo").arg(text), &source).unwrap();
        assert_eq!(topology, read(&source).unwrap());
    }

    #[test]
    fn what_a_reader_refuses_is_refused_in_its_words() {
        let source = Source::Xml("/nowhere/machine.xml".into());
        let text = answer(read(&source)).unwrap();
        let error = read_by::<Topology>(Command::new("echo").arg(text), &source)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("cannot read `/nowhere/machine.xml`: "), "{error}");
    }

    #[test]
    fn a_reader_that_is_gone_without_an_answer_is_an_error_with_the_remedy() {
        for (script, words) in [
            ("kill -SEGV $$", "signal 11"),
            ("kill -ABRT $$", "gave up"),
            ("exit 3", "exit status: 3"),
            ("echo '{\"Ok\":{}}'", "invalid machine"),
            ("head -c 100000000 /dev/zero", "longer than"),
        ] {
            let error = read_by_shell(script).unwrap_err().to_string();
            assert!(error.contains("synthetic:pu:2") && error.contains(words), "{error}");
        }
    }

    #[test]
    fn what_hwloc_says_is_noticed_and_a_long_message_does_not_stop_the_answer() {
        let source = Source::Synthetic("pu:2".to_owned());
        let text = answer(super::super::read(&source)).unwrap();
        for (script, has_messages) in [("", false), ("head -c 1000000 /dev/zero >&2; ", true)] {
            let script = format!("{script}echo '{text}'");
            let read = super::read::<Topology>(Command::new("sh").args(["-c", &script]), &source).unwrap();
            assert_eq!(read.has_messages, has_messages);
        }
    }

    #[test]
    fn a_reader_keeps_a_lower_limit_of_the_user() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -t"]);
        // SAFETY: only one system call is made between fork and exec.
        unsafe {
            shell.pre_exec(move || Ok(setrlimit(Resource::RLIMIT_CPU, 5, 5)?));
        }
        let output = start(&mut shell).unwrap().wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "5\n");
    }

    #[test]
    fn a_reader_has_limits_on_memory_and_time() {
        let limits = start(Command::new("sh").args(["-c", "ulimit -v; ulimit -t; ulimit -c"])).unwrap();
        let output = limits.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "2097152\n20\n0\n");
    }
}
