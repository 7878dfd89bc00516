//! Where in a binary's file a function begins, which is what a uprobe is told.
//!
//! 1. Take the functions that `.symtab` and `.dynsym` define.
//! 2. Those whose name in the table is the wanted one; where there is none, those whose demangled name is, written
//!    with or without parameters, return type or Rust's hash.
//! 3. They must be one function: several names may share an address, but not the other way round.
//! 4. The offset is `st_value - p_vaddr + p_offset` of the `PT_LOAD` segment that holds the address (elf(5)), which
//!    is right for position-independent and for fixed binaries alike.
//!
//! Known limits: detached debug files (`.gnu_debuglink`, build ids) and compressed mini-tables (`.gnu_debugdata`) are
//! not read, and a function that was inlined everywhere has no place to probe.

use crate::nearest::{nearest, suggestion};
use cpp_demangle::DemangleOptions;
use object::{BinaryFormat, Object, ObjectSegment, ObjectSymbol, SymbolKind};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Why a function was not found.
#[derive(Debug, thiserror::Error)]
pub enum SymbolError {
    /// The file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not an ELF binary, or a damaged one.
    #[error("{} has no functions to probe: {why}", path.display())]
    NotElf {
        /// The file.
        path: PathBuf,
        /// What it is instead, and the remedy.
        why: String,
    },
    /// The file names no functions.
    #[error(
        "{} has no symbol table, so `{symbol}` cannot be found in it; build it without -s and do not strip it, or \
         probe a shared library that it calls: uprobe:PATH:SYMBOL",
        path.display()
    )]
    NoSymbols {
        /// The file.
        path: PathBuf,
        /// What was looked for.
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
        /// What was looked for.
        symbol: String,
        /// Whether only the dynamic symbols were there to look at.
        stripped: bool,
        /// The names nearest to it.
        nearest: Vec<String>,
    },
    /// Several functions have this name.
    #[error(
        "`{symbol}` names {} functions of {}: {}; give the one that is meant by its name in the symbol table (nm)",
        candidates.len(),
        path.display(),
        candidates.join(", ")
    )]
    Ambiguous {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        symbol: String,
        /// The names in the symbol table, with their addresses.
        candidates: Vec<String>,
    },
    /// The symbol's address is not in a part of the file that is loaded.
    #[error("`{symbol}` of {} has address {address:#x}, which no loaded segment of the file holds", path.display())]
    NotLoaded {
        /// The file.
        path: PathBuf,
        /// The function.
        symbol: String,
        /// Its address in the symbol table.
        address: u64,
    },
}

/// The offset in bytes into the file `path` at which the function `symbol` begins.
pub(crate) fn file_offset(path: &Path, symbol: &str) -> Result<u64, SymbolError> {
    let content = fs::read(path).map_err(|source| SymbolError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    offset_in(path, &content, symbol)
}

fn offset_in(path: &Path, content: &[u8], symbol: &str) -> Result<u64, SymbolError> {
    let not_elf = |why: String| SymbolError::NotElf {
        path: path.to_owned(),
        why,
    };
    if content.starts_with(b"#!") {
        let why = "it is a script; name the binary that interprets it: uprobe:PATH:SYMBOL";
        return Err(not_elf(why.to_owned()));
    }
    let file = object::File::parse(content).map_err(|error| not_elf(format!("it is no ELF binary ({error})")))?;
    if file.format() != BinaryFormat::Elf {
        return Err(not_elf(format!("it is a {:?} binary, not an ELF one", file.format())));
    }
    let stripped = file.symbols().next().is_none();
    // By name in the table; a name can be there twice (in both tables, or as a static function of several units).
    let mut functions: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for entry in file.symbols().chain(file.dynamic_symbols()) {
        if entry.kind() != SymbolKind::Text || !entry.is_definition() {
            continue;
        }
        if let Ok(name) = entry.name() {
            let addresses = functions.entry(name).or_default();
            if !addresses.contains(&entry.address()) {
                addresses.push(entry.address());
            }
        }
    }
    if functions.is_empty() {
        return Err(SymbolError::NoSymbols {
            path: path.to_owned(),
            symbol: symbol.to_owned(),
        });
    }
    let matching: Vec<(&str, u64)> = match functions.get_key_value(symbol) {
        Some((&name, addresses)) => addresses.iter().map(|&address| (name, address)).collect(),
        None => functions
            .iter()
            .filter(|(name, _)| readable_names(name).iter().any(|readable| readable == symbol))
            .flat_map(|(&name, addresses)| addresses.iter().map(move |&address| (name, address)))
            .collect(),
    };
    let address = match matching.as_slice() {
        [] => {
            let readable: Vec<String> = functions.keys().map(|name| shortest_name(name)).collect();
            return Err(SymbolError::Unknown {
                path: path.to_owned(),
                symbol: symbol.to_owned(),
                stripped,
                nearest: nearest(symbol, readable.iter().map(String::as_str)),
            });
        }
        [(_, address), rest @ ..] if rest.iter().all(|(_, other)| other == address) => *address,
        several => {
            return Err(SymbolError::Ambiguous {
                path: path.to_owned(),
                symbol: symbol.to_owned(),
                candidates: several
                    .iter()
                    .map(|(name, address)| format!("{name} at {address:#x}"))
                    .collect(),
            });
        }
    };
    file.segments()
        .find_map(|segment| {
            let (file_start, file_size) = segment.file_range();
            let within = address.checked_sub(segment.address())?;
            (within < file_size).then_some(file_start + within)
        })
        .ok_or_else(|| SymbolError::NotLoaded {
            path: path.to_owned(),
            symbol: symbol.to_owned(),
            address,
        })
}

/// The forms in which a person may write the function whose mangled name is `name`; none where it is not mangled.
fn readable_names(name: &str) -> Vec<String> {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        // The alternate form leaves out the hash.
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

/// The form of `name` that one would type.
fn shortest_name(name: &str) -> String {
    readable_names(name)
        .into_iter()
        .next()
        .unwrap_or_else(|| name.to_owned())
}
