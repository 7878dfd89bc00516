//! The parts of an executable file that concern the dynamic linker.

use crate::mpi;
use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, ReadCache, ReadRef};
use std::fs::File;

/// The machine that the agent is built for.
const MACHINE: elf::Machine = if cfg!(target_arch = "aarch64") {
    elf::EM_AARCH64
} else {
    elf::EM_X86_64
};

/// The names of the address sanitizer's library in GCC and in LLVM.
const SANITIZERS: [&str; 2] = ["libasan.so", "libclang_rt.asan"];

/// A dynamically linked file for this machine.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DynamicallyLinked {
    /// The library of the address sanitizer, by the name in the list of needed libraries.
    pub(super) sanitizer: Option<String>,
    /// Whether the list has a library of MPI.
    pub(super) needs_mpi: bool,
}

impl DynamicallyLinked {
    /// `None` if no dynamic linker of this machine loads the file: it is statically linked, a 32-bit program, or for
    /// another machine. A dynamic linker that is executed itself counts as dynamically linked.
    pub(super) fn read(file: &File) -> Option<Self> {
        let data = ReadCache::new(file);
        let data = &data;
        let header = FileHeader64::<Endianness>::parse(data).ok()?;
        let endian = header.endian().ok()?;
        if endian != Endianness::default() || header.e_machine(endian) != MACHINE {
            return None;
        }
        let segments = header.program_headers(endian, data).ok()?;
        let entries = segments
            .iter()
            .find_map(|segment| segment.dynamic(endian, data).ok()?)?;
        let find = |tag: elf::DynamicTag| entries.iter().filter(move |entry| entry.tag(endian) == tag);
        let has_linker = segments.iter().any(|segment| segment.p_type(endian) == elf::PT_INTERP);
        if !has_linker && find(elf::DT_SONAME).next().is_none() {
            return None;
        }
        let texts = find(elf::DT_STRTAB).next()?.d_val(endian);
        let name = |entry: &elf::Dyn64<Endianness>| {
            let address = texts.checked_add(entry.d_val(endian))?;
            let segment = segments.iter().find(|segment| {
                let start = segment.p_vaddr(endian);
                segment.p_type(endian) == elf::PT_LOAD
                    && (start..start.saturating_add(segment.p_filesz(endian))).contains(&address)
            })?;
            let offset = segment
                .p_offset(endian)
                .checked_add(address - segment.p_vaddr(endian))?;
            let end = segment.p_offset(endian).checked_add(segment.p_filesz(endian))?;
            let text = data.read_bytes_at_until(offset..end, 0).ok()?;
            String::from_utf8(text.to_vec()).ok()
        };
        let needed: Vec<String> = find(elf::DT_NEEDED).filter_map(name).collect();
        Some(Self {
            needs_mpi: needed.iter().any(|name| mpi::is_library(name)),
            sanitizer: needed
                .into_iter()
                .find(|name| SANITIZERS.iter().any(|sanitizer| name.starts_with(sanitizer))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    /// With `START` it needs no start files.
    const EMPTY: &str = "#ifdef START\nvoid _start(void) {}\n#else\nint main(void) { return 0; }\n#endif\n";

    /// An empty program, compiled with `options`. `None` if it could not be compiled.
    fn compiled(options: &[&str]) -> Option<File> {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("empty.c"), folder.path().join("empty"));
        std::fs::write(&source, EMPTY).unwrap();
        let mut command = Command::new("gcc");
        command.arg("-o").arg(&program).arg(source).args(options);
        if !command.output().unwrap().status.success() {
            pinfold_testing::skip(format!("gcc {options:?} cannot link on this machine"));
            return None;
        }
        Some(File::open(program).unwrap())
    }

    #[test]
    fn only_files_for_this_machines_dynamic_linker_count_as_dynamically_linked() {
        let dynamic = Some(DynamicallyLinked {
            sanitizer: None,
            needs_mpi: false,
        });
        for (options, expected) in [
            (&[][..], &dynamic),
            (&["-no-pie"], &dynamic),
            (&["-static"], &None),
            (&["-static-pie"], &None),
            (&["-DSTART", "-nostartfiles", "-nodefaultlibs", "-m32"], &None),
        ] {
            if let Some(program) = compiled(options) {
                assert_eq!(&DynamicallyLinked::read(&program), expected, "{options:?}");
            }
        }
    }

    #[test]
    fn the_library_of_address_sanitizer_is_found_by_its_name() {
        if let Some(program) = compiled(&["-fsanitize=address"]) {
            let sanitizer = DynamicallyLinked::read(&program).unwrap().sanitizer.unwrap();
            assert!(sanitizer.starts_with("libasan.so."), "{sanitizer}");
        }
    }

    #[test]
    fn a_program_that_needs_a_library_of_mpi_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libmpi.so");
        let name = "-Wl,-soname,libmpi.so.40";
        let built = Command::new("gcc")
            .args(["-shared", name, "-x", "c", "/dev/null", "-o"])
            .arg(&library)
            .output();
        assert!(built.unwrap().status.success());
        let library = library.to_str().unwrap();
        for (option, expected) in [("-Wl,--no-as-needed", true), ("-Wl,--as-needed", false)] {
            let program = compiled(&[option, library]).unwrap();
            assert_eq!(
                DynamicallyLinked::read(&program).unwrap().needs_mpi,
                expected,
                "{option}"
            );
        }
    }

    #[test]
    fn a_dynamic_linker_that_is_executed_itself_loads_a_program() {
        let linker = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"]
            .into_iter()
            .map(Path::new)
            .find(|linker| linker.exists());
        match linker {
            Some(linker) => assert!(DynamicallyLinked::read(&File::open(linker).unwrap()).is_some()),
            None => pinfold_testing::skip("no dynamic linker of glibc"),
        }
    }

    #[test]
    fn a_file_that_is_no_program_is_not_linked_dynamically() {
        assert_eq!(DynamicallyLinked::read(&File::open("/proc/self/status").unwrap()), None);
        assert_eq!(DynamicallyLinked::read(&File::open("/dev/null").unwrap()), None);
    }
}
