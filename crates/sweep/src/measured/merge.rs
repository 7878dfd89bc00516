//! The shards of a measured sweep as one: their runs are put together.
//!
//! Each shard has the references, so that the level of each computer is known, and what differs between two of them is
//! removed like a drift. Only computers of one kind can share a sweep.

use super::run::MeasuredRun;
use super::runs::{Head, MAGIC, Runs, Sheet};
use crate::journal::first_record;
use crate::shard::check_complete;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Whether a file is a shard of a measured sweep.
pub fn is_shard_of_runs(file: &Path) -> bool {
    let mut first = vec![];
    let read = File::open(file).and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut first));
    read.is_ok() && first == MAGIC
}

/// Reads all shards of a measured sweep.
///
/// # Errors
///
/// A file cannot be read, is not a shard of a measured sweep, or is damaged; files are of different sweeps; a shard is
/// missing or repeated.
pub fn merge_runs(files: &[PathBuf]) -> Result<Runs> {
    let mut first: Option<(&Path, Head)> = None;
    let mut seen: BTreeMap<usize, &Path> = BTreeMap::new();
    let mut runs = vec![];
    for file in files {
        let (head, of_shard) = read(file)?;
        let (first_file, first_head) = first.get_or_insert_with(|| (file, head.clone()));
        if let Some(difference) = difference(&first_head.sheet, &head.sheet) {
            bail!(
                "{} and {} are shards of different sweeps: {difference}. Name the shards of one sweep only, or run `pinfold \
                 sweep --shard {}` again with the same arguments as for the others",
                first_file.display(),
                file.display(),
                head.shard
            );
        }
        if first_head.shard.of != head.shard.of {
            bail!(
                "{} is shard {}, and {} is shard {}: all must be of the same number of shards; run `pinfold sweep --shard` \
                 again for those that are not",
                first_file.display(),
                first_head.shard,
                file.display(),
                head.shard
            );
        }
        if let Some(other) = seen.insert(head.shard.number, file) {
            bail!(
                "{} and {} are both shard {}: name one of them",
                other.display(),
                file.display(),
                head.shard
            );
        }
        runs.extend(of_shard);
    }
    let (_, Head { shard, sheet, .. }) = first.context("no shard was named")?;
    check_complete(shard.of, &seen)?;
    // The order of the files does not matter.
    runs.sort_by(|(_, one), (_, other)| {
        (one.session, one.at.0)
            .partial_cmp(&(other.session, other.at.0))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    Ok(Runs::of_sheet(sheet, runs))
}

/// The difference of two sweeps; `None` if they are the same.
fn difference(one: &Sheet, other: &Sheet) -> Option<&'static str> {
    if one.machine.fingerprint != other.machine.fingerprint {
        Some("machines with other topologies")
    } else if one.program.identity != other.program.identity || one.program.command != other.program.command {
        Some("another program, or other arguments")
    } else if one.program.context != other.program.context {
        Some("another working directory, environment, input or --before")
    } else {
        (!one.has_configurations_of(other)).then_some("other configurations (--space, --limit, --threads)")
    }
}

/// Reads a shard file.
fn read(file: &Path) -> Result<(Head, Vec<(usize, MeasuredRun)>)> {
    let bytes = fs::read(file).with_context(|| format!("the shard {} cannot be read", file.display()))?;
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        bail!(
            "{} is not a shard of a measured sweep, as the first file is: `pinfold sweep --shard I/N -o FILE -- CMD` writes one",
            file.display()
        );
    };
    parse(rest).with_context(|| {
        format!(
            "{} is damaged: remove it, and run its `pinfold sweep --shard` again",
            file.display()
        )
    })
}

/// The records; `None` if they are incomplete or damaged.
fn parse(bytes: &[u8]) -> Option<(Head, Vec<(usize, MeasuredRun)>)> {
    let (head, mut rest) = first_record::<Head>(bytes)?;
    let mut runs = vec![];
    while let Some((run, after)) = first_record::<(usize, MeasuredRun)>(rest) {
        runs.push(run);
        rest = after;
    }
    let shard = Some(head.shard).filter(|shard| (1..=shard.of).contains(&shard.number));
    let known = runs.iter().all(|(job, _)| *job < head.sheet.configurations());
    (shard.is_some() && known && rest.is_empty() && runs.len() == head.runs).then_some((head, runs))
}

#[cfg(test)]
mod tests {
    use super::super::plan::{MeasuredMachine, MeasuredPlan, MeasuredProgram};
    use super::super::run::RunEnd;
    use super::super::state::MachineState;
    use super::*;
    use crate::journal::Exact;
    use crate::shard::Shard;
    use crate::spaces::Point;
    use pinfold_core::{PageMapping, Pinning, Prefetchers, PuId};
    use proptest::prelude::*;

    /// A plan with the unpinned program and these many pinnings of one thread.
    fn plan(pinnings: u32, command: &str) -> MeasuredPlan {
        let machine = MeasuredMachine {
            name: "machine".to_owned(),
            fingerprint: "2-ab".to_owned(),
            topology: serde_json::json!({"name": "machine"}),
            llc_bytes: Some(1 << 20),
            pus: 64,
        };
        let program = MeasuredProgram {
            name: "solver".to_owned(),
            command: command.to_owned(),
            identity: "xxh3:1".to_owned(),
            context: vec![],
        };
        let points = (0..pinnings).map(|pu| point(PuId(pu))).collect();
        MeasuredPlan::new(machine, program, BTreeMap::from([(1, points)]), false, |_| false)
    }

    fn point(pu: PuId) -> Point {
        Point {
            threads: 1,
            pinning: Pinning::new(vec![pu]).unwrap(),
            pages: PageMapping::FirstTouch,
            prefetchers: Prefetchers::ALL,
            num_nodes: 1,
            threads_per_core: 1,
            thread_map: None,
        }
    }

    fn run(session: u64, at: usize, seconds: f64) -> MeasuredRun {
        MeasuredRun {
            session,
            at: Exact(at as f64),
            end: RunEnd::Done {
                seconds: Exact(seconds),
            },
            counts: true,
            disturbed: None,
            threads: Some(1),
            state: MachineState::default(),
            metrics: vec![("io".to_owned(), "byte".to_owned(), Exact(7.0))],
        }
    }

    /// Shard files of a plan in a folder. Configuration `n` takes `n + 1` seconds, and the second computer twice as long.
    fn shards(folder: &Path, plan: &MeasuredPlan, of: usize) -> Vec<PathBuf> {
        let write = |number: usize| {
            let shard = Shard { number, of };
            let all = 0..plan.jobs.len();
            let jobs: Vec<usize> = all
                .filter(|job| plan.references.contains(job) || shard.has(*job))
                .collect();
            let mut runs = vec![];
            for round in 0..8 {
                for &job in &jobs {
                    let at = round * 100 + job;
                    let session = number as u64;
                    runs.push((job, run(session, at, (job + 1) as f64 * number as f64)));
                }
            }
            let file = folder.join(format!("{number}-{of}"));
            let runs = Runs::new(plan, runs);
            runs.write_shard(shard, &jobs, &mut File::create(&file).unwrap())
                .unwrap();
            file
        };
        (1..=of).map(write).collect()
    }

    #[test]
    fn shards_of_computers_of_different_speed_have_the_ratios_of_the_configurations() {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan(9, "solver");
        let files = shards(folder.path(), &plan, 2);
        assert!(files.iter().all(|file| is_shard_of_runs(file)));
        let data_set = merge_runs(&files).unwrap().data_set();
        let times: Vec<f64> = data_set
            .rows
            .iter()
            .map(|row| row.time / data_set.rows[0].time)
            .collect();
        for (job, time) in times.iter().enumerate() {
            assert!((time / (job + 1) as f64 - 1.0).abs() < 1e-6, "{job}: {time}");
        }
        assert_eq!(data_set.rows[0].configuration.pinning, None);
        assert_eq!(data_set.rows[0].measured.as_ref().unwrap().runs, Some(16));
        assert!(data_set.topologies.contains_key("machine"));
        let reversed: Vec<PathBuf> = files.into_iter().rev().collect();
        assert_eq!(merge_runs(&reversed).unwrap().data_set().rows, data_set.rows);
    }

    #[test]
    fn shards_of_another_program_and_missing_and_repeated_ones_are_refused() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let files = shards(one.path(), &plan(9, "solver"), 2);
        let others = shards(other.path(), &plan(9, "solver -v"), 2);
        let refused = |files: &[&PathBuf]| {
            let files: Vec<PathBuf> = files.iter().map(|&file| file.clone()).collect();
            merge_runs(&files).err().unwrap().to_string()
        };
        assert!(refused(&[&files[0], &others[1]]).contains("another program"));
        assert!(refused(&[&files[0]]).contains("missing: 2/2"));
        assert!(refused(&[&files[0], &files[0]]).contains("both shard 1/2"));
        let text = one.path().join("text");
        fs::write(&text, "text").unwrap();
        assert!(!is_shard_of_runs(&text));
        assert!(refused(&[&files[0], &text]).contains("not a shard of a measured sweep"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn a_cut_or_a_changed_byte_is_found(place in 0.0..1.0f64, bit in 0u32..8, cut in any::<bool>()) {
            let folder = tempfile::tempdir().unwrap();
            let file = shards(folder.path(), &plan(2, "solver"), 1).remove(0);
            let mut bytes = fs::read(&file).unwrap();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a short text")]
            let place = (bytes.len() as f64 * place) as usize;
            if cut {
                bytes.truncate(place);
            } else {
                bytes[place] ^= 1 << bit;
            }
            fs::write(&file, bytes).unwrap();
            let error = format!("{:#}", merge_runs(&[file]).err().unwrap());
            prop_assert!(error.contains("is damaged") || error.contains("not a shard"), "{}", error);
        }
    }
}
