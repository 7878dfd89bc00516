//! Shards: parts of a sweep's jobs for several computers, and the data set of all parts.
//!
//! 1. `Shard` assigns the jobs of the plan to parts. Each job is in one part.
//! 2. `write` makes the shard file of a part (docs/formats/data-sets.md). The file describes the sweep and has, for
//!    each job, its subject and its outcome.
//! 3. `merge` reads all shard files of a sweep. It refuses files of different sweeps or builds, and missing or repeated
//!    shards. `rows` makes the data set, as for a sweep without shards, in the order of the plan.
//!
//! Jobs are dealt one by one. Neighbours in the plan belong to the same program and cost about the same. The costs of
//! different programs are hard to compare: an access of one program may take ten times as long to simulate as an access
//! of another. So each part has jobs of each program. Parts of whole programs would save only the work that all
//! configurations of a program share: its page profile and, with sampling, two readings of the recording. This is about
//! the cost of one job.

use crate::journal::{Outcome, first_record, framed};
use crate::plan::{Extent, Plan, build_id};
use crate::regions::JoinedRegions;
use crate::rows::data_set_from_jobs;
use crate::subject::{MachineEntry, Subject};
use anyhow::{Context, Result, bail};
use pinfold_core::{content_hash, digits};
use pinfold_dataset::DataSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

const MAGIC: &[u8] = b"pinfold shard 1\n";
/// The first bytes of a journal. An unfinished shard has a journal only.
const UNFINISHED: &[u8] = b"pinfold sweep ";
/// The largest number of parts. No cluster has more computers.
const MOST: usize = 100_000;

/// One of several parts of a sweep. All parts have about the same number of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shard {
    /// From 1 to `of`.
    pub number: usize,
    /// The number of parts.
    pub of: usize,
}

impl Shard {
    /// Whether the part has the job at this position in the plan. It has if the digits of the position in base `of`
    /// have the sum `number - 1`, modulo `of`. So each part has one job of every `of` successive jobs, and the order of
    /// the parts changes from one group of `of` jobs to the next. With a fixed order, a part could get only some values
    /// of an inner dimension of the space, such as the prefetchers: this happens if the number of values and `of` have
    /// a common divisor.
    pub fn has(self, job: usize) -> bool {
        // Base 1 has no digits.
        let digits =
            (self.of > 1).then(|| std::iter::successors(Some(job), |&rest| (rest > 0).then_some(rest / self.of)));
        let sum: usize = digits.into_iter().flatten().map(|rest| rest % self.of).sum();
        sum % self.of == self.number - 1
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/');
        parts
            .and_then(|(number, of)| {
                Some(Self {
                    number: digits::decimal(number)?,
                    of: digits::decimal(of)?,
                })
            })
            .filter(|shard| (1..=shard.of).contains(&shard.number) && shard.of <= MOST)
            .ok_or_else(|| format!("give I/N, part I of N, with I from 1 to N, and N up to {MOST}, as 2/5"))
    }
}

/// The identity of a sweep. All its shards have the same identity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Sweep {
    /// A hash of the binary.
    build: String,
    machines: Vec<MachineEntry>,
    /// A hash of each recording.
    recordings: Vec<String>,
    sampled: bool,
    /// Of sampled times; `None` if all is simulated.
    precision: Option<f64>,
    /// The number of jobs.
    configurations: usize,
    /// A hash of all jobs.
    plan: String,
}

impl Sweep {
    fn of(plan: &Plan) -> Self {
        let precision = match plan.extent {
            Extent::Sampled { precision } => Some(precision),
            Extent::Whole => None,
        };
        let keys: Vec<u8> = plan.jobs.iter().flat_map(|job| job.key.0.to_le_bytes()).collect();
        Self {
            build: format!("{:032x}", plan.build),
            machines: plan.machines.iter().map(MachineEntry::new).collect(),
            recordings: plan
                .programs
                .iter()
                .map(|program| format!("{:032x}", program.content))
                .collect(),
            sampled: precision.is_some(),
            precision,
            configurations: plan.jobs.len(),
            plan: format!("{:032x}", content_hash(&keys)),
        }
    }

    /// The difference of two sweeps; `None` if they are the same.
    fn difference(&self, other: &Self) -> Option<&'static str> {
        if self.build != other.build {
            Some("another build of pinfold")
        } else if self.machines != other.machines {
            Some("other machines, or the same in another order")
        } else if self.recordings != other.recordings {
            Some("other recordings, or the same in another order")
        } else if self.sampled != other.sampled {
            Some("a sweep with --sampled, and one without")
        } else if self.precision != other.precision {
            Some("another --precision")
        } else {
            (self != other).then_some("other configurations (--space, --limit)")
        }
    }
}

/// The first record of a shard file.
#[derive(Clone, Serialize, Deserialize)]
struct Head {
    shard: Shard,
    sweep: Sweep,
    /// The number of records that follow.
    results: usize,
}

/// Each later record.
#[derive(Serialize, Deserialize)]
struct JobResult {
    /// The position in the plan.
    job: usize,
    subject: Subject,
    outcome: Outcome,
}

/// Writes the shard file of a part. `outcomes` has the outcome of each job by the job's position.
///
/// # Errors
///
/// The file cannot be written.
pub fn write(plan: &Plan, shard: Shard, outcomes: &BTreeMap<usize, Outcome>, file: &mut impl Write) -> Result<()> {
    let head = Head {
        shard,
        sweep: Sweep::of(plan),
        results: outcomes.len(),
    };
    file.write_all(MAGIC)?;
    file.write_all(&framed(&head)?)?;
    for (&job, outcome) in outcomes {
        let part = JobResult {
            job,
            subject: Subject::new(plan, &plan.jobs[job]),
            outcome: outcome.clone(),
        };
        file.write_all(&framed(&part)?)?;
    }
    Ok(())
}

/// The data set of all shards of a sweep.
pub struct Merged {
    /// The data set.
    pub data_set: DataSet,
    /// The number of machines.
    pub machines: usize,
    /// The number of recordings.
    pub programs: usize,
    /// The number of jobs.
    pub configurations: usize,
    /// Notes for the user about regions that lack results.
    pub notes: Vec<String>,
}

/// Reads all shards of a sweep. The same build of pinfold must have written them.
///
/// # Errors
///
/// A file cannot be read, is not a finished shard, or is damaged; files are of different builds or sweeps; a shard is
/// missing or repeated.
pub fn merge(files: &[PathBuf]) -> Result<Merged> {
    merge_for(&format!("{:032x}", build_id()?), files)
}

/// `merge` for files of this build.
fn merge_for(build: &str, files: &[PathBuf]) -> Result<Merged> {
    let mut first: Option<(&Path, Head)> = None;
    let mut seen: BTreeMap<usize, &Path> = BTreeMap::new();
    let mut parts: BTreeMap<usize, JobResult> = BTreeMap::new();
    for file in files {
        let (head, results) = read(file)?;
        if head.sweep.build != build {
            bail!(
                "{} is of another build of pinfold, whose results may differ: merge with the pinfold that wrote it, or \
                 run `pinfold sweep --shard {}` again with this one",
                file.display(),
                head.shard
            );
        }
        let (first_file, first_head) = first.get_or_insert_with(|| (file, head.clone()));
        if let Some(difference) = first_head.sweep.difference(&head.sweep) {
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
        parts.extend(results.into_iter().map(|part| (part.job, part)));
    }
    let (_, Head { shard, sweep, .. }) = first.context("no shard was named")?;
    check_complete(shard.of, &seen)?;
    let jobs = parts.into_values().map(|part| (part.subject, part.outcome));
    let (subjects, outcomes): (Vec<Subject>, Vec<Outcome>) = jobs.unzip();
    let names: Vec<&str> = sweep.machines.iter().map(|machine| machine.name.as_str()).collect();
    Ok(Merged {
        notes: JoinedRegions::new(subjects.iter().zip(&outcomes)).notes(&names),
        data_set: data_set_from_jobs(&sweep.machines, subjects.into_iter().zip(&outcomes)),
        machines: sweep.machines.len(),
        programs: sweep.recordings.len(),
        configurations: sweep.configurations,
    })
}

/// Refuses an incomplete set of shards. The error names the missing ones.
pub(crate) fn check_complete(of: usize, seen: &BTreeMap<usize, &Path>) -> Result<()> {
    /// The error only counts further ones.
    const NAMED: usize = 10;
    let missing: Vec<usize> = (1..=of).filter(|number| !seen.contains_key(number)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let named: Vec<String> = missing
        .iter()
        .take(NAMED)
        .map(|number| format!("{number}/{of}"))
        .collect();
    let more = match missing.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let there = seen
        .values()
        .next()
        .map(|file| file.display().to_string())
        .unwrap_or_default();
    bail!(
        "beside {there} these shards are missing: {}{more}. Name their files too, or run `pinfold sweep --shard {}` with the \
         same arguments as for the others",
        named.join(", "),
        named[0]
    )
}

/// Reads a shard file: its head, and one result for each of its jobs.
fn read(file: &Path) -> Result<(Head, Vec<JobResult>)> {
    let bytes = match fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) => {
            let mut unfinished = file.as_os_str().to_owned();
            unfinished.push(".partial");
            let hint = if Path::new(&unfinished).exists() {
                "; its sweep is not finished: run the same `pinfold sweep --shard` again, which goes on from there"
            } else {
                ""
            };
            return Err(error).with_context(|| format!("the shard {} cannot be read{hint}", file.display()));
        }
    };
    if bytes.starts_with(UNFINISHED) {
        bail!(
            "{} has the results of an unfinished sweep: run the same `pinfold sweep --shard` again, which goes on from there, \
             and name the file that it writes",
            file.display()
        );
    }
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        bail!(
            "{} is not a shard of this version of pinfold sweep: `pinfold sweep --shard I/N -o FILE` writes one",
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
fn parse(bytes: &[u8]) -> Option<(Head, Vec<JobResult>)> {
    let (head, mut rest) = first_record::<Head>(bytes)?;
    let mut parts = vec![];
    while let Some((part, after)) = first_record::<JobResult>(rest) {
        parts.push(part);
        rest = after;
    }
    let machines = &head.sweep.machines;
    let fits = |part: &JobResult| {
        let metrics = machines.get(part.subject.machine).map(|machine| machine.metrics.len());
        part.outcome.rows.iter().all(|row| Some(row.metrics.len()) == metrics)
    };
    // A damaged file may have a shard that `Shard::from_str` refuses.
    let shard = Some(head.shard).filter(|shard| (1..=shard.of).contains(&shard.number))?;
    let jobs = (0..head.sweep.configurations).filter(|&job| shard.has(job));
    let complete = rest.is_empty() && parts.len() == head.results && parts.iter().map(|part| part.job).eq(jobs);
    (complete && parts.iter().all(fits)).then_some((head, parts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Exact, OutcomeRow};
    use pinfold_core::MetricColumn;
    use pinfold_dataset::{ConfigurationColumns, Layout, WindowColumns};
    use proptest::prelude::*;

    fn all(of: usize) -> impl Iterator<Item = Shard> {
        (1..=of).map(move |number| Shard { number, of })
    }

    proptest! {
        #[test]
        fn each_job_is_in_one_shard_and_shards_have_the_same_number_of_jobs(jobs in 0usize..2000, of in 1usize..100) {
            let counts: Vec<usize> = all(of).map(|shard| (0..jobs).filter(|&job| shard.has(job)).count()).collect();
            for job in 0..jobs {
                prop_assert_eq!(all(of).filter(|shard| shard.has(job)).count(), 1);
            }
            prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn each_shard_has_all_values_of_an_inner_dimension() {
        // Sixteen settings of prefetchers, the innermost dimension of 288 configurations.
        for of in [2, 4, 8, 16] {
            for shard in all(of) {
                let settings = (0..288).filter(|&job| shard.has(job)).map(|job| job % 16);
                assert_eq!(settings.collect::<std::collections::BTreeSet<_>>().len(), 16, "{shard}");
            }
        }
    }

    #[test]
    fn shards_are_read_as_they_are_shown() {
        let shard = Shard { number: 2, of: 5 };
        assert_eq!(shard.to_string().parse(), Ok(shard));
        for text in [
            "0/5", "6/5", "2", "2/", "/5", "+2/5", "2/5/5", "1/0", "1/100001", "-1/5",
        ] {
            let refused = text.parse::<Shard>().unwrap_err();
            assert!(refused.contains("as 2/5"), "{text}: {refused}");
        }
    }

    /// A sweep of ten jobs on one machine.
    fn sweep() -> Sweep {
        Sweep {
            build: "b".to_owned(),
            machines: vec![MachineEntry {
                name: "m".to_owned(),
                model: "1".to_owned(),
                metrics: vec![MetricColumn {
                    name: "ipc".to_owned(),
                    unit: "1".to_owned(),
                }],
            }],
            recordings: vec!["r".to_owned()],
            sampled: false,
            precision: None,
            configurations: 10,
            plan: "p".to_owned(),
        }
    }

    fn part(job: usize) -> JobResult {
        let subject = Subject {
            machine: 0,
            program: "program".to_owned(),
            command: format!("program {job}"),
            recording: "r".to_owned(),
            configuration: ConfigurationColumns {
                num_threads: 2,
                layout: Some(Layout {
                    num_nodes: 1,
                    threads_per_core: Some(1),
                    thread_map: None,
                }),
                page_map: "local".to_owned(),
                prefetch: "0000".to_owned(),
                pinning: Some("0,1".to_owned()),
            },
            window: WindowColumns {
                window_bytes: Some(64),
                llc_bytes: Some(1 << 20),
                ..WindowColumns::default()
            },
            joined: None,
        };
        let row = |region| OutcomeRow {
            region,
            time: Exact(1.0 / (job + 3) as f64),
            metrics: vec![region.map(|_| Exact(f64::MIN_POSITIVE))],
            ..OutcomeRow::default()
        };
        let outcome = Outcome {
            rows: vec![row(None), row(Some(4096))],
            ..Outcome::default()
        };
        JobResult { job, subject, outcome }
    }

    fn bytes(shard: Shard, sweep: Sweep) -> Vec<u8> {
        let jobs: Vec<usize> = (0..sweep.configurations).filter(|&job| shard.has(job)).collect();
        let results = jobs.len();
        let mut bytes = MAGIC.to_vec();
        bytes.extend(framed(&Head { shard, sweep, results }).unwrap());
        for job in jobs {
            bytes.extend(framed(&part(job)).unwrap());
        }
        bytes
    }

    /// Shard files in a folder.
    struct Files(tempfile::TempDir);

    impl Files {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
            let file = self.0.path().join(name);
            fs::write(&file, bytes).unwrap();
            file
        }

        fn shard(&self, name: &str, number: usize, of: usize, change: impl FnOnce(&mut Sweep)) -> PathBuf {
            let mut sweep = sweep();
            change(&mut sweep);
            self.write(name, &bytes(Shard { number, of }, sweep))
        }

        fn all(&self, of: usize) -> Vec<PathBuf> {
            let file = |number| self.shard(&format!("{number}-{of}"), number, of, |_| ());
            (1..=of).map(file).collect()
        }
    }

    fn refused(files: &[PathBuf]) -> String {
        format!("{:#}", merge_for("b", files).err().expect("the shards are refused"))
    }

    #[test]
    fn the_data_set_is_the_same_for_any_number_of_shards_in_any_order() {
        let files = Files::new();
        let merged = |of, turn: usize| {
            let mut shards = files.all(of);
            shards.rotate_left(turn % of);
            let mut written = vec![];
            let merged = merge_for("b", &shards).unwrap();
            assert_eq!(merged.configurations, 10);
            assert_eq!(merged.data_set.rows.len(), 20);
            merged.data_set.write(&mut written).unwrap();
            written
        };
        let whole = merged(1, 0);
        // Of 15 shards, five have nothing.
        for of in [2, 3, 5, 15] {
            assert_eq!(merged(of, of / 2), whole, "{of} shards");
        }
    }

    #[test]
    fn shards_of_different_sweeps_are_refused_by_name() {
        type Change = fn(&mut Sweep);
        let changes: [(Change, &str); 7] = [
            (|sweep| sweep.build = "c".to_owned(), "is of another build of pinfold"),
            (|sweep| sweep.machines[0].model = "2".to_owned(), "other machines"),
            (|sweep| sweep.recordings[0] = "s".to_owned(), "other recordings"),
            (|sweep| sweep.sampled = true, "--sampled"),
            (|sweep| sweep.precision = Some(0.04), "another --precision"),
            (|sweep| sweep.configurations = 11, "other configurations"),
            (|sweep| sweep.plan = "q".to_owned(), "other configurations"),
        ];
        let files = Files::new();
        let first = files.shard("first", 1, 2, |_| ());
        for (change, part) in changes {
            let other = files.shard("other", 2, 2, change);
            let error = refused(&[first.clone(), other.clone()]);
            assert!(error.contains(part), "{error}");
            assert!(error.contains(&other.display().to_string()), "{error}");
            assert!(error.contains("run `pinfold sweep --shard 2/2` again"), "{error}");
        }
        let of_three = files.shard("of three", 2, 3, |_| ());
        let error = refused(&[first, of_three]);
        assert!(error.contains("first is shard 1/2, and"), "{error}");
        assert!(error.contains("of three is shard 2/3"), "{error}");
    }

    #[test]
    fn missing_and_doubled_shards_are_named() {
        let files = Files::new();
        let shards = files.all(5);
        let error = refused(&[&shards[..1], &shards[2..4]].concat());
        assert!(error.contains("are missing: 2/5, 5/5. Name"), "{error}");
        let again = files.shard("again", 2, 5, |_| ());
        let error = refused(&[shards, vec![again]].concat());
        assert!(
            error.contains("2-5 and ") && error.contains("again are both shard 2/5"),
            "{error}"
        );
        let error = refused(&[files.shard("one", 1, 50, |_| ())]);
        assert!(error.contains("11/50 and 39 more. Name"), "{error}");
    }

    #[test]
    fn a_file_that_is_no_finished_shard_is_named() {
        let files = Files::new();
        let journal = files.write("data.partial", b"pinfold sweep 1\n");
        assert!(refused(&[journal]).contains("data.partial has the results of an unfinished sweep"));
        let text = files.write("text", b"something else");
        assert!(refused(&[text]).contains("text is not a shard of this version"));
        let absent = files.0.path().join("data");
        let error = refused(std::slice::from_ref(&absent));
        assert!(
            error.contains("data cannot be read; its sweep is not finished"),
            "{error}"
        );
        fs::remove_file(files.0.path().join("data.partial")).unwrap();
        assert!(refused(&[absent]).contains("data cannot be read: No such file"));
    }

    proptest! {
        #[test]
        fn a_cut_or_a_changed_byte_is_found(place in 0.0..1.0f64, bit in 0u32..8, cut in any::<bool>()) {
            let files = Files::new();
            let mut bytes = bytes(Shard { number: 1, of: 1 }, sweep());
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a short text")]
            let place = (bytes.len() as f64 * place) as usize;
            if cut {
                bytes.truncate(place);
            } else {
                bytes[place] ^= 1 << bit;
            }
            let error = refused(&[files.write("shard", &bytes)]);
            prop_assert!(error.contains("is damaged") || error.contains("is not a shard"), "{}", error);
        }
    }
}
