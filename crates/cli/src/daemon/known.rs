//! The behaviour database's knowledge about the programs of processes. A separate thread reads it, and the files of
//! programs.
//!
//! A program is found by its name, the shape of its arguments, and the machine. Whether it is the same build is known
//! only if its file may be read, which for programs of other users needs `CAP_SYS_PTRACE`. The fastest placement of
//! another build is as good a proposal, because the daemon compares everything with the unpinned machine.

use crate::{behaviour, console};
use anyhow::{Context, Result};
use pinfold_core::{HostNote, HostNoteCode, PuSet};
use pinfold_runtime::daemon::{Knowledge, KnownProcess};
use pinfold_store::{Machine, Opened, ProgramKey};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// The database, and the thread that reads it. A missing database is not made.
///
/// If it cannot be read, all processes are unknown, and a note says why once. It is tried again for the next process,
/// because another program may have locked it for too long.
pub(super) struct Database {
    asked: Sender<i32>,
    answers: Receiver<(KnownProcess, Option<HostNote>)>,
    notes: Vec<HostNote>,
}

impl Database {
    /// The database of this file, for programs on this machine, which has these PUs.
    pub(super) fn new(file: PathBuf, machine: Machine, pus: PuSet) -> Self {
        let (asked, processes) = channel::<i32>();
        let (found, answers) = channel();
        // It ends when no more is asked.
        thread::spawn(move || {
            let mut failed = false;
            for process in processes {
                let answer = match known(&file, process, &machine, &pus) {
                    Ok((known, adopted)) => (known, behaviour::known_again(adopted).map(known_again)),
                    Err(error) => {
                        let first = !std::mem::replace(&mut failed, true);
                        (KnownProcess::nothing(process), first.then(|| unreadable(&error)))
                    }
                };
                if found.send(answer).is_err() {
                    return;
                }
            }
        });
        Self {
            asked,
            answers,
            notes: vec![],
        }
    }
}

impl Knowledge for Database {
    fn ask(&mut self, process: i32) {
        // A thread that has panicked said so, and nothing is known.
        let _ = self.asked.send(process);
    }

    fn take(&mut self) -> Vec<KnownProcess> {
        let (known, notes): (Vec<_>, Vec<_>) = self.answers.try_iter().unzip();
        self.notes.extend(notes.into_iter().flatten());
        known
    }

    fn take_notes(&mut self) -> Vec<HostNote> {
        std::mem::take(&mut self.notes)
    }
}

fn known_again(text: String) -> HostNote {
    HostNote {
        code: HostNoteCode::KnownAgain,
        text,
    }
}

fn unreadable(error: &anyhow::Error) -> HostNote {
    let why = console::whole(error);
    HostNote {
        code: HostNoteCode::NothingKnown,
        text: format!("Nothing is known of programs from earlier runs: {why}."),
    }
}

/// The database's knowledge about the program of a process, empty if the process has ended, and the number of programs
/// that were adopted.
fn known(file: &Path, process: i32, machine: &Machine, pus: &PuSet) -> Result<(KnownProcess, usize)> {
    let Some(command) = command(process).filter(|_| file.exists()) else {
        return Ok((KnownProcess::nothing(process), 0));
    };
    let Opened { mut store, .. } = Opened::new(file)?;
    let adopted = store.adopt(machine, pus)?;
    let program = Path::new(&command[0]);
    let mut find = |binary: &[u8]| {
        let key = ProgramKey::new(binary, program, &command[1..], machine.clone());
        let placements = store.known_placements(&key);
        placements
            .map(|placements| (key.name, placements))
            .with_context(|| format!("the behaviour database `{}` cannot be read", file.display()))
    };
    // A file is read for the few programs that any build is known of.
    let (program, mut placements) = find(&[])?;
    if !placements.is_empty()
        && let Ok(binary) = fs::read(format!("/proc/{process}/exe"))
    {
        (_, placements) = find(&binary)?;
    }
    let known = KnownProcess {
        process,
        program,
        placements,
    };
    Ok((known, adopted))
}

/// The words of a process's command line; `None` if it has ended or has none.
fn command(process: i32) -> Option<Vec<String>> {
    let line = fs::read(format!("/proc/{process}/cmdline")).ok()?;
    let line = line.strip_suffix(b"\0").unwrap_or(&line);
    let words = line.split(|&byte| byte == 0);
    let words: Vec<String> = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    (!words[0].is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::{Pinning, PuId};
    use pinfold_policy::KnownPlacement;
    use std::time::{Duration, Instant};

    fn machine() -> Machine {
        Machine {
            fingerprint: "1".to_owned(),
            name: "here".to_owned(),
            simulated: false,
        }
    }

    /// Asks for this process, and waits for the answer.
    fn asked(file: &Path, process: i32) -> (Vec<KnownProcess>, Vec<HostNote>) {
        answers(
            &mut Database::new(file.to_path_buf(), machine(), PuSet::new()),
            &[process],
        )
    }

    /// Asks for these processes, and waits for as many answers.
    fn answers(database: &mut Database, processes: &[i32]) -> (Vec<KnownProcess>, Vec<HostNote>) {
        for &process in processes {
            database.ask(process);
        }
        let begin = Instant::now();
        let mut known = vec![];
        while known.len() < processes.len() && begin.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(1));
            known.extend(database.take());
        }
        (known, database.take_notes())
    }

    fn own() -> i32 {
        i32::try_from(std::process::id()).unwrap()
    }

    #[test]
    fn a_process_is_found_by_its_command_and_its_own_build_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("behaviour.db");
        let nothing = KnownProcess::nothing(own());
        assert_eq!(
            known(&file, own(), &machine(), &PuSet::new()).unwrap(),
            (nothing.clone(), 0)
        );
        assert_eq!(asked(&file, own()), (vec![nothing], vec![]), "it is said at once");
        assert!(!file.exists(), "nothing is made for a question");

        let command = command(own()).unwrap();
        let key = |binary: &[u8]| ProgramKey::new(binary, Path::new(&command[0]), &command[1..], machine());
        let placed = |pu: u32| KnownPlacement {
            pinning: Pinning::new(vec![PuId(pu)]),
            pages: None,
            metric: "regions".to_owned(),
            rate: 1.0,
            gain: 0.5,
            other_build: false,
        };
        let mut store = Opened::new(&file).unwrap().store;
        store.keep_placement(&key(b"another build"), 1, &placed(1), 2).unwrap();
        let (found, notes) = asked(&file, own());
        assert_eq!((found[0].process, notes.len()), (own(), 0));
        assert_eq!(found[0].program, key(&[]).name);
        assert_eq!(found[0].placements[&1].pinning, Pinning::new(vec![PuId(1)]));
        assert!(found[0].placements[&1].other_build);

        let binary = fs::read("/proc/self/exe").unwrap();
        store.keep_placement(&key(&binary), 1, &placed(0), 1).unwrap();
        let (found, _) = asked(&file, own());
        assert_eq!(found[0].placements[&1], placed(0));
    }

    #[test]
    fn a_file_that_is_no_database_is_told_once_and_left() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("behaviour.db");
        fs::write(&file, "text").unwrap();
        let mut database = Database::new(file.clone(), machine(), PuSet::new());
        let (known, notes) = answers(&mut database, &[own(), own()]);
        let nothing = KnownProcess::nothing(own());
        assert_eq!(known, [nothing.clone(), nothing.clone()], "nobody waits for an answer");
        assert_eq!((notes.len(), notes[0].code), (1, HostNoteCode::NothingKnown));
        assert!(notes[0].text.contains("behaviour.db"), "{}", notes[0].text);
        assert_eq!(fs::read_to_string(&file).unwrap(), "text");

        fs::remove_file(&file).unwrap();
        assert_eq!(answers(&mut database, &[own()]), (vec![nothing], vec![]));
    }
}
