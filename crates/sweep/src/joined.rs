//! Recordings of one program with different numbers of threads. Spaces need them if a configuration has a number of
//! threads.
//!
//! 1. Recordings belong to one run if the program has the same file name and the arguments are equal, except for one
//!    argument with the number of threads.
//! 2. On a machine, a run has recordings with all of the space's numbers of threads, or with none of them.
//! 3. A region is identified by the file of its code and the offset in this file, because the loader chooses the
//!    address.
//! 4. A region is complete on a machine if it has results with all numbers of threads.

use anyhow::{Result, bail};
use pinfold_trace::RegionPlace;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;

/// A recording, with the properties that identify its run.
pub(crate) struct Recorded<'a> {
    /// The recording.
    pub(crate) file: &'a Path,
    /// The program's file name.
    pub(crate) name: &'a str,
    /// The program and its arguments.
    pub(crate) words: &'a [String],
    /// The number of threads.
    pub(crate) threads: usize,
    /// The code of its regions.
    pub(crate) regions: &'a [RegionPlace],
}

/// The numbers of threads of a machine.
pub(crate) struct MachineThreads {
    /// The machine's name.
    pub(crate) machine: String,
    /// The numbers of threads of its configurations.
    pub(crate) threads: Vec<usize>,
}

/// The runs of a sweep's recordings.
pub(crate) struct Joined {
    /// The run of each program of the plan.
    of_program: Vec<usize>,
    runs: Vec<JoinedRun>,
    /// The numbers of threads of each machine of the plan.
    counts: Vec<Vec<usize>>,
}

struct JoinedRun {
    /// The positions of its recordings in the plan.
    members: Vec<usize>,
    /// The program's file name and its arguments, with `{threads}` in place of the number of threads.
    words: Vec<String>,
}

/// The place of a region's code, which is the same in all recordings of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CodePlace {
    /// The file's name, without folders.
    pub object: String,
    /// The offset in the file, in bytes.
    pub offset: u64,
}

impl CodePlace {
    /// The place of a recorded region.
    pub fn new(region: &RegionPlace) -> Self {
        let name = region.file.file_name().unwrap_or(region.file.as_os_str());
        Self {
            object: name.to_string_lossy().into_owned(),
            offset: region.offset,
        }
    }
}

impl Joined {
    /// Finds the runs of `recordings`.
    ///
    /// # Errors
    ///
    /// A number of threads has no recording or two recordings, or the recordings are of different builds of the
    /// program. The error names `spaces`.
    pub(crate) fn new(recordings: &[Recorded<'_>], machines: &[MachineThreads], spaces: &str) -> Result<Self> {
        let mut runs: Vec<JoinedRun> = vec![];
        let mut of_program = vec![];
        for (number, recording) in recordings.iter().enumerate() {
            let known = runs
                .iter_mut()
                .enumerate()
                .find_map(|(at, run)| common(&recordings[run.members[0]], recording).map(|words| (at, run, words)));
            let Some((at, run, words)) = known else {
                of_program.push(runs.len());
                let name = std::iter::once(recording.name.to_owned());
                runs.push(JoinedRun {
                    members: vec![number],
                    words: name.chain(recording.words.iter().skip(1).cloned()).collect(),
                });
                continue;
            };
            let members = run.members.iter().map(|&member| &recordings[member]);
            for other in members {
                check_same_program(other, recording)?;
            }
            run.members.push(number);
            // If one other recording differs from the first in a word, the word has the number of threads in all
            // recordings.
            for (mine, common) in run.words.iter_mut().zip(words) {
                if common.contains(THREADS) {
                    *mine = common;
                }
            }
            of_program.push(at);
        }
        let joined = Self {
            of_program,
            runs,
            counts: machines.iter().map(|machine| machine.threads.clone()).collect(),
        };
        for machine in machines {
            joined.check_recorded(recordings, machine, spaces)?;
        }
        Ok(joined)
    }

    /// Checks that a run has recordings with all of a machine's numbers of threads, or with none of them.
    fn check_recorded(&self, recordings: &[Recorded<'_>], machine: &MachineThreads, spaces: &str) -> Result<()> {
        for (number, run) in self.runs.iter().enumerate() {
            let recorded: BTreeSet<usize> = run.members.iter().map(|&member| recordings[member].threads).collect();
            let missing: Vec<usize> = machine
                .threads
                .iter()
                .copied()
                .filter(|threads| !recorded.contains(threads))
                .collect();
            if !missing.is_empty() && missing.len() < machine.threads.len() {
                bail!(
                    "`{}` has no recording with {} threads: the configurations of --space {spaces} on {} have {}; record \
                     the program with each number, and the same arguments otherwise",
                    self.command(number),
                    listed(&missing),
                    machine.machine,
                    listed(&machine.threads),
                );
            }
        }
        Ok(())
    }

    /// The numbers of threads of a machine's configurations.
    pub(crate) fn thread_counts(&self, machine: usize) -> &[usize] {
        &self.counts[machine]
    }

    /// The run of a program of the plan.
    pub(crate) fn run(&self, program: usize) -> usize {
        self.of_program[program]
    }

    /// The program and its arguments, with `{threads}` in place of the number of threads.
    pub(crate) fn command(&self, run: usize) -> String {
        self.runs[run].words.join(" ")
    }
}

/// Stands for the number of threads in a command.
const THREADS: &str = "{threads}";

/// The words of two recordings of one run, with `{threads}` in place of their numbers of threads. `None` for recordings
/// of different runs. The first word is the program's file name.
fn common(one: &Recorded<'_>, other: &Recorded<'_>) -> Option<Vec<String>> {
    if one.name != other.name || one.words.len() != other.words.len() {
        return None;
    }
    let arguments = one.words.iter().zip(other.words).skip(1);
    let words = arguments.map(|(mine, theirs)| {
        let same = (mine == theirs).then(|| mine.clone());
        same.or_else(|| common_word((mine, one.threads), (theirs, other.threads)))
    });
    let words: Vec<String> = std::iter::once(Some(one.name.to_owned()))
        .chain(words)
        .collect::<Option<_>>()?;
    // A second such word would be another argument that has the same value by chance.
    (words.iter().filter(|word| word.contains(THREADS)).count() <= 1).then_some(words)
}

/// Joins two words that differ only in the number of threads.
fn common_word((mine, my_threads): (&str, usize), (theirs, their_threads): (&str, usize)) -> Option<String> {
    let (my_number, their_number) = (my_threads.to_string(), their_threads.to_string());
    let is_digit = |text: Option<char>| text.is_some_and(|character| character.is_ascii_digit());
    mine.match_indices(&my_number)
        .map(|(at, _)| (&mine[..at], &mine[at + my_number.len()..]))
        .filter(|(before, after)| !is_digit(before.chars().next_back()) && !is_digit(after.chars().next()))
        .find(|(before, after)| format!("{before}{their_number}{after}") == theirs)
        .map(|(before, after)| format!("{before}{THREADS}{after}"))
}

fn check_same_program(one: &Recorded<'_>, other: &Recorded<'_>) -> Result<()> {
    if one.threads == other.threads {
        bail!(
            "`{}` and `{}` are both of `{}` with {} threads: name one of them",
            one.file.display(),
            other.file.display(),
            one.name,
            one.threads
        );
    }
    for mine in one.regions {
        let theirs = other.regions.iter().find(|theirs| theirs.file == mine.file);
        if theirs.is_some_and(|theirs| theirs.file_size != mine.file_size) {
            bail!(
                "`{}` and `{}` were recorded with different builds of {}, so that their regions cannot be joined: record \
                 both with the same build",
                one.file.display(),
                other.file.display(),
                mine.file.display()
            );
        }
    }
    Ok(())
}

pub(crate) fn listed(numbers: &[usize]) -> String {
    let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
    numbers.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Made {
        file: String,
        words: Vec<String>,
        threads: usize,
        regions: Vec<RegionPlace>,
    }

    fn made(threads: usize, command: &str) -> Made {
        Made {
            file: format!("{threads}.pft"),
            words: command.split(' ').map(str::to_owned).collect(),
            threads,
            regions: vec![],
        }
    }

    fn joined(made: &[Made], counts: &[&[usize]]) -> Result<Joined> {
        let recordings: Vec<Recorded<'_>> = made
            .iter()
            .map(|made| Recorded {
                file: Path::new(&made.file),
                name: made.words[0].rsplit('/').next().unwrap(),
                words: &made.words,
                threads: made.threads,
                regions: &made.regions,
            })
            .collect();
        let machines: Vec<MachineThreads> = counts
            .iter()
            .map(|threads| MachineThreads {
                machine: format!("of {} cores", threads[2]),
                threads: threads.to_vec(),
            })
            .collect();
        Joined::new(&recordings, &machines, "ics20")
    }

    fn region(identity: u64, offset: u64, file_size: u64) -> RegionPlace {
        RegionPlace {
            identity,
            file: "/a/stream".into(),
            offset,
            file_size,
            file_modified: 0,
        }
    }

    #[test]
    fn recordings_that_differ_by_their_numbers_of_threads_are_one_run() {
        let made = [
            made(8, "bin/stream --threads 8 --size 8"),
            made(16, "/other/stream --threads 16 --size 8"),
            made(8, "bin/stream --threads 8 --size 16"),
            made(32, "bin/stream --threads 32 --size 8"),
            made(16, "bin/stream --threads 16 --size 16"),
            made(32, "bin/stream --threads 32 --size 16"),
        ];
        let joined = joined(&made, &[&[8, 16, 32]]).unwrap();
        let runs: Vec<usize> = (0..made.len()).map(|program| joined.run(program)).collect();
        assert_eq!(runs, [0, 0, 1, 0, 1, 1]);
        assert_eq!(joined.command(0), "stream --threads {threads} --size 8");
        assert_eq!(joined.command(1), "stream --threads {threads} --size 16");
    }

    #[test]
    fn the_number_may_be_a_part_of_a_word_and_is_never_a_part_of_a_number() {
        let word = |mine, theirs| common_word((mine, 8), (theirs, 16));
        assert_eq!(
            word("--threads=8", "--threads=16").as_deref(),
            Some("--threads={threads}")
        );
        assert_eq!(word("-j8x", "-j16x").as_deref(), Some("-j{threads}x"));
        assert_eq!(word("18", "116"), None);
        assert_eq!(word("8", "32"), None);
    }

    #[test]
    fn programs_without_the_number_in_their_arguments_are_joined_by_their_commands() {
        let made = [made(8, "solver in"), made(16, "solver in"), made(32, "solver in")];
        let joined = joined(&made, &[&[8, 16, 32]]).unwrap();
        assert_eq!((joined.run(2), joined.command(0)), (0, "solver in".to_owned()));
    }

    #[test]
    fn a_number_of_threads_without_a_recording_is_named_and_so_are_two_with_one() {
        let error = |made: &[Made], counts: &[&[usize]]| joined(made, counts).err().unwrap().to_string();
        let two = [made(8, "a --threads 8"), made(32, "a --threads 32")];
        let said = error(&two, &[&[8, 16, 32]]);
        assert!(
            said.contains("`a --threads {threads}` has no recording with 16 threads"),
            "{said}"
        );
        assert!(said.contains("on of 32 cores have 8, 16, 32"), "{said}");
        let double = [made(8, "a --threads 8"), made(8, "b/a --threads 8")];
        assert!(error(&double, &[&[8, 16, 32]]).contains("with 8 threads: name one of them"));
    }

    #[test]
    fn each_machine_takes_the_recordings_of_its_own_numbers() {
        let counts = [8, 16, 32, 12, 24, 48];
        let made: Vec<Made> = counts.iter().map(|&threads| made(threads, "a")).collect();
        let machines: [&[usize]; 2] = [&[8, 16, 32], &[12, 24, 48]];
        assert!(joined(&made, &machines).is_ok());
        assert!(joined(&made[..3], &machines).is_ok());
        assert!(joined(&made[..4], &machines).is_err());
    }

    #[test]
    fn recordings_of_different_builds_are_refused() {
        let of = |threads, size| Made {
            regions: vec![region(0x40_1000, 0x1000, size)],
            ..made(threads, "stream")
        };
        let all = |last| [of(8, 100), of(16, 100), of(32, last)];
        assert!(joined(&all(100), &[&[8, 16, 32]]).is_ok());
        let said = joined(&all(101), &[&[8, 16, 32]]).err().unwrap().to_string();
        assert!(said.contains("different builds of /a/stream"), "{said}");
    }
}
