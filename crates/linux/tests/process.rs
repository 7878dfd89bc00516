//! The launcher as a process: signals, job control on a terminal, and the effects of a kill.

mod common;

use common::{Workshop, allowed, eventually, follower, lives, masks_of, send, status_field, threads_of};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn follow(options: &[&str], command: &[&Path]) -> Child {
    Command::new(follower())
        .args(options)
        .args(["--quiet", "--"])
        .args(command)
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

fn number(child: &Child) -> i32 {
    i32::try_from(child.id()).unwrap()
}

#[test]
fn a_signal_that_is_sent_to_the_launcher_reaches_the_program_once() {
    let workshop = Workshop::new();
    let out = workshop.file("out");
    let mut launcher = follow(&[], &[&workshop.program("count_signals"), &out]);
    workshop.number("out");
    for count in 1..=3 {
        send(number(&launcher), libc::SIGUSR1);
        eventually("the signal arrives", || workshop.lines("out").len() == 1 + count);
    }
    send(number(&launcher), libc::SIGTERM);
    assert_eq!(launcher.wait().unwrap().code(), Some(9));
    assert_eq!(workshop.lines("out").len(), 4);
}

#[test]
fn a_signal_that_the_program_sends_to_the_launcher_is_not_sent_back() {
    let workshop = Workshop::new();
    let script = workshop.file("script");
    let text = "trap 'exit 1' USR1; trap 'exit 9' TERM; kill -USR1 $PPID; echo $$ >\"$1\"; while :; do :; done";
    std::fs::write(&script, text).unwrap();
    let mut launcher = follow(&[], &[Path::new("sh"), &script, &workshop.file("out")]);
    workshop.number("out");
    // The launcher takes SIGUSR1 first: it arrived earlier and has the lower number.
    send(number(&launcher), libc::SIGTERM);
    assert_eq!(launcher.wait().unwrap().code(), Some(9));
}

/// The launcher on a terminal, as a job of a shell.
struct Session {
    shell: Child,
    says: BufReader<std::process::ChildStdout>,
}

impl Session {
    fn start(workshop: &Workshop, command: &[&Path]) -> Self {
        let mut shell = Command::new(workshop.program("shell"))
            .arg(follower())
            .args(["--quiet", "--"])
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let says = BufReader::new(shell.stdout.take().unwrap());
        Self { shell, says }
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.shell.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The next output of the shell.
    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

#[test]
fn an_interrupt_from_the_terminal_reaches_the_program_once() {
    let workshop = Workshop::new();
    let out = workshop.file("out");
    let mut session = Session::start(&workshop, &[&workshop.program("count_signals"), &out]);
    let program = workshop.number("out");
    for count in 1..=2 {
        session.tell("^C");
        eventually("the signal arrives", || workshop.lines("out").len() == 1 + count);
    }
    send(program, libc::SIGTERM);
    assert_eq!(session.hear(), "ended 9");
    assert_eq!(workshop.lines("out")[1..], [["INT"], ["INT"]]);
}

#[test]
fn a_stop_from_the_terminal_stops_both_and_the_shell_continues_both() {
    let workshop = Workshop::new();
    let out = workshop.file("out");
    let mut session = Session::start(&workshop, &[&workshop.program("count_signals"), &out]);
    let program = workshop.number("out");
    for _ in 0..2 {
        session.tell("^Z");
        assert_eq!(session.hear(), "stopped");
        let state = status_field(program, "State").unwrap();
        assert!(state.starts_with(['T', 't']), "{state}");
        session.tell("continue");
        eventually("the program goes on", || {
            status_field(program, "State").is_some_and(|state| state.starts_with(['S', 'R']))
        });
    }
    session.tell("^C");
    eventually("the signal arrives", || workshop.lines("out").len() == 2);
    send(program, libc::SIGTERM);
    assert_eq!(session.hear(), "ended 9");
}

/// Starts `linger` under a launcher, waits until it runs, and kills the launcher. Returns the program's number.
fn kill_launcher(workshop: &Workshop, options: &[&str]) -> i32 {
    let pus: Vec<String> = allowed().iter().map(|pu| pu.to_string()).collect();
    let pus = pus.join(",");
    let options: Vec<&str> = options.iter().copied().chain(["--pin", &pus]).collect();
    let program = workshop.program("linger");
    let mut launcher = follow(&options, &[&program, &workshop.file("out"), Path::new("3")]);
    let process = workshop.number("out");
    let all_pinned = |process| masks_of(process).iter().all(|mask| mask.len() == 1);
    assert!(threads_of(process).len() == 4 && all_pinned(process));
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    process
}

#[test]
fn a_program_ends_with_its_launcher() {
    let workshop = Workshop::new();
    let process = kill_launcher(&workshop, &[]);
    eventually("the program ends", || !lives(process));
}

#[test]
fn a_program_that_outlives_its_launcher_goes_on_unpinned() {
    let workshop = Workshop::new();
    let journals = workshop.file("journals");
    let process = kill_launcher(&workshop, &["--outlive", journals.to_str().unwrap()]);
    eventually("the guard restores the masks", || {
        masks_of(process).iter().all(|mask| *mask == allowed())
    });
    assert_eq!(threads_of(process).len(), 4);
    assert_eq!(status_field(process, "TracerPid").as_deref(), Some("0"));
    assert!(lives(process));
    eventually("the guard removes the journal", || {
        std::fs::read_dir(&journals).unwrap().next().is_none()
    });
    send(process, libc::SIGKILL);
}

#[test]
fn the_guard_ends_with_a_launcher_that_says_farewell() {
    let workshop = Workshop::new();
    let mut launcher = Command::new(follower())
        .arg("--outlive")
        .arg(workshop.file("journals"))
        .args(["--quiet", "--", "sh", "-c", "cat /proc/$PPID/task/*/children"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut children = String::new();
    let output = launcher.stdout.take().unwrap();
    BufReader::new(output).read_line(&mut children).unwrap();
    launcher.wait().unwrap();
    for child in children.split_whitespace() {
        assert!(!lives(child.parse().unwrap()), "{child} of {children}");
    }
    assert!(children.split_whitespace().count() >= 1, "{children}");
}
