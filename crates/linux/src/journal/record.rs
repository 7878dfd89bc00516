//! The records of a journal: one line each. A line starts with a checksum of its remainder.
//!
//! `docs/formats/internals/journals.md` describes the lines. They are text, so that an administrator can read what a
//! killed pinfold has done. A line that a kill has truncated has no end, and is ignored. Any other line with a wrong
//! checksum or unknown content is damage.

use super::origin::{JournalOrigin, Namespaces, PidNamespace, Writer};
use crate::affinity::CpuMask;
use crate::functions::ProbeGroup;
use crate::requested::Requested;
use pinfold_core::{PuId, PuSet, digits};
use std::fmt::{self, Write as _};
use std::str::SplitAsciiWhitespace;

/// The version of the format. Version 1 lacks namespaces. Version 2 lacks the writer, and cannot record that a mask was
/// set by no one. Both can be read.
pub(super) const VERSION: u32 = 3;

/// The word for a mask that no one has set.
const UNSET: &str = "unset";

/// The number of bytes of a file that show whether it is a journal.
pub(crate) const HEADER_LENGTH: u64 = 17;

/// Whether a file starts like a journal of any version: with a checksum and the word `journal`.
pub(crate) fn has_header(bytes: &[u8]) -> bool {
    bytes
        .split_at_checked(8)
        .is_some_and(|(checksum, rest)| checksum.iter().all(u8::is_ascii_hexdigit) && rest.starts_with(b" journal "))
}

/// A change that was made or is about to be made, with the state before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A thread was pinned.
    Mask(MaskChange),
    /// Bits of a model-specific register of a PU were changed.
    Register(RegisterChange),
    /// Probes of functions were defined in this group.
    Probes(ProbeGroup),
}

/// A thread was pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskChange {
    /// The thread.
    pub thread: Thread,
    /// Its original mask.
    pub original: Requested,
    /// pinfold's previous pinning of it. `None` if there was none.
    pub replaced: Option<PuId>,
    /// The PU that it is pinned on.
    pub pinned: PuId,
    /// The time when pinfold first pinned it, on this PU or another, in clock ticks since boot.
    pub since: u64,
    /// A checksum of the control groups of its process. `None` if they are not known.
    pub groups: Option<u32>,
    /// The mask that it has until its restored original mask can be in force. `None` if the original mask was not
    /// restored.
    pub meanwhile: Option<CpuMask>,
}

/// A thread, unique until the machine reboots: its number may be reused, but not with the same start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Thread {
    /// Its process.
    pub process: i32,
    /// Its number.
    pub thread: i32,
    /// Its start time, in clock ticks since boot.
    pub start: u64,
}

/// Bits of a model-specific register were changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterChange {
    /// The PU.
    pub pu: PuId,
    /// The register's number.
    pub register: u32,
    /// The bits that pinfold changes; all others stay as they are.
    pub bits: u64,
    /// The original value of these bits.
    pub original: u64,
    /// pinfold's previous value of these bits. `None` if there was none.
    pub replaced: Option<u64>,
    /// Their new value.
    pub written: u64,
}

/// The target of a change. A later change of a target replaces the earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The mask of this thread.
    Mask(Thread),
    /// This register of this PU.
    Register(u32, PuId),
    /// This group of probes.
    Probes(ProbeGroup),
}

impl Change {
    /// Its target.
    pub fn target(&self) -> Target {
        match self {
            Self::Mask(change) => Target::Mask(change.thread),
            Self::Register(change) => Target::Register(change.register, change.pu),
            Self::Probes(group) => Target::Probes(*group),
        }
    }
}

/// One line of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// The first line: the origin of the journal.
    Header(JournalOrigin),
    /// The first line of another version of the format.
    OtherVersion(u32),
    /// This change is about to be made.
    Change(Change),
    /// This change was rolled back, or its target has ended.
    RolledBack(Target),
    /// The changes in force stay.
    Kept,
}

impl Record {
    /// The line, with its end.
    pub(crate) fn to_line(&self) -> String {
        let body = self.to_string();
        format!("{:08x} {body}\n", crc32fast::hash(body.as_bytes()))
    }

    /// Reads a line without its line feed. `None` for damage.
    pub(crate) fn from_line(line: &str) -> Option<Self> {
        let (checksum, body) = line.split_once(' ')?;
        if checksum.len() != 8 || digits::hexadecimal::<u32>(checksum)? != crc32fast::hash(body.as_bytes()) {
            return None;
        }
        let mut words = body.split_ascii_whitespace();
        let record = match words.next()? {
            "journal" => match digits::decimal(words.next()?)? {
                1 => Self::Header(JournalOrigin {
                    boot: words.next()?.to_owned(),
                    namespaces: None,
                    writer: None,
                }),
                version @ (2 | VERSION) => Self::Header(JournalOrigin {
                    boot: words.next()?.to_owned(),
                    namespaces: Some(Namespaces {
                        pid: pid_namespace(words.next()?)?,
                        boot_offset: signed(words.next()?)?,
                    }),
                    writer: if version == 2 { None } else { Some(writer(&mut words)?) },
                }),
                version => {
                    // The fields of another version are not known.
                    words.by_ref().for_each(drop);
                    Self::OtherVersion(version)
                }
            },
            "mask" => Self::Change(Change::Mask(MaskChange {
                thread: thread(&mut words)?,
                original: original(words.next()?)?,
                replaced: optional(words.next()?, pu)?,
                pinned: pu(words.next()?)?,
                // Version 1 ends here.
                since: words.next().map_or(Some(0), digits::decimal)?,
                groups: words.next().map_or(Some(None), |word| optional(word, eight_digits))?,
                // Version 2 ends here. So does a mask that was not restored.
                meanwhile: words.next().map_or(Some(None), |word| mask(word).map(Some))?,
            })),
            "register" => Self::Change(Change::Register(RegisterChange {
                register: hexadecimal(words.next()?)?.try_into().ok()?,
                pu: pu(words.next()?)?,
                bits: hexadecimal(words.next()?)?,
                original: hexadecimal(words.next()?)?,
                replaced: optional(words.next()?, hexadecimal)?,
                written: hexadecimal(words.next()?)?,
            })),
            "probes" => Self::Change(Change::Probes(probes(&mut words)?)),
            "undone" => Self::RolledBack(match words.next()? {
                "mask" => Target::Mask(thread(&mut words)?),
                "register" => Target::Register(hexadecimal(words.next()?)?.try_into().ok()?, pu(words.next()?)?),
                "probes" => Target::Probes(probes(&mut words)?),
                _ => return None,
            }),
            "kept" => Self::Kept,
            _ => return None,
        };
        words.next().is_none().then_some(record)
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(JournalOrigin {
                boot,
                namespaces,
                writer,
            }) => {
                let version = match (namespaces, writer) {
                    (None, _) => 1,
                    (Some(_), None) => 2,
                    (Some(_), Some(_)) => VERSION,
                };
                write!(f, "journal {version} {boot}")?;
                if let Some(Namespaces { pid, boot_offset }) = namespaces {
                    write!(f, " {}:{} {boot_offset}", pid.device, pid.inode)?;
                    if let Some(Writer { process, start }) = writer {
                        write!(f, " {process} {start}")?;
                    }
                }
                Ok(())
            }
            Self::OtherVersion(version) => write!(f, "journal {version}"),
            Self::Change(Change::Mask(change)) => {
                let replaced = change.replaced.map_or_else(|| "-".to_owned(), |pu| pu.to_string());
                write!(f, "mask {} ", change.thread)?;
                match &change.original {
                    Requested::Unset => f.write_str(UNSET)?,
                    Requested::Cpus(cpus) => write!(f, "{}", cpus.to_set())?,
                }
                write!(f, " {replaced} {} {} ", change.pinned, change.since)?;
                match change.groups {
                    Some(groups) => write!(f, "{groups:08x}")?,
                    None => f.write_char('-')?,
                }
                match &change.meanwhile {
                    Some(mask) => write!(f, " {}", mask.to_set()),
                    None => Ok(()),
                }
            }
            Self::Change(Change::Register(change)) => {
                let RegisterChange {
                    pu,
                    register,
                    bits,
                    original,
                    replaced,
                    written,
                } = change;
                write!(f, "register {register:#x} {pu} {bits:#x} {original:#x} ")?;
                match replaced {
                    Some(replaced) => write!(f, "{replaced:#x}")?,
                    None => f.write_char('-')?,
                }
                write!(f, " {written:#x}")
            }
            Self::Change(Change::Probes(ProbeGroup { process, began })) => write!(f, "probes {process} {began:#x}"),
            Self::RolledBack(Target::Probes(ProbeGroup { process, began })) => {
                write!(f, "undone probes {process} {began:#x}")
            }
            Self::RolledBack(Target::Mask(thread)) => write!(f, "undone mask {thread}"),
            Self::RolledBack(Target::Register(register, pu)) => write!(f, "undone register {register:#x} {pu}"),
            Self::Kept => f.write_str("kept"),
        }
    }
}

/// Process, thread and start time.
impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.process, self.thread, self.start)
    }
}

fn thread(words: &mut SplitAsciiWhitespace<'_>) -> Option<Thread> {
    let mut number = || digits::decimal(words.next()?).filter(|&number: &i32| number > 0);
    Some(Thread {
        process: number()?,
        thread: number()?,
        start: digits::decimal(words.next()?)?,
    })
}

fn probes(words: &mut SplitAsciiWhitespace<'_>) -> Option<ProbeGroup> {
    Some(ProbeGroup {
        process: digits::decimal(words.next()?)?,
        began: digits::hexadecimal(words.next()?.strip_prefix("0x")?)?,
    })
}

fn writer(words: &mut SplitAsciiWhitespace<'_>) -> Option<Writer> {
    Some(Writer {
        process: digits::decimal(words.next()?).filter(|&process| process > 0)?,
        start: digits::decimal(words.next()?)?,
    })
}

fn pid_namespace(word: &str) -> Option<PidNamespace> {
    let (device, inode) = word.split_once(':')?;
    Some(PidNamespace {
        device: digits::decimal(device)?,
        inode: digits::decimal(inode)?,
    })
}

fn signed(word: &str) -> Option<i64> {
    match word.strip_prefix('-') {
        Some(magnitude) => digits::decimal(magnitude).map(|number: i64| -number),
        None => digits::decimal(word),
    }
}

fn original(word: &str) -> Option<Requested> {
    if word == UNSET {
        return Some(Requested::Unset);
    }
    mask(word).map(Requested::Cpus)
}

/// A mask names at least one PU.
fn mask(word: &str) -> Option<CpuMask> {
    let set: PuSet = word.parse().ok()?;
    (!set.is_empty()).then(|| CpuMask::from(&set))
}

fn pu(word: &str) -> Option<PuId> {
    digits::decimal(word).map(PuId)
}

fn eight_digits(word: &str) -> Option<u32> {
    (word.len() == 8).then(|| digits::hexadecimal(word)).flatten()
}

fn hexadecimal(word: &str) -> Option<u64> {
    digits::hexadecimal(word.strip_prefix("0x")?)
}

/// Reads a word. `-` stands for none.
#[expect(
    clippy::option_option,
    reason = "the outer one is `None` for damage, as everywhere here"
)]
fn optional<T>(word: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<Option<T>> {
    if word == "-" { Some(None) } else { parse(word).map(Some) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn threads() -> impl Strategy<Value = Thread> {
        (1i32..9, 1i32..9, 0u64..9).prop_map(|(process, thread, start)| Thread { process, thread, start })
    }

    fn pus() -> impl Strategy<Value = PuId> {
        (0u32..700).prop_map(PuId)
    }

    pub(crate) fn changes() -> impl Strategy<Value = Change> {
        let masks = || proptest::collection::btree_set(pus(), 1..9).prop_map(|pus| pus.into_iter().collect());
        let mask = (
            threads(),
            prop_oneof![Just(Requested::Unset), masks().prop_map(Requested::Cpus)],
            proptest::option::of(pus()),
            pus(),
            any::<u64>(),
            proptest::option::of(any::<u32>()),
            proptest::option::of(masks()),
        )
            .prop_map(|(thread, original, replaced, pinned, since, groups, meanwhile)| {
                Change::Mask(MaskChange {
                    thread,
                    original,
                    replaced,
                    pinned,
                    since,
                    groups,
                    meanwhile,
                })
            });
        let words = (
            any::<u64>(),
            any::<u64>(),
            proptest::option::of(any::<u64>()),
            any::<u64>(),
        );
        let register =
            (any::<u32>(), 0u32..9, words).prop_map(|(register, pu, (bits, original, replaced, written))| {
                Change::Register(RegisterChange {
                    pu: PuId(pu),
                    register,
                    bits,
                    original,
                    replaced,
                    written,
                })
            });
        let probes = (any::<u32>(), any::<u128>());
        let probes = probes.prop_map(|(process, began)| Change::Probes(ProbeGroup { process, began }));
        prop_oneof![mask, register, probes]
    }

    fn origins() -> impl Strategy<Value = JournalOrigin> {
        let namespaces =
            (any::<u64>(), any::<u64>(), -i64::MAX..i64::MAX).prop_map(|(device, inode, boot_offset)| Namespaces {
                pid: PidNamespace { device, inode },
                boot_offset,
            });
        let writer = (1i32..9, any::<u64>()).prop_map(|(process, start)| Writer { process, start });
        let about = (namespaces, proptest::option::of(writer));
        ("[0-9a-f-]{1,36}", proptest::option::of(about)).prop_map(|(boot, about)| JournalOrigin {
            boot,
            namespaces: about.map(|(namespaces, _)| namespaces),
            writer: about.and_then(|(_, writer)| writer),
        })
    }

    fn records() -> impl Strategy<Value = Record> {
        prop_oneof![
            origins().prop_map(Record::Header),
            (4u32..99).prop_map(Record::OtherVersion),
            changes().prop_map(Record::Change),
            changes().prop_map(|change| Record::RolledBack(change.target())),
            Just(Record::Kept),
        ]
    }

    #[test]
    fn a_sign_in_place_of_a_digit_is_damage() {
        let begins_with_zero = |boot: u32| {
            let boot = boot.to_string();
            let origin = JournalOrigin {
                boot,
                namespaces: None,
                writer: None,
            };
            let line = Record::Header(origin).to_line();
            line.starts_with('0').then_some(line)
        };
        let line = (0..).find_map(begins_with_zero).unwrap();
        let line = line.trim_end();
        assert!(Record::from_line(line).is_some());
        assert_eq!(Record::from_line(&line.replacen('0', "+", 1)), None);

        for body in [
            "journal +1 boot",
            "mask +7 7 40 0-3 - 1",
            "mask 7 7 +40 0-3 - 1",
            "mask 7 7 40 0-+3 - 1",
            "mask 7 7 40 0-3 - +1",
            "undone register 0x+1a4 0",
        ] {
            let line = |body: &str| format!("{:08x} {body}", crc32fast::hash(body.as_bytes()));
            assert!(Record::from_line(&line(&body.replace('+', ""))).is_some(), "{body}");
            assert_eq!(Record::from_line(&line(body)), None, "{body}");
        }
    }

    proptest! {
        #[test]
        fn a_record_is_read_back_as_it_was_written(record in records()) {
            let line = record.to_line();
            prop_assert_eq!(Record::from_line(line.strip_suffix('\n').unwrap()), Some(record));
        }

        #[test]
        fn a_record_with_a_changed_character_is_damaged(record in records(), at: usize, other in "[ -~]") {
            let line = record.to_line();
            let mut line: Vec<char> = line.strip_suffix('\n').unwrap().chars().collect();
            let at = at % line.len();
            let other = other.chars().next().unwrap();
            prop_assume!(line[at] != other);
            // Hexadecimal digits of the checksum have the same value in either case.
            prop_assume!(at >= 8 || !line[at].eq_ignore_ascii_case(&other));
            line[at] = other;
            prop_assert_eq!(Record::from_line(&line.into_iter().collect::<String>()), None);
        }

        #[test]
        fn a_checksummed_line_of_anything_is_read_without_a_panic(body in "(mask|register|undone|journal)?[ -~]{0,60}") {
            let _ = Record::from_line(&format!("{:08x} {body}", crc32fast::hash(body.as_bytes())));
            let _ = Record::from_line(&body);
        }
    }
    #[test]
    fn a_mask_of_the_first_version_has_no_time_and_no_groups() {
        let body = "mask 10 11 7 0-1 - 0";
        let record = Record::from_line(&format!("{:08x} {body}", crc32fast::hash(body.as_bytes())));
        let Some(Record::Change(Change::Mask(change))) = record else {
            panic!("{record:?}")
        };
        assert_eq!((change.since, change.groups), (0, None));
    }

    #[test]
    fn a_mask_of_the_second_version_counts_as_set() {
        let body = "mask 10 11 7 0-1 - 0 5 0000abcd";
        let record = Record::from_line(&format!("{:08x} {body}", crc32fast::hash(body.as_bytes())));
        let Some(Record::Change(Change::Mask(change))) = record else {
            panic!("{record:?}")
        };
        let cpus = [PuId(0), PuId(1)].into_iter().collect();
        assert_eq!((change.original, change.meanwhile), (Requested::Cpus(cpus), None));
    }
}
