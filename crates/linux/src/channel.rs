//! The channel between a program and pinfold. The program's processes count in a segment of shared memory, and pinfold
//! reads it. Neither side waits for the other.
//!
//! The other side is `agent/pinfold.h`. Its structures are mirrored here, and a test compares the two.
//!
//! The segment has no name in any file system. Processes open it through pinfold's `/proc/PID/fd/N`. So nothing remains
//! after pinfold, however it ends, and the program has no file descriptor of pinfold's. Consequences:
//!
//! - A process that starts after pinfold has ended finds no channel and is not counted; running processes continue.
//! - The program must see pinfold under its process number. It has no access from a new PID namespace, or if `/proc`
//!   hides other processes.
//! - The kernel permits access to `/proc/PID/fd` only to a process that may trace pinfold. A program that changes its
//!   user loses access. No program has access to a pinfold with file capabilities (`setcap`).
//!
//! A process without access runs as without pinfold. A total is `None` if no process has ever attached.

use crate::mpi::is_rank;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::sys::uio::pwrite;
use pinfold_core::sources::Attached;
use pinfold_core::{Metric, MetricSource, Scope, sources};
use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::mem::{offset_of, size_of};
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// `PINFOLD_CHANNEL_MAGIC`: "PNFDCHNL" in the memory of a little-endian machine.
const MAGIC: u64 = 0x4c4e_4843_4446_4e50;
/// `PINFOLD_CHANNEL_VERSION`.
const VERSION: u32 = 1;
/// `PINFOLD_CHANNEL_SLOTS`.
const SLOTS: usize = 1024;

/// The counters of a slot. `ChannelCounter::word` has the position of each.
const WORDS: usize = 8;
/// The position of `socket_bytes`, which belong to no source: the kernel counts other bytes.
const SOCKET_BYTES: usize = 4;
/// `PINFOLD_FIRST_SOURCES` and `PINFOLD_SOURCES`. `Attached` has the number of each source.
const FIRST_SOURCES: usize = 3;
const ALL_SOURCES: usize = 4;
/// The unused words behind them.
const UNUSED: usize = 7;

/// `struct pinfold_slot`: the counts of one thread.
#[repr(C)]
struct CounterSlot {
    counts: [AtomicU64; WORDS],
}

/// `struct pinfold_channel`: the whole segment. All of it is atomic, because a program that has mapped it can write to
/// any part of it.
#[repr(C)]
struct ChannelSegment {
    magic: AtomicU64,
    version: AtomicU32,
    slots_taken: AtomicU32,
    attached: [AtomicU32; FIRST_SOURCES],
    unset_pus: AtomicU32,
    attached_later: [AtomicU32; ALL_SOURCES - FIRST_SOURCES],
    _unused: [AtomicU32; UNUSED],
    slots: [CounterSlot; SLOTS],
}

impl ChannelSegment {
    /// Whether a library has ever attached itself.
    fn is_attached(&self, library: Attached) -> bool {
        let number = library as usize;
        let mut words = self.attached.iter().chain(&self.attached_later);
        words.nth(number).is_some_and(|word| word.load(Ordering::Relaxed) != 0)
    }
}

/// The variable with the libraries that the dynamic linker loads.
pub(crate) const PRELOAD: &str = "LD_PRELOAD";

/// The variable with the user's own entry of `PRELOAD`, which the agent puts back: see agent/environment.c.
pub(crate) const PRELOADED: &str = "PINFOLD_PRELOADED";

/// A segment of shared memory that a program's processes can map.
#[derive(Debug)]
pub struct Channel {
    file: OwnedFd,
    segment: NonNull<ChannelSegment>,
}

// SAFETY: the mapping is read-only and not tied to a thread. After creation, all reads from it are atomic.
unsafe impl Send for Channel {}
// SAFETY: as above.
unsafe impl Sync for Channel {}

/// Totals since the channel was created, over all processes that use it. A total is `None` if no library that counts it
/// has ever attached. That differs from a count of zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals([Option<u64>; WORDS]);

impl Totals {
    /// The total of a source. `None` also for a source that is not in the channel.
    pub fn get(&self, source: &MetricSource) -> Option<u64> {
        self.0[source.counter?.word]
    }

    /// The totals in the order of `Channel::metrics`.
    pub fn counts(&self) -> impl Iterator<Item = Option<u64>> {
        sources::reported().map(|(_, counter)| self.0[counter.word])
    }
}

/// The shared memory cannot be created.
#[derive(Debug, thiserror::Error)]
#[error("cannot create the shared memory that programs report progress in: {step}: {error}")]
pub struct ChannelError {
    step: &'static str,
    error: std::io::Error,
}

/// The agent that the user names cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// The named file does not exist.
    #[error("the agent {} does not exist; correct PINFOLD_AGENT, or unset it to use pinfold's own", .0.display())]
    NotThere(PathBuf),
    /// `LD_PRELOAD` separates its entries by these characters and has no escape.
    #[error("the agent {} cannot be preloaded: its path contains a space or a colon; move or copy it", .0.display())]
    Unspeakable(PathBuf),
}

impl Channel {
    /// Creates the segment with all totals zero and no process attached.
    pub fn create() -> Result<Self, ChannelError> {
        let failed = |step| {
            move |errno: nix::Error| ChannelError {
                step,
                error: errno.into(),
            }
        };
        let file = create_memory(c"pinfold-channel").map_err(failed("memfd_create"))?;
        let file = File::from(file);
        let initialised = file.set_len(size_of::<ChannelSegment>() as u64).and_then(|()| {
            file.write_all_at(&VERSION.to_ne_bytes(), offset_of!(ChannelSegment, version) as u64)?;
            file.write_all_at(&MAGIC.to_ne_bytes(), offset_of!(ChannelSegment, magic) as u64)
        });
        initialised.map_err(|error| ChannelError {
            step: "initialisation",
            error,
        })?;
        // Without the seals, a program could truncate the file, and the next read would end pinfold with SIGBUS.
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).map_err(failed("F_ADD_SEALS"))?;
        let length = NonZeroUsize::new(size_of::<ChannelSegment>()).expect("the segment has a header");
        // SAFETY: a new mapping at an address that the kernel chooses, as long as the file, which cannot shrink.
        let address = unsafe { mmap(None, length, ProtFlags::PROT_READ, MapFlags::MAP_SHARED, &file, 0) };
        let address = address.map_err(failed("mmap"))?;
        Ok(Self {
            file: file.into(),
            segment: address.cast(),
        })
    }

    /// Records that the program's mask is unset, on a machine with this number of PUs. So the agent resets threads to
    /// all CPUs, and not to the CPUs allowed at that time.
    pub(crate) fn mask_is_unset(&self, pus: usize) {
        let pus = u32::try_from(pus).unwrap_or(0).to_ne_bytes();
        let offset = i64::try_from(offset_of!(ChannelSegment, unset_pus)).unwrap_or(i64::MAX);
        // If the write fails, the agent restores the CPUs of the program's start.
        let _ = pwrite(&self.file, &pus, offset);
    }

    /// The current totals: the sum over the slots in use. Each slot is one cache line, so a program with eight threads
    /// costs nine cache lines. The counters are not read at one instant: one total may include an event that another
    /// total still lacks.
    pub fn totals(&self) -> Totals {
        let segment = self.segment();
        let mut totals = Totals::default();
        for (_, counter) in sources::reported() {
            if counter.attached.iter().any(|&library| segment.is_attached(library)) {
                totals.0[counter.word] = Some(self.sum(counter.word));
            }
        }
        totals
    }

    /// The bytes that the program's sockets have received and sent by calls that the kernel does not count.
    pub fn socket_bytes(&self) -> u64 {
        self.sum(SOCKET_BYTES)
    }

    fn segment(&self) -> &ChannelSegment {
        // SAFETY: the mapping lives as long as `self`, and other processes change only fields that are atomic here.
        unsafe { self.segment.as_ref() }
    }

    /// The sum of a counter over the slots in use.
    fn sum(&self, word: usize) -> u64 {
        let segment = self.segment();
        let taken = segment.slots_taken.load(Ordering::Relaxed) as usize;
        let counts = segment.slots[..taken.min(SLOTS)].iter();
        let counts = counts.map(|slot| slot.counts[word].load(Ordering::Relaxed));
        counts.fold(0, u64::wrapping_add)
    }

    /// The metrics in the channel. `auto` prefers them in this order.
    pub fn metrics() -> Vec<Metric> {
        sources::reported()
            .map(|(source, _)| source.metric(Scope::Program))
            .collect()
    }

    /// The environment variables, with their values, that the program needs in addition to the inherited ones.
    /// `inherited` returns an inherited value. A value of the user stays, and comes before pinfold's. Without `agent`
    /// only heartbeats can arrive. `mpi` is the interposer for a program that an MPI launcher starts. A followed program
    /// needs only the result of `variables`.
    pub fn environment(
        &self,
        inherited: impl Fn(&str) -> Option<OsString>,
        agent: Option<&Path>,
        mpi: Option<&Path>,
    ) -> Vec<(OsString, OsString)> {
        let mut variables = self.variables(&inherited, agent);
        let Some(agent) = agent else { return variables };
        let inherited = |name: &str| inherited(name).filter(|value| !value.is_empty());
        let users = inherited(PRELOAD);
        variables.push((PRELOADED.into(), users_entry(users.as_deref())));
        let preloaded = appended(users, agent.as_os_str());
        let rank = is_rank(|name| inherited(name).is_some());
        let preloaded = match mpi.filter(|_| rank) {
            Some(mpi) => appended(Some(preloaded), mpi.as_os_str()),
            None => preloaded,
        };
        variables.push((PRELOAD.into(), preloaded));
        // A program that GCC built with AddressSanitizer refuses to start if a library precedes the sanitizer's,
        // because that library might replace a function that the sanitizer intercepts. The agent replaces none of
        // these.
        let sanitizer = appended(inherited("ASAN_OPTIONS"), OsStr::new("verify_asan_link_order=0"));
        variables.push(("ASAN_OPTIONS".into(), sanitizer));
        variables
    }

    /// The part of `environment` for a followed program, which gets the agent at its exec (`launch::Preload`).
    pub fn variables(
        &self,
        inherited: impl Fn(&str) -> Option<OsString>,
        agent: Option<&Path>,
    ) -> Vec<(OsString, OsString)> {
        let path = format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd());
        let mut variables = vec![("PINFOLD_CHANNEL".into(), path.into())];
        // An OpenMP runtime finds a preloaded tool without a variable. The agent must be in the list of tools only if
        // there is a list: then it lets the other tools go first (agent/ompt.c).
        let tools = inherited("OMP_TOOL_LIBRARIES").filter(|tools| !tools.is_empty());
        if let (Some(agent), Some(tools)) = (agent, tools) {
            variables.push(("OMP_TOOL_LIBRARIES".into(), appended(Some(tools), agent.as_os_str())));
        }
        variables
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value, and no reference into it outlives `self`.
        let unmapped = unsafe { munmap(self.segment.cast(), size_of::<ChannelSegment>()) };
        unmapped.expect("a mapping that was made can be unmapped");
    }
}

/// An anonymous file that can be sealed, is never executed and is not inherited across exec.
pub(crate) fn create_memory(name: &CStr) -> nix::Result<OwnedFd> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    // Linux 6.3 expects a flag that says whether the file may be executed, and can be configured to refuse files
    // without it. Older kernels do not know the flag.
    match memfd_create(name, flags | MFdFlags::from_bits_retain(libc::MFD_NOEXEC_SEAL)) {
        Err(nix::Error::EINVAL) => memfd_create(name, flags),
        result => result,
    }
}

/// The value of `PRELOADED` for a user's value of `PRELOAD`.
pub(crate) fn users_entry(users: Option<&OsStr>) -> OsString {
    users.map_or_else(OsString::new, |users| {
        let mut entry = OsString::from(PRELOAD);
        entry.push("=");
        entry.push(users);
        entry
    })
}

/// Appends `entry` to a colon-separated list, unless it is already the last entry.
pub(crate) fn appended(list: Option<OsString>, entry: &OsStr) -> OsString {
    use std::os::unix::ffi::OsStrExt;
    match list {
        None => entry.to_owned(),
        Some(list) if list.as_bytes().rsplit(|&byte| byte == b':').next() == Some(entry.as_bytes()) => list,
        Some(mut list) => {
            list.push(":");
            list.push(entry);
            list
        }
    }
}

/// The agent that the user names (the value of `PINFOLD_AGENT`). The path becomes absolute, so that it is valid for a
/// program in another directory.
pub fn named_agent(path: &OsStr) -> Result<PathBuf, AgentError> {
    let path = PathBuf::from(path);
    let found = path.canonicalize().map_err(|_| AgentError::NotThere(path))?;
    if can_be_preloaded(&found) {
        Ok(found)
    } else {
        Err(AgentError::Unspeakable(found))
    }
}

/// Whether `LD_PRELOAD` can name the path.
pub(crate) fn can_be_preloaded(path: &Path) -> bool {
    !path
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .any(|byte| matches!(byte, b' ' | b':'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    fn environment_of(user: &[(&str, &str)], agent: Option<&str>) -> Vec<(String, String)> {
        let inherited = |name: &str| {
            let mut set = user.iter();
            set.find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
        };
        let variables =
            Channel::create()
                .unwrap()
                .environment(inherited, agent.map(Path::new), Some(Path::new("/m.so")));
        let text = |value: OsString| value.into_string().unwrap();
        let variables = variables.into_iter().map(|(name, value)| (text(name), text(value)));
        variables.filter(|(name, _)| name != "PINFOLD_CHANNEL").collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    /// The values of expressions in the C header.
    fn values_in_c(numbers: &[String]) -> Vec<u64> {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("layout.c");
        let program = folder.path().join("layout");
        let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../agent/pinfold.h");
        let print = |number: &String| format!("printf(\"%llu\\n\", (unsigned long long)({number}));");
        let printed: Vec<String> = numbers.iter().map(print).collect();
        let include = format!(
            "#include \"{}\"\n#include <stddef.h>\n#include <stdio.h>\n",
            header.display()
        );
        fs::write(
            &source,
            format!("{include}int main(void) {{ {} }}\n", printed.join("\n")),
        )
        .unwrap();
        let compiled = Command::new("cc")
            .arg(&source)
            .arg("-o")
            .arg(&program)
            .output()
            .unwrap();
        assert!(
            compiled.status.success(),
            "{}",
            String::from_utf8_lossy(&compiled.stderr)
        );
        let output = Command::new(&program).output().unwrap().stdout;
        String::from_utf8(output)
            .unwrap()
            .lines()
            .map(|line| line.parse().unwrap())
            .collect()
    }

    #[test]
    fn the_structures_are_those_of_the_c_header() {
        let fields = [
            "struct pinfold_channel, magic",
            "struct pinfold_channel, version",
            "struct pinfold_channel, slots_taken",
            "struct pinfold_channel, attached[PINFOLD_SOURCE_HEARTBEAT]",
            "struct pinfold_channel, attached[PINFOLD_SOURCE_GOMP]",
            "struct pinfold_channel, attached[PINFOLD_SOURCE_OMPT]",
            "struct pinfold_channel, unset_pus",
            "struct pinfold_channel, attached_later[PINFOLD_SOURCE_MPI - PINFOLD_FIRST_SOURCES]",
            "struct pinfold_channel, slots",
        ];
        let counters = sources::reported().map(|(_, counter)| counter.field);
        let counters = counters.chain(["socket_bytes"]);
        let counters = counters.map(|field| format!("struct pinfold_slot, {field}"));
        let fields: Vec<String> = fields.map(str::to_owned).into_iter().chain(counters).collect();
        let numbers = [
            "PINFOLD_CHANNEL_MAGIC",
            "PINFOLD_CHANNEL_VERSION",
            "PINFOLD_CHANNEL_SLOTS",
            "sizeof(struct pinfold_channel)",
            "sizeof(struct pinfold_slot)",
        ];
        let offsets = fields.iter().map(|field| format!("offsetof({field})"));
        let numbers: Vec<String> = numbers.map(str::to_owned).into_iter().chain(offsets).collect();
        let theirs = values_in_c(&numbers);
        let sizes = [SLOTS, size_of::<ChannelSegment>(), size_of::<CounterSlot>()];
        let offsets = [
            offset_of!(ChannelSegment, magic),
            offset_of!(ChannelSegment, version),
            offset_of!(ChannelSegment, slots_taken),
            offset_of!(ChannelSegment, attached) + 4 * Attached::Heartbeat as usize,
            offset_of!(ChannelSegment, attached) + 4 * Attached::Gomp as usize,
            offset_of!(ChannelSegment, attached) + 4 * Attached::Ompt as usize,
            offset_of!(ChannelSegment, unset_pus),
            offset_of!(ChannelSegment, attached_later) + 4 * (Attached::Mpi as usize - FIRST_SOURCES),
            offset_of!(ChannelSegment, slots),
        ];
        let words = sources::reported().map(|(_, counter)| counter.word);
        let counters = words
            .chain([SOCKET_BYTES])
            .map(|word| offset_of!(CounterSlot, counts) + 8 * word);
        let ours = sizes
            .into_iter()
            .chain(offsets)
            .chain(counters)
            .map(|number| number as u64);
        assert_eq!(
            theirs,
            [MAGIC, VERSION.into()].into_iter().chain(ours).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_new_channel_has_no_process_attached() {
        assert_eq!(Channel::create().unwrap().totals(), Totals::default());
    }

    #[test]
    fn the_memory_can_be_opened_by_its_name_and_cannot_be_cut_short() {
        let channel = Channel::create().unwrap();
        let (name, path) = channel.environment(|_| None, None, None).remove(0);
        assert_eq!(name, "PINFOLD_CHANNEL");
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        let refused = file.set_len(8).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
    }

    #[test]
    fn the_memory_is_not_inherited_across_exec() {
        let channel = Channel::create().unwrap();
        let flags = fcntl(&channel.file, FcntlArg::F_GETFD).unwrap();
        assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
    }

    #[test]
    fn without_an_agent_only_the_channel_is_named() {
        assert_eq!(environment_of(&[("LD_PRELOAD", "/user.so")], None), []);
    }

    #[test]
    fn the_agent_is_preloaded() {
        let expected = [
            ("PINFOLD_PRELOADED", ""),
            ("LD_PRELOAD", "/a.so"),
            ("ASAN_OPTIONS", "verify_asan_link_order=0"),
        ];
        assert_eq!(environment_of(&[], Some("/a.so")), pairs(&expected));
        assert_eq!(environment_of(&[("LD_PRELOAD", "")], Some("/a.so")), pairs(&expected));
    }

    #[test]
    fn a_program_of_an_mpi_launcher_gets_the_interposer_after_the_agent() {
        let expected = [
            ("PINFOLD_PRELOADED", ""),
            ("LD_PRELOAD", "/a.so:/m.so"),
            ("ASAN_OPTIONS", "verify_asan_link_order=0"),
        ];
        assert_eq!(environment_of(&[("PMI_RANK", "0")], Some("/a.so")), pairs(&expected));
    }

    #[test]
    fn variables_of_the_user_stay_and_precede_ours() {
        let user = [
            ("LD_PRELOAD", "/one.so /two.so"),
            ("OMP_TOOL_LIBRARIES", "/tool.so"),
            ("ASAN_OPTIONS", "detect_leaks=0"),
        ];
        let expected = [
            ("OMP_TOOL_LIBRARIES", "/tool.so:/a.so"),
            ("PINFOLD_PRELOADED", "LD_PRELOAD=/one.so /two.so"),
            ("LD_PRELOAD", "/one.so /two.so:/a.so"),
            ("ASAN_OPTIONS", "detect_leaks=0:verify_asan_link_order=0"),
        ];
        assert_eq!(environment_of(&user, Some("/a.so")), pairs(&expected));
    }

    #[test]
    fn a_nested_pinfold_adds_nothing_twice() {
        let outer = [
            ("LD_PRELOAD", "/u.so:/a.so"),
            ("ASAN_OPTIONS", "verify_asan_link_order=0"),
        ];
        let users = [("PINFOLD_PRELOADED", "LD_PRELOAD=/u.so:/a.so")];
        let expected = [&users[..], &outer[..]].concat();
        assert_eq!(environment_of(&outer, Some("/a.so")), pairs(&expected));
    }

    #[test]
    fn a_named_agent_must_exist_with_a_name_for_ld_preload() {
        let folder = tempfile::tempdir().unwrap();
        let named = |name: &str| {
            let path = folder.path().join(name);
            (named_agent(path.as_os_str()), path)
        };
        let (missing, path) = named("agent.so");
        assert_eq!(missing, Err(AgentError::NotThere(path.clone())));
        fs::write(&path, "").unwrap();
        assert_eq!(named("agent.so").0, Ok(path.canonicalize().unwrap()));
        for name in ["with space", "with:colon"] {
            fs::write(folder.path().join(name), "").unwrap();
            assert!(matches!(named(name).0, Err(AgentError::Unspeakable(_))), "{name}");
        }
    }
}
