//! The place of a function in a binary's file. A uprobe needs its start, and a parallel region is named after the
//! function that contains its code.
//!
//! 1. Take the functions that `.symtab` and `.dynsym` define.
//! 2. Select those whose name in the table is the wanted one. If there is none, select those whose demangled name is,
//!    written with or without parameters, return type or Rust's hash.
//! 3. They must be one function: one address may have several names, but a name must not belong to several functions.
//! 4. The offset is `st_value - p_vaddr + p_offset` of the `PT_LOAD` segment that contains the address (elf(5)). This
//!    holds for position-independent and for fixed binaries.
//!
//! Known limits: detached debug files (`.gnu_debuglink`, build ids) and compressed mini-tables (`.gnu_debugdata`) are
//! not read. A function that was inlined everywhere has no address to probe.

use crate::nearest::{nearest, suggestion};
use cpp_demangle::DemangleOptions;
use object::{BinaryFormat, Object, ObjectSegment, ObjectSymbol, SymbolKind};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Why a function was not found.
#[derive(Debug, thiserror::Error)]
pub enum SymbolError {
    /// The file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file is not an ELF binary, or a damaged one.
    #[error("{} has no functions that can be named: {why}", path.display())]
    NotElf {
        /// The file.
        path: PathBuf,
        /// The actual kind of file, and the remedy.
        why: String,
    },
    /// The file names no functions.
    #[error(
        "{} has no symbol table, so `{symbol}` cannot be found in it; build it without -s and do not strip it, or \
         name a function of a shared library that it calls: PATH:SYMBOL",
        path.display()
    )]
    NoSymbols {
        /// The file.
        path: PathBuf,
        /// The requested name.
        symbol: String,
    },
    /// No function has this name.
    #[error(
        "{} has no function `{symbol}`{stripped}{}",
        path.display(),
        suggestion(nearest),
        stripped = if *stripped { " among those it exports, and its table of all others was stripped" } else { "" },
    )]
    Unknown {
        /// The file.
        path: PathBuf,
        /// The requested name.
        symbol: String,
        /// Whether only the dynamic symbols were available.
        stripped: bool,
        /// The names nearest to it.
        nearest: Vec<String>,
    },
    /// Several functions have this name.
    #[error(
        "`{symbol}` names {} functions of {}: {}; select one by its name in the symbol table (nm)",
        candidates.len(),
        path.display(),
        candidates.join(", ")
    )]
    Ambiguous {
        /// The file.
        path: PathBuf,
        /// The requested name.
        symbol: String,
        /// The names in the symbol table, with their addresses.
        candidates: Vec<String>,
    },
    /// The symbol's address is not in a part of the file that is loaded.
    #[error("`{symbol}` of {} has address {address:#x}, which is in no loaded segment of the file", path.display())]
    NotLoaded {
        /// The file.
        path: PathBuf,
        /// The function.
        symbol: String,
        /// Its address in the symbol table.
        address: u64,
    },
}

/// The offset in bytes of the start of the function `symbol` in the file `path`.
pub(crate) fn file_offset(path: &Path, symbol: &str) -> Result<u64, SymbolError> {
    Functions::read(path)?.file_offset(symbol)
}

/// The functions that a file defines.
#[derive(Debug)]
pub struct Functions {
    path: PathBuf,
    /// Whether only the dynamic symbols were available.
    stripped: bool,
    /// By name in the table. A name can occur twice (in both tables, or as a static function of several units).
    by_name: BTreeMap<String, Vec<Code>>,
}

/// The code of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Code {
    /// The address in the symbol table.
    address: u64,
    /// Bytes. 0 if the table lacks the size.
    size: u64,
    /// The offset of its start in the file. `None` if no loaded segment contains it.
    offset: Option<u64>,
}

impl Code {
    /// Its range in the file, at least one byte.
    fn range(&self) -> Option<Range<u64>> {
        self.offset.map(|offset| offset..offset + self.size.max(1))
    }
}

impl Functions {
    /// Reads the symbol tables of a file. Fails if the file cannot be read or is not an ELF binary.
    pub fn read(path: &Path) -> Result<Self, SymbolError> {
        let content = fs::read(path).map_err(|source| SymbolError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(path, &content)
    }

    fn parse(path: &Path, content: &[u8]) -> Result<Self, SymbolError> {
        let not_elf = |why: String| SymbolError::NotElf {
            path: path.to_owned(),
            why,
        };
        if content.starts_with(b"#!") {
            let why = "it is a script; name the binary that interprets it: PATH:SYMBOL";
            return Err(not_elf(why.to_owned()));
        }
        let file =
            object::File::parse(content).map_err(|error| not_elf(format!("it is not an ELF binary ({error})")))?;
        if file.format() != BinaryFormat::Elf {
            return Err(not_elf(format!("it is a {:?} binary, not an ELF one", file.format())));
        }
        let offset_of = |address: u64| {
            file.segments().find_map(|segment| {
                let (file_start, file_size) = segment.file_range();
                let within = address.checked_sub(segment.address())?;
                (within < file_size).then_some(file_start + within)
            })
        };
        let mut by_name: BTreeMap<String, Vec<Code>> = BTreeMap::new();
        for entry in file.symbols().chain(file.dynamic_symbols()) {
            if entry.kind() != SymbolKind::Text || !entry.is_definition() {
                continue;
            }
            let Ok(name) = entry.name() else { continue };
            let known = by_name.entry(name.to_owned()).or_default();
            if known.iter().all(|code| code.address != entry.address()) {
                known.push(Code {
                    address: entry.address(),
                    size: entry.size(),
                    offset: offset_of(entry.address()),
                });
            }
        }
        Ok(Self {
            path: path.to_owned(),
            stripped: file.symbols().next().is_none(),
            by_name,
        })
    }

    /// The name, as a user writes it, of the function whose code contains this offset of the file. If there are several
    /// functions, the innermost one.
    pub fn at(&self, offset: u64) -> Option<String> {
        let holding = self.by_name.iter().flat_map(|(name, codes)| {
            codes
                .iter()
                .filter_map(Code::range)
                .filter(|range| range.contains(&offset))
                .map(move |range| (range.start, name))
        });
        // If the same code has several names, the shorter one is the usual one.
        holding
            .max_by_key(|(start, name)| (*start, std::cmp::Reverse(name.len())))
            .map(|(_, name)| shortest_name(name))
    }

    /// The parts of the file with the code of the function `symbol`, and of the functions that the compiler outlined
    /// from it, whose names have it before a dot (`main._omp_fn.0` of `main`). Fails if there is no such function.
    pub fn ranges_of(&self, symbol: &str) -> Result<Vec<Range<u64>>, SymbolError> {
        let ranges: Vec<Range<u64>> = self
            .by_name
            .iter()
            .filter(|(name, _)| is_or_is_part_of(name, symbol))
            .flat_map(|(_, codes)| codes.iter().filter_map(Code::range))
            .collect();
        if ranges.is_empty() {
            return Err(self.unknown(symbol));
        }
        Ok(ranges)
    }

    fn unknown(&self, symbol: &str) -> SymbolError {
        if self.by_name.is_empty() {
            return SymbolError::NoSymbols {
                path: self.path.clone(),
                symbol: symbol.to_owned(),
            };
        }
        let readable: Vec<String> = self.by_name.keys().map(|name| shortest_name(name)).collect();
        SymbolError::Unknown {
            path: self.path.clone(),
            symbol: symbol.to_owned(),
            stripped: self.stripped,
            nearest: nearest(symbol, readable.iter().map(String::as_str)),
        }
    }

    fn file_offset(&self, symbol: &str) -> Result<u64, SymbolError> {
        let all = |(name, codes): (&String, &Vec<Code>)| -> Vec<(String, Code)> {
            codes.iter().map(|code| (name.clone(), *code)).collect()
        };
        let matching: Vec<(String, Code)> = match self.by_name.get_key_value(symbol) {
            Some(exact) => all(exact),
            None => self
                .by_name
                .iter()
                .filter(|(name, _)| readable_names(name).iter().any(|readable| readable == symbol))
                .flat_map(all)
                .collect(),
        };
        let code = match matching.as_slice() {
            [] => return Err(self.unknown(symbol)),
            [(_, code), rest @ ..] if rest.iter().all(|(_, other)| other.address == code.address) => *code,
            several => {
                return Err(SymbolError::Ambiguous {
                    path: self.path.clone(),
                    symbol: symbol.to_owned(),
                    candidates: several
                        .iter()
                        .map(|(name, code)| format!("{name} at {:#x}", code.address))
                        .collect(),
                });
            }
        };
        code.offset.ok_or_else(|| SymbolError::NotLoaded {
            path: self.path.clone(),
            symbol: symbol.to_owned(),
            address: code.address,
        })
    }
}

/// Whether the function `name` of a symbol table is the user's `wanted`, or a function that the compiler outlined from
/// it.
fn is_or_is_part_of(name: &str, wanted: &str) -> bool {
    let fits = |text: &str| {
        text.strip_prefix(wanted)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    if fits(name) {
        return true;
    }
    let (base, part) = name.split_at(name.find('.').unwrap_or(name.len()));
    readable_names(base)
        .iter()
        .any(|readable| fits(&format!("{readable}{part}")))
}

/// The names that a user may write for the function with the mangled name `name`. Empty if the name is not mangled.
fn readable_names(name: &str) -> Vec<String> {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        // The alternate form omits the hash.
        return vec![format!("{rust:#}"), rust.to_string()];
    }
    if !name.starts_with("_Z") {
        return vec![];
    }
    let Ok(cpp) = cpp_demangle::Symbol::new(name) else {
        return vec![];
    };
    let plain = DemangleOptions::new();
    [
        plain.no_params().no_return_type(),
        plain.no_params(),
        plain.no_return_type(),
        plain,
    ]
    .iter()
    .filter_map(|options| cpp.demangle_with_options(options).ok())
    .collect()
}

/// The name that a user would write. A suffix that the compiler appended for an outlined part stays.
pub(crate) fn shortest_name(name: &str) -> String {
    let (base, part) = name.split_at(name.find('.').unwrap_or(name.len()));
    match readable_names(base).into_iter().next() {
        Some(readable) => readable + part,
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use tempfile::TempDir;

    /// Compiles and links sources, each a name and a text. `None`, with a message, if there is no such compiler.
    fn compiled(compiler: &str, sources: &[(&str, &str)], flags: &[&str]) -> Option<(TempDir, PathBuf)> {
        let directory = tempfile::tempdir().unwrap();
        let binary = directory.path().join("binary");
        let mut command = Command::new(compiler);
        command.args(flags).arg("-o").arg(&binary);
        for (name, text) in sources {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            command.arg(path);
        }
        if command.status().is_ok_and(|status| status.success()) {
            return Some((directory, binary));
        }
        pinfold_testing::skip(format_args!(
            "`{compiler} {}` does not work on this machine",
            flags.join(" ")
        ));
        None
    }

    const CPP: &str = "
        namespace solver {
            struct Grid { void relax(int step, double by); };
            void __attribute__((noinline)) Grid::relax(int step, double by) { volatile double kept = by * step; kept = kept + 1; }
            template <typename T> T __attribute__((noinline)) twice(T value) { return value + value; }
        }
        int main(int count, char **) {
            solver::Grid().relax(count, 2);
            return solver::twice(count) + (int)solver::twice(1.5 * count);
        }";

    #[test]
    fn a_cpp_function_is_found_with_and_without_its_parameters() {
        let Some((_directory, binary)) = compiled("c++", &[("a.cpp", CPP)], &["-O1"]) else {
            return;
        };
        let mangled = file_offset(&binary, "_ZN6solver4Grid5relaxEid").unwrap();
        for name in ["solver::Grid::relax", "solver::Grid::relax(int, double)"] {
            assert_eq!(file_offset(&binary, name).unwrap(), mangled, "{name}");
        }
    }

    #[test]
    fn a_template_function_is_found_with_its_arguments_and_suggested_without_them() {
        let Some((_directory, binary)) = compiled("c++", &[("a.cpp", CPP)], &["-O1", "-fno-inline"]) else {
            return;
        };
        file_offset(&binary, "solver::twice<int>").unwrap();
        file_offset(&binary, "double solver::twice<double>(double)").unwrap();
        let message = file_offset(&binary, "solver::twice").unwrap_err().to_string();
        assert!(message.contains("solver::twice<int>"), "{message}");
    }

    #[test]
    fn a_static_function_of_two_units_is_ambiguous() {
        let unit = |name: &str| {
            format!(
                "static void __attribute__((noinline,used)) step(void) {{ __asm__(\"nop\"); }} void {name}(void) {{ step(); }}"
            )
        };
        let (one, other) = (unit("one"), unit("other"));
        let main = "int main(void) { return 0; }";
        let sources = [("one.c", one.as_str()), ("other.c", other.as_str()), ("main.c", main)];
        let Some((_directory, binary)) = compiled("cc", &sources, &[]) else {
            return;
        };
        let error = file_offset(&binary, "step").unwrap_err();
        assert!(
            matches!(&error, SymbolError::Ambiguous { candidates, .. } if candidates.len() == 2),
            "{error}"
        );
    }

    #[test]
    fn compiler_generated_parts_are_found_by_the_functions_name() {
        for (name, wanted, found) in [
            ("main", "main", true),
            ("main._omp_fn.0", "main", true),
            ("main._omp_fn.0", "main._omp_fn.0", true),
            ("main._omp_fn.10", "main._omp_fn.1", false),
            ("mainly", "main", false),
            ("_ZN6solver4Grid5relaxEid._omp_fn.1", "solver::Grid::relax", true),
            (
                "_ZN6solver4Grid5relaxEid._omp_fn.1",
                "solver::Grid::relax._omp_fn.1",
                true,
            ),
            ("_ZN6solver4Grid5relaxEid._omp_fn.1", "solver::Grid", false),
        ] {
            assert_eq!(is_or_is_part_of(name, wanted), found, "{name} as {wanted}");
        }
        assert_eq!(
            shortest_name("_ZN6solver4Grid5relaxEid._omp_fn.1"),
            "solver::Grid::relax._omp_fn.1"
        );
    }

    #[test]
    fn code_has_the_name_of_the_function_that_it_lies_in() {
        let source = "void first(void) {} int main(void) { first(); return 0; }";
        let Some((_directory, binary)) = compiled("cc", &[("a.c", source)], &["-O0"]) else {
            return;
        };
        let functions = Functions::read(&binary).unwrap();
        for name in ["first", "main"] {
            let ranges = functions.ranges_of(name).unwrap();
            assert_eq!(ranges.len(), 1);
            for offset in [ranges[0].start, ranges[0].end - 1] {
                assert_eq!(functions.at(offset).as_deref(), Some(name));
            }
        }
        assert_eq!(functions.at(1), None);
    }

    #[test]
    fn a_variable_is_no_function() {
        let source = "int counter = 3; int main(void) { return counter; }";
        let Some((_directory, binary)) = compiled("cc", &[("a.c", source)], &[]) else {
            return;
        };
        let error = file_offset(&binary, "counter").unwrap_err();
        assert!(matches!(error, SymbolError::Unknown { .. }), "{error}");
    }

    #[test]
    fn a_stripped_binary_says_how_to_get_a_symbol_table() {
        let source = "int main(void) { return 0; }";
        let Some((_directory, binary)) = compiled("cc", &[("a.c", source)], &["-static", "-s"]) else {
            return;
        };
        let message = file_offset(&binary, "main").unwrap_err().to_string();
        assert!(
            message.contains("has no symbol table") && message.contains("do not strip"),
            "{message}"
        );
    }

    #[test]
    fn a_stripped_library_still_shows_what_it_exports() {
        let source = "void exported_step(void) {} static void __attribute__((used)) hidden_step(void) {}";
        let flags = ["-shared", "-fPIC", "-s"];
        let Some((_directory, library)) = compiled("cc", &[("a.c", source)], &flags) else {
            return;
        };
        file_offset(&library, "exported_step").unwrap();
        let message = file_offset(&library, "hidden_step").unwrap_err().to_string();
        assert!(message.contains("stripped"), "{message}");
    }

    #[test]
    fn a_script_points_at_its_interpreter() {
        let message = Functions::parse(Path::new("job"), b"#!/bin/sh\nexit\n")
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("script") && message.contains("PATH:SYMBOL"),
            "{message}"
        );
    }

    #[test]
    fn a_damaged_binary_is_an_error() {
        let error = Functions::parse(Path::new("job"), b"\x7fELF\x02\x01\x01").unwrap_err();
        assert!(matches!(error, SymbolError::NotElf { .. }), "{error}");
        let missing = file_offset(Path::new("/no/such/file"), "main").unwrap_err();
        assert!(matches!(missing, SymbolError::Unreadable { .. }), "{missing}");
    }
}
