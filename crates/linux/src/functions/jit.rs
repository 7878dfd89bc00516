//! Names of the code that a JIT compiler made: `/tmp/perf-PROCESS.map`, which Java (`-XX:+DumpPerfMapAtExit`, agents),
//! node (`--perf-basic-prof`) and others write for perf.
//!
//! A probe belongs to a file, so this code cannot be probed. The names say where the time is.

use crate::procfs::Procfs;
use pinfold_core::digits;
use std::collections::BTreeMap;
use std::fs;

/// The named code of one process.
#[derive(Default)]
pub(super) struct CompiledCode {
    /// The end and the name, by the start.
    by_start: BTreeMap<u64, (u64, String)>,
}

impl CompiledCode {
    /// Reads the map of a process; empty without one. The file is in the process's `/tmp` and has its own number there.
    pub(super) fn read(procfs: &Procfs, process: i32) -> Self {
        let outside = process.to_string();
        let status = fs::read_to_string(procfs.file(&outside, "status")).unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let inside = numbers.and_then(|numbers| numbers.split_whitespace().last());
        let file = format!("root/tmp/perf-{}.map", inside.unwrap_or(&outside));
        let text = fs::read(procfs.file(&outside, &file)).unwrap_or_default();
        Self::parse(&String::from_utf8_lossy(&text))
    }

    /// Lines of a start, a size and a name (tools/perf/Documentation/jit-interface.txt). A later line replaces an
    /// earlier one with the same start.
    fn parse(text: &str) -> Self {
        let line = |line: &str| {
            let mut fields = line.splitn(3, ' ');
            let number = |text: &str| digits::hexadecimal::<u64>(text.strip_prefix("0x").unwrap_or(text));
            let (start, size) = (number(fields.next()?)?, number(fields.next()?)?);
            Some((start, (start.checked_add(size)?, fields.next()?.trim().to_owned())))
        };
        Self {
            by_start: text.lines().filter_map(line).collect(),
        }
    }

    /// The name of the code at an address.
    pub(super) fn name(&self, address: u64) -> Option<&str> {
        let (_, (end, name)) = self.by_start.range(..=address).next_back()?;
        (address < *end).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_name_of_the_code_around_it() {
        let code = CompiledCode::parse("7f00 10 Interpreter\n7f20 20 LazyCompile:*step /a b.js:3\n?\n7f40 zz broken\n");
        assert_eq!(code.name(0x7f0f), Some("Interpreter"));
        assert_eq!(code.name(0x7f10), None);
        assert_eq!(code.name(0x7f3f), Some("LazyCompile:*step /a b.js:3"));
        assert_eq!(code.name(0x7eff), None);
    }

    #[test]
    fn the_map_is_in_the_tmp_of_the_process_under_its_own_number() {
        let folder = tempfile::tempdir().unwrap();
        let process = folder.path().join("70");
        fs::create_dir_all(process.join("root/tmp")).unwrap();
        fs::write(process.join("status"), "Name:\tnode\nNSpid:\t70\t7\n").unwrap();
        fs::write(process.join("root/tmp/perf-7.map"), "1000 100 step\n").unwrap();
        assert_eq!(
            CompiledCode::read(&Procfs::new(folder.path()), 70).name(0x1001),
            Some("step")
        );
        assert_eq!(CompiledCode::read(&Procfs::new(folder.path()), 71).name(0x1001), None);
    }
}
