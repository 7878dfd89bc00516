//! Recognises from an executable file whether its program traces. The agent knows better, but static programs lack it,
//! and so do programs that ran before pinfold attached to them.
//!
//! 1. A leak sanitizer traces its own process at the end. It is in the executable or in a library that the executable
//!    needs.
//! 2. A dynamic program that traces others imports `ptrace`.
//! 3. A static program has the system call's number in front of the system call. Its symbols may have been removed.
//!
//! Limits: a Go program makes all system calls through a common function, which shows no number. Libraries that a
//! program loads later are not examined.

use super::polling::Cause;
use crate::procfs::Procfs;
use object::read::elf::{ElfFile, FileHeader, SectionHeader, Sym, SymbolTable};
use object::{Object, ObjectSection, ReadCache, ReadRef, SectionKind, StringTable};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::MetadataExt;

/// Functions of leak sanitizers. A program with a leak sanitizer has at least one of them.
const SANITIZERS: [&str; 4] = ["__asan_init", "__lsan_init", "__hwasan_init", "__lsan_do_leak_check"];

/// The longest code between loading the number of a system call and the call, in bytes.
const NEAR: usize = 24;

/// The properties that an executable shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shown {
    has_sanitizer: bool,
    has_ptrace: bool,
    is_dynamic: bool,
}

/// The key of a file: device, inode, size, and the time of its last modification.
type Key = (u64, u64, u64, i64, i64);

/// The executables that were examined.
#[derive(Debug, Default)]
pub(super) struct Executables(HashMap<Key, Shown>);

impl Executables {
    /// Whether and why the program of `process` traces without asking pinfold to step aside. A program with the agent
    /// asks.
    pub(super) fn tracing(&mut self, procfs: &Procfs, process: i32, has_agent: bool) -> Option<Cause> {
        let file = File::open(procfs.file(&process.to_string(), "exe")).ok()?;
        let there = file.metadata().ok()?;
        let key = (there.dev(), there.ino(), there.len(), there.mtime(), there.mtime_nsec());
        let shown = *self.0.entry(key).or_insert_with(|| look_at(file).unwrap_or_default());
        if has_agent || !shown.has_sanitizer && !shown.has_ptrace {
            return None;
        }
        if shown.has_sanitizer {
            return detects_leaks(procfs, process).then_some(Cause::TracesItself);
        }
        Some(Cause::Traces)
    }

    /// Like `tracing`, for a process without an agent that has run for a while, so that its libraries are loaded.
    pub(super) fn tracing_of_running(&mut self, procfs: &Procfs, process: i32) -> Option<Cause> {
        let has_sanitizer = procfs.has_mapped(process, &["/libasan.so", "/liblsan.so", "/libclang_rt."]);
        if has_sanitizer && detects_leaks(procfs, process) {
            return Some(Cause::TracesItself);
        }
        self.tracing(procfs, process, false)
    }
}

/// Whether the sanitizer of a process searches for leaks.
fn detects_leaks(procfs: &Procfs, process: i32) -> bool {
    !is_turned_off(&["ASAN_OPTIONS", "LSAN_OPTIONS"].map(|name| procfs.variable(process, name)))
}

fn look_at(file: File) -> Option<Shown> {
    let content = ReadCache::new(file);
    match object::File::parse(&content).ok()? {
        object::File::Elf32(file) => look_at_elf(&file),
        object::File::Elf64(file) => look_at_elf(&file),
        _ => None,
    }
}

fn look_at_elf<'data, Elf: FileHeader, Data: ReadRef<'data>>(file: &ElfFile<'data, Elf, Data>) -> Option<Shown> {
    let is_dynamic = file.section_by_name(".interp").is_some();
    let mut shown = Shown {
        is_dynamic,
        ..Shown::default()
    };
    // A static executable has no symbols for the dynamic linker.
    let tables = [
        Some(file.elf_dynamic_symbol_table()),
        (!is_dynamic).then(|| file.elf_symbol_table()),
    ];
    for table in tables.into_iter().flatten() {
        look_at_symbols(file, table, &mut shown)?;
    }
    if !is_dynamic && !shown.has_ptrace {
        let mut code = file.sections().filter(|section| section.kind() == SectionKind::Text);
        shown.has_ptrace = code.any(|section| section.data().is_ok_and(calls_ptrace));
    }
    Some(shown)
}

/// Looks at the names of symbols. The table of names is read at once: a compiler has ten thousand of them, and each
/// would be two system calls.
fn look_at_symbols<'data, Elf: FileHeader, Data: ReadRef<'data>>(
    file: &ElfFile<'data, Elf, Data>,
    table: &SymbolTable<'data, Elf, Data>,
    shown: &mut Shown,
) -> Option<()> {
    if table.is_empty() {
        return Some(());
    }
    let endian = file.endian();
    let names = file.elf_section_table().section(table.string_section()).ok()?;
    let names = names.data(endian, file.data()).ok()?;
    let names = StringTable::new(names, 0, names.len() as u64);
    for symbol in table.iter() {
        let Ok(name) = symbol.name(endian, names) else { continue };
        shown.has_sanitizer |= SANITIZERS.iter().any(|known| known.as_bytes() == name);
        shown.has_ptrace |= name == b"ptrace" && symbol.is_undefined(endian) == shown.is_dynamic;
    }
    Some(())
}

/// Whether code loads the number of `ptrace` shortly before a system call.
fn calls_ptrace(code: &[u8]) -> bool {
    let (number, call): (&[u8], &[u8]) = if cfg!(target_arch = "aarch64") {
        // mov x8, #117; svc #0
        (&[0xa8, 0x0e, 0x80, 0xd2], &[0x01, 0x00, 0x00, 0xd4])
    } else {
        // mov eax, 101; syscall
        (&[0xb8, 101, 0, 0, 0], &[0x0f, 0x05])
    };
    let mut places = code.windows(number.len() + NEAR);
    places.any(|place| place.starts_with(number) && place.windows(call.len()).any(|bytes| bytes == call))
}

/// Whether the user has disabled leak detection.
fn is_turned_off(options: &[Option<OsString>]) -> bool {
    let has = |wanted: [&str; 2]| {
        let texts = options.iter().flatten().map(|text| text.to_string_lossy());
        texts
            .into_iter()
            .any(|text| wanted.iter().any(|wanted| text.contains(wanted)))
    };
    has(["detect_leaks=0", "detect_leaks=false"]) && !has(["detect_leaks=1", "detect_leaks=true"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leak_detection_is_off_if_an_option_disables_it_and_none_enables_it() {
        let off = |options: &[&str]| is_turned_off(&options.iter().map(|text| Some(text.into())).collect::<Vec<_>>());
        assert!(off(&["verbosity=1:detect_leaks=0"]) && off(&["", "detect_leaks=false"]));
        assert!(!off(&[]) && !off(&["verbosity=1"]) && !off(&["detect_leaks=0", "detect_leaks=1"]));
    }
}
