//! The results of an unfinished sweep, beside its output: `DATA.parquet.partial`.
//!
//! 1. The file starts with a magic line, which says what its results are (`Kept`). Records follow: length and checksum
//!    of the content (4 bytes each, little endian, CRC-32), and a result as JSON. Floating-point numbers are stored as
//!    their bits, so that they are read back exactly.
//! 2. Each record is written to the kernel in one call as soon as the result is known, so it survives any end of this
//!    process. Once a second the file is forced to the disk, so a crash of the machine loses at most the last second.
//! 3. The key of a result is a hash of everything that the result depends on (`plan`). The next run reads all complete
//!    records by their keys. A partial record at the end, left by a kill or a full disk, is cut off.
//!
//! The file is private, and locked while it is open.

use anyhow::{Context, Result, bail};
use pinfold_core::digits;
use pinfold_files::lock::{Holder, LockedFile, holder_text, lock};
use pinfold_files::own;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A result that a journal keeps.
pub trait Kept: Serialize + DeserializeOwned {
    /// The first line of the file.
    const MAGIC: &'static [u8];
}

impl Kept for Outcome {
    const MAGIC: &'static [u8] = b"pinfold sweep 1\n";
}

/// The size of a record's length and checksum.
const HEAD: usize = 8;
/// The limit of a record's length: a program of a million regions with 30 metrics each.
const LONGEST: u32 = 1 << 30;
const BETWEEN_SYNCS: Duration = Duration::from_secs(1);

/// The identity of a result: a hash of everything that it depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub u128);

/// The result of one configuration of one program on one machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The whole program first, then its regions.
    pub rows: Vec<OutcomeRow>,
    /// The number of waits for events outside the recording.
    pub released: u64,
    /// The share of the threads' time that they spent waiting for events outside the recording; `None` if it is not
    /// known.
    pub unrecorded_wait_share: Option<Exact>,
    /// The share of the accesses that was simulated.
    pub simulated_share: Exact,
}

/// The whole program or a region of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutcomeRow {
    /// The region's identity; `None` for the whole program.
    pub region: Option<u64>,
    /// In seconds.
    pub time: Exact,
    /// Half the width of the 95 % confidence interval of the time, over the time; `None` if a sample does not give it.
    pub time_error: Option<Exact>,
    /// By node: the bytes that its memory read and wrote; `None` if they were not counted.
    pub node_bytes: Option<Vec<u64>>,
    /// By link: the bytes that crossed it.
    pub link_bytes: Option<Vec<u64>>,
    /// The metrics of the machine, in the order of its columns.
    pub metrics: Vec<Option<Exact>>,
    /// The counters of LIKWID, in the order of their columns.
    pub likwid: Vec<Option<Exact>>,
}

/// A number that is stored as its bits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Exact(pub f64);

impl Serialize for Exact {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0.to_bits())
    }
}

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        u64::deserialize(deserializer).map(|bits| Self(f64::from_bits(bits)))
    }
}

#[derive(Serialize, Deserialize)]
struct Record<T> {
    /// 32 hexadecimal digits.
    key: String,
    outcome: T,
}

/// The open file of results of one type.
pub struct Journal<T> {
    file: LockedFile,
    path: PathBuf,
    /// The end of the magic line, where the first record begins.
    first: u64,
    /// The end of the last whole record.
    end: u64,
    synced: Instant,
    /// Whether the file has been removed.
    removed: bool,
    results: PhantomData<T>,
}

/// The content of the file when it was opened.
#[derive(Debug, PartialEq)]
pub struct JournalContent<T> {
    /// The results with their keys, in the order in which they were stored.
    pub results: Vec<(Key, T)>,
    /// Bytes after the last whole record.
    pub torn: u64,
}

impl<T> JournalContent<T> {
    /// The last result of each key.
    pub fn by_key(self) -> HashMap<Key, T> {
        self.results.into_iter().collect()
    }
}

impl<T: Kept> Journal<T> {
    /// Opens the file and reads it. `opened` opens it for reading and writing, and creates it if it does not exist. So
    /// the caller decides which files may be written.
    pub fn open(path: &Path, opened: impl Fn(&Path) -> Result<File>) -> Result<(Self, JournalContent<T>)> {
        let failure = || format!("{} cannot be opened", path.display());
        let file = loop {
            let file = opened(path).with_context(failure)?;
            own::make_private(&file).with_context(failure)?;
            let Some(locked) = lock(file.try_clone().with_context(failure)?).with_context(failure)? else {
                let holder = Holder::of(&file);
                let who = match &holder {
                    Some(holder) if holder.is_stranger() => "another user has locked",
                    _ => "another sweep is writing",
                };
                bail!(
                    "{who} {}: wait for the end of {}, or give this sweep another output",
                    path.display(),
                    holder_text(holder.as_ref())
                );
            };
            // The process that held the lock may have finished and removed the file in between.
            if own::is_at(&locked, path) {
                break locked;
            }
        };
        let mut bytes = vec![];
        (&*file).read_to_end(&mut bytes).with_context(failure)?;
        let (found, end) = parse(&bytes).with_context(|| {
            format!(
                "{} is not a partial result of this kind of sweep, or of this version of pinfold: remove it, or choose \
                 another output",
                path.display()
            )
        })?;
        let mut end = end as u64;
        file.set_len(end).with_context(failure)?;
        (&*file).seek(SeekFrom::End(0)).with_context(failure)?;
        if end == 0 {
            (&*file).write_all(T::MAGIC).with_context(failure)?;
            end = T::MAGIC.len() as u64;
        }
        let journal = Self {
            file,
            path: path.to_owned(),
            first: T::MAGIC.len() as u64,
            end,
            synced: Instant::now(),
            removed: false,
            results: PhantomData,
        };
        Ok((journal, found))
    }

    /// Stores a result.
    pub fn keep(&mut self, key: Key, outcome: &T) -> Result<()> {
        let record = record(key, outcome)?;
        let failure = || {
            format!(
                "{} cannot be written; its results are kept, and the same command continues from them",
                self.path.display()
            )
        };
        if let Err(error) = (&*self.file).write_all(&record) {
            // The next reader would drop a partial record anyway.
            let _ = self.file.set_len(self.end);
            return Err(error).with_context(failure);
        }
        self.end += record.len() as u64;
        if self.synced.elapsed() >= BETWEEN_SYNCS {
            self.file.sync_data().with_context(failure)?;
            self.synced = Instant::now();
        }
        Ok(())
    }

    /// Forces the file to the disk.
    pub fn sync(&self) -> Result<()> {
        self.file
            .sync_data()
            .with_context(|| format!("{} cannot be written", self.path.display()))
    }

    /// Removes the file. Its results are in the output.
    pub fn remove(mut self) -> Result<()> {
        self.removed = true;
        fs::remove_file(&self.path).with_context(|| format!("{} cannot be removed", self.path.display()))
    }
}

impl<T> Drop for Journal<T> {
    fn drop(&mut self) {
        if !self.removed && self.end == self.first {
            // The file is empty, so it does no harm if it stays.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn record(key: Key, outcome: &impl Serialize) -> Result<Vec<u8>> {
    framed(&Record {
        key: format!("{:032x}", key.0),
        outcome,
    })
}

/// A record of this content: its length, its checksum, and the content as JSON.
pub(crate) fn framed(content: &impl Serialize) -> Result<Vec<u8>> {
    let payload = serde_json::to_vec(content)?;
    let mut bytes = u32::try_from(payload.len())?.to_le_bytes().to_vec();
    bytes.extend(crc32fast::hash(&payload).to_le_bytes());
    bytes.extend(payload);
    Ok(bytes)
}

/// All complete records, and the end of the last one: 0 for a file without a magic line. `None` for another kind of
/// file.
fn parse<T: Kept>(bytes: &[u8]) -> Option<(JournalContent<T>, usize)> {
    if bytes.len() < T::MAGIC.len() {
        let found = JournalContent {
            results: vec![],
            torn: bytes.len() as u64,
        };
        return T::MAGIC.starts_with(bytes).then_some((found, 0));
    }
    let mut rest = bytes.strip_prefix(T::MAGIC)?;
    let mut results = vec![];
    while let Some((record, after)) = first_record::<Record<T>>(rest) {
        let key = digits::hexadecimal(&record.key)?;
        results.push((Key(key), record.outcome));
        rest = after;
    }
    let torn = rest.len() as u64;
    Some((JournalContent { results, torn }, bytes.len() - rest.len()))
}

/// The content of the first record, and the bytes after it; `None` if the record is incomplete or damaged.
pub(crate) fn first_record<T: DeserializeOwned>(bytes: &[u8]) -> Option<(T, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| head[at + byte]));
    if number(0) > LONGEST {
        return None;
    }
    let (payload, rest) = rest.split_at_checked(number(0) as usize)?;
    if crc32fast::hash(payload) != number(4) {
        return None;
    }
    Some((serde_json::from_slice(payload).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs::OpenOptions;

    const MAGIC: &[u8] = Outcome::MAGIC;

    fn open(path: &Path) -> Result<(Journal<Outcome>, JournalContent<Outcome>)> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        Journal::open(path, |path| Ok(options.open(path)?))
    }

    fn outcome(seed: u64) -> Outcome {
        let row = |region| OutcomeRow {
            region,
            time: Exact(1.0 / (seed + 3) as f64),
            time_error: region.map(|region: u64| Exact(1.0 / (region + 7) as f64)),
            node_bytes: region.map(|region| vec![region, u64::MAX]),
            link_bytes: region.map(|_| vec![]),
            metrics: vec![None, Some(Exact(seed as f64 * 0.1)), Some(Exact(f64::MIN_POSITIVE))],
            likwid: vec![Some(Exact(seed as f64 * 0.7)), None],
        };
        Outcome {
            rows: (0..=seed % 3)
                .map(|number| row((number > 0).then_some(number)))
                .collect(),
            released: seed,
            unrecorded_wait_share: seed.is_multiple_of(2).then_some(Exact(0.1)),
            simulated_share: Exact(0.3),
        }
    }

    fn journal(seeds: &[u64]) -> (Vec<u8>, Vec<usize>) {
        let mut bytes = MAGIC.to_vec();
        let mut ends = vec![bytes.len()];
        for &seed in seeds {
            bytes.extend(record(Key(u128::from(seed)), &outcome(seed)).unwrap());
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    proptest! {
        #[test]
        fn a_cut_loses_no_complete_record_and_leaves_no_partial_one(
            seeds in proptest::collection::btree_set(0u64..1000, 0..8), cut in 0.0..1.0f64
        ) {
            let seeds: Vec<u64> = seeds.into_iter().collect();
            let (bytes, ends) = journal(&seeds);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a short text")]
            let cut = (bytes.len() as f64 * cut) as usize;
            let (found, end) = parse::<Outcome>(&bytes[..cut]).unwrap();
            let whole = ends.iter().filter(|&&end| end <= cut).count().saturating_sub(1);
            prop_assert_eq!(end + usize::try_from(found.torn).unwrap(), cut);
            let found = found.by_key();
            prop_assert_eq!(found.len(), whole);
            for &seed in &seeds[..whole] {
                prop_assert_eq!(&found[&Key(u128::from(seed))], &outcome(seed));
            }
        }

        #[test]
        fn a_changed_byte_never_gives_a_wrong_result(
            seeds in proptest::collection::btree_set(0u64..1000, 1..6), place in 0.0..1.0f64, bit in 0u32..8
        ) {
            let seeds: Vec<u64> = seeds.into_iter().collect();
            let (mut bytes, _) = journal(&seeds);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a short text")]
            let place = MAGIC.len() + ((bytes.len() - MAGIC.len()) as f64 * place) as usize;
            bytes[place] ^= 1 << bit;
            let (found, _) = parse::<Outcome>(&bytes).unwrap();
            for (key, found) in &found.results {
                prop_assert_eq!(found, &outcome(u64::try_from(key.0).unwrap()));
            }
        }
    }

    #[test]
    fn stored_results_are_read_back_and_writing_continues_after_a_torn_record() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.partial");
        let (mut journal, found) = open(&path).unwrap();
        assert!(found.results.is_empty() && found.torn == 0);
        journal.keep(Key(1), &outcome(1)).unwrap();
        journal.keep(Key(2), &outcome(2)).unwrap();
        drop(journal);
        let length = fs::metadata(&path).unwrap().len();
        OpenOptions::new()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(length - 1)
            .unwrap();

        let (mut journal, found) = open(&path).unwrap();
        assert_eq!(found.results, [(Key(1), outcome(1))]);
        assert!(found.torn > 0);
        journal.keep(Key(3), &outcome(3)).unwrap();
        drop(journal);

        let (journal, found) = open(&path).unwrap();
        assert_eq!(found.results, [(Key(1), outcome(1)), (Key(3), outcome(3))]);
        assert_eq!(found.torn, 0);
        journal.remove().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn two_sweeps_cannot_have_one_journal_and_another_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.partial");
        let held = open(&path).unwrap();
        let error = open(&path).err().unwrap().to_string();
        assert!(error.contains("another sweep"), "{error}");
        drop(held);
        fs::write(&path, "something else that is long enough").unwrap();
        let error = open(&path).err().unwrap().to_string();
        assert!(error.contains("not a partial result"), "{error}");
    }
}
