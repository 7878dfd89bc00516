//! The functions that contain given places of an ELF file: where they start, and their names.
//!
//! 1. Starts and names come from `.symtab`, or from that of the debug file if the binary is stripped: under
//!    `/usr/lib/debug/.build-id` by the build id, or beside the binary by `.gnu_debuglink`.
//! 2. `.dynsym` adds the functions that a library exports.
//! 3. `.eh_frame_hdr` adds the starts of all functions with unwinding information, without names. Compilers for x86-64
//!    and aarch64 write it for every function, and `strip` leaves it.
//! 4. A place belongs to the last start before it. It has no name if this start has none.
//!
//! Limits: code without symbols and without unwinding information is not found. `.gnu_debugdata` is not read.

use crate::symbols::shortest_name;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where debug files of distributions are.
const DEBUG: &str = "/usr/lib/debug";

/// The longest file that is read. Reading a longer one would take the program's memory bandwidth for a second.
const LONGEST: u64 = 1 << 29;

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Function {
    /// The offset of its first instruction in the file.
    pub(super) start: u64,
    /// Its name, or its address in the file.
    pub(super) name: String,
}

/// The content of a file; `None` if it cannot be read or is too long.
pub(super) fn content(file: &mut File) -> Option<Vec<u8>> {
    if file.metadata().ok()?.len() > LONGEST {
        return None;
    }
    let mut content = vec![];
    file.read_to_end(&mut content).ok()?;
    Some(content)
}

/// The functions that contain these offsets of an ELF file. `path` is its path, for the debug file beside it. An offset
/// in no function is left out.
pub(super) fn functions_at(content: &[u8], path: &Path, offsets: &BTreeSet<u64>) -> BTreeMap<u64, Function> {
    functions_with_debug_files(content, path, offsets, Path::new(DEBUG))
}

fn functions_with_debug_files(
    content: &[u8],
    path: &Path,
    offsets: &BTreeSet<u64>,
    debug: &Path,
) -> BTreeMap<u64, Function> {
    let Ok(file) = object::File::parse(content) else {
        return BTreeMap::new();
    };
    let mut starts: BTreeMap<u64, Option<String>> = unwound(&file).map(|start| (start, None)).collect();
    add_named(&mut starts, file.dynamic_symbols());
    if file.symbols().next().is_some() {
        add_named(&mut starts, file.symbols());
    } else if let Some(debug) = debug_files(&file, path, debug).find_map(|file| fs::read(file).ok())
        && let Ok(debug) = object::File::parse(&*debug)
    {
        add_named(&mut starts, debug.symbols());
    }
    let segments: Vec<(u64, u64, u64)> = file
        .segments()
        .map(|segment| {
            let (offset, size) = segment.file_range();
            (segment.address(), offset, size)
        })
        .collect();
    let address_of = |offset: u64| {
        let holds =
            |&&(_, start, size): &&(u64, u64, u64)| offset.checked_sub(start).is_some_and(|within| within < size);
        segments
            .iter()
            .find(holds)
            .map(|&(address, start, _)| offset - start + address)
    };
    let offset_of = |address: u64| {
        let holds =
            |&&(start, _, size): &&(u64, u64, u64)| address.checked_sub(start).is_some_and(|within| within < size);
        segments
            .iter()
            .find(holds)
            .map(|&(start, offset, _)| address - start + offset)
    };
    let function = |offset: u64| {
        let (&address, name) = starts.range(..=address_of(offset)?).next_back()?;
        Some(Function {
            start: offset_of(address)?,
            name: match name {
                Some(name) => shortest_name(name),
                None => format!("the function at {address:#x}"),
            },
        })
    };
    let found = offsets.iter().filter_map(|&offset| Some((offset, function(offset)?)));
    found.collect()
}

/// Adds the functions of a symbol table. Of several names of one function the shortest one is kept.
fn add_named<'data>(
    starts: &mut BTreeMap<u64, Option<String>>,
    symbols: impl Iterator<Item = impl ObjectSymbol<'data>>,
) {
    for symbol in symbols {
        if symbol.kind() != SymbolKind::Text || !symbol.is_definition() {
            continue;
        }
        let Ok(name) = symbol.name() else { continue };
        let known = starts.entry(symbol.address()).or_default();
        if known.as_ref().is_none_or(|known| name.len() < known.len()) {
            *known = Some(name.to_owned());
        }
    }
}

/// The files that may have the symbols of a stripped binary.
fn debug_files(file: &object::File<'_>, path: &Path, debug: &Path) -> impl Iterator<Item = PathBuf> {
    let by_build_id = file.build_id().ok().flatten().and_then(|id| {
        let (first, rest) = id.split_first()?;
        let rest = rest
            .iter()
            .fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
        Some(debug.join(format!(".build-id/{first:02x}/{rest}.debug")))
    });
    let link = file.gnu_debuglink().ok().flatten();
    let name = link.and_then(|(name, _)| Some(PathBuf::from(std::str::from_utf8(name).ok()?)));
    let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
    let beside = name.into_iter().flat_map({
        let debug = debug.to_owned();
        move |name| {
            let below = debug.join(folder.strip_prefix("/").unwrap_or(&folder));
            [folder.join(".debug").join(&name), below.join(name)]
        }
    });
    by_build_id.into_iter().chain(beside)
}

/// The starts of the functions in the search table of `.eh_frame_hdr` (Linux Standard Base 5, "Exception Frames"), in
/// the only encoding that linkers write.
fn unwound<'data>(file: &object::File<'data>) -> impl Iterator<Item = u64> + use<'data> {
    // DW_EH_PE_udata4 for the number, and DW_EH_PE_datarel | DW_EH_PE_sdata4 for the table.
    const NUMBER: u8 = 0x03;
    const TABLE: u8 = 0x3b;
    let section = file.section_by_name(".eh_frame_hdr");
    let read = section.and_then(|section| {
        let data = section.data().ok()?;
        let [1, _, NUMBER, TABLE, ..] = *data else { return None };
        Some((section.address(), data.get(12..)?))
    });
    let (address, table) = read.unwrap_or((0, &[]));
    table
        .as_chunks::<8>()
        .0
        .iter()
        .map(move |[a, b, c, d, ..]| address.wrapping_add_signed(i64::from(i32::from_le_bytes([*a, *b, *c, *d]))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use tempfile::TempDir;

    const SOURCE: &str = "
        static int __attribute__((noinline)) hidden_step(int of) { __asm__ volatile(\"nop\"); return of + 1; }
        int __attribute__((noinline)) exported_step(int of) { return hidden_step(of) * 2; }";

    /// A library, and the offsets of the code of `hidden_step` and `exported_step` in it.
    fn library() -> Option<(TempDir, PathBuf, [u64; 2])> {
        let folder = tempfile::tempdir().unwrap();
        let (source, library) = (folder.path().join("a.c"), folder.path().join("liba.so"));
        fs::write(&source, SOURCE).unwrap();
        let flags = ["-O1", "-shared", "-fPIC", "-Wl,--build-id", "-o"];
        let built = Command::new("cc").args(flags).args([&library, &source]).status();
        if !built.is_ok_and(|status| status.success()) {
            pinfold_testing::skip("there is no C compiler");
            return None;
        }
        let offset = |name: &str| crate::symbols::file_offset(&library, name).unwrap() + 4;
        let offsets = [offset("hidden_step"), offset("exported_step")];
        Some((folder, library, offsets))
    }

    fn run(command: &mut Command) -> bool {
        command.status().is_ok_and(|status| status.success())
    }

    /// The names, without what precedes an address.
    fn names(library: &Path, offsets: [u64; 2], debug: &Path) -> Vec<String> {
        let content = fs::read(library).unwrap();
        let found = functions_with_debug_files(&content, library, &offsets.into(), debug);
        offsets.iter().map(|offset| found[offset].name.clone()).collect()
    }

    #[test]
    fn a_place_belongs_to_the_function_around_it() {
        let Some((_folder, library, offsets)) = library() else {
            return;
        };
        let content = fs::read(&library).unwrap();
        let found = functions_at(&content, &library, &offsets.into());
        assert_eq!(found[&offsets[0]].start, offsets[0] - 4);
        assert_eq!(found[&offsets[0]].name, "hidden_step");
        assert_eq!(found[&offsets[1]].name, "exported_step");
    }

    #[test]
    fn a_stripped_library_has_starts_and_the_names_that_it_exports() {
        let Some((folder, library, offsets)) = library() else {
            return;
        };
        let whole = functions_at(&fs::read(&library).unwrap(), &library, &offsets.into());
        if !run(Command::new("strip").arg(&library)) {
            return pinfold_testing::skip("there is no strip");
        }
        let stripped = functions_at(&fs::read(&library).unwrap(), &library, &offsets.into());
        assert_eq!(stripped[&offsets[0]].start, whole[&offsets[0]].start);
        let names = names(&library, offsets, folder.path());
        assert!(names[0].starts_with("the function at 0x"), "{names:?}");
        assert_eq!(names[1], "exported_step");
    }

    #[test]
    fn names_come_from_the_debug_file_with_the_same_build_id() {
        let Some((folder, library, offsets)) = library() else {
            return;
        };
        let content = fs::read(&library).unwrap();
        let parsed = object::File::parse(&*content).unwrap();
        let debug = folder.path().join("debug");
        let file = debug_files(&parsed, &library, &debug).next().unwrap();
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::copy(&library, &file).unwrap();
        if !run(Command::new("strip").arg(&library)) {
            return pinfold_testing::skip("there is no strip");
        }
        assert_eq!(names(&library, offsets, &debug), ["hidden_step", "exported_step"]);
    }

    #[test]
    fn a_file_that_is_no_binary_has_no_functions() {
        assert!(functions_at(b"#!/bin/sh\n", Path::new("a"), &[3].into()).is_empty());
    }
}
