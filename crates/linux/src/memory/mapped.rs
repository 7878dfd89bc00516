//! The mappings of a process that other runs of the same program also have, from `/proc/PROCESS/maps`; and the
//! translation of a recording's accesses to the process's addresses.

use super::maps::{Header, MapsError};
use pinfold_core::memory::{AccessProfile, AreaKind, MappedArea, MappedBacking, MemoryArea, Profiled, RecordedProfile};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Why a recording's accesses cannot be applied to a process.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The process runs another program.
    #[error(
        "{recording} is a recording of {}, and process {process} runs {}: give the recording of this program with \
         --profile, or omit --profile",
        recorded.display(),
        runs.display()
    )]
    OtherProgram {
        /// The recording.
        recording: String,
        /// The recorded program.
        recorded: PathBuf,
        /// The process number.
        process: i32,
        /// The program that it runs.
        runs: PathBuf,
    },
    /// The mappings of the process cannot be read.
    #[error(transparent)]
    Maps(#[from] MapsError),
}

/// The accesses of a recording at the addresses of a process in the `/proc` at `procfs`. `areas` is the process's
/// memory.
pub fn on_process(
    procfs: &Path,
    recorded: &RecordedProfile,
    process: i32,
    areas: &[MemoryArea],
    page_size: u64,
) -> Result<(AccessProfile, Profiled), ProfileError> {
    if let Ok(runs) = fs::read_link(procfs.join(process.to_string()).join("exe"))
        && runs != recorded.program
    {
        return Err(ProfileError::OtherProgram {
            recording: recorded.recording.clone(),
            recorded: recorded.program.clone(),
            process,
            runs,
        });
    }
    let running = mapped_areas(procfs, process)?;
    Ok(recorded.on(&running, areas, page_size))
}

/// The mappings of a process in the `/proc` at `procfs`, by address.
fn mapped_areas(procfs: &Path, process: i32) -> Result<Vec<MappedArea>, MapsError> {
    let path = procfs.join(process.to_string()).join("maps");
    match fs::read(&path) {
        Ok(bytes) => Ok(parse(&String::from_utf8_lossy(&bytes))),
        Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH) => {
            Err(MapsError::NoProcess(process))
        }
        Err(error) => Err(MapsError::Unreadable { path, error }),
    }
}

/// Unknown lines are ignored.
fn parse(maps: &str) -> Vec<MappedArea> {
    let area = |header: Header<'_>| MappedArea {
        start: header.start,
        end: header.end,
        backing: backing(&header),
        writable: header.permissions.as_bytes().get(1) == Some(&b'w'),
        accessible: !header.permissions.starts_with("---"),
    };
    maps.lines().filter_map(Header::parse).map(area).collect()
}

fn backing(header: &Header<'_>) -> MappedBacking {
    match (header.path, header.kind()) {
        ("[heap]", _) => MappedBacking::Heap,
        ("[stack]", _) => MappedBacking::Stack,
        (_, AreaKind::Anonymous) => MappedBacking::Anonymous,
        (_, AreaKind::SharedMemory) => MappedBacking::Shared,
        (path, AreaKind::PrivateFile | AreaKind::SharedFile) => MappedBacking::File(path.into(), header.offset),
        (_, AreaKind::Kernel) => MappedBacking::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_area_has_its_backing() {
        let maps = "\
            55d0c1a00000-55d0c1a01000 r--p 00000000 fe:01 1234    /usr/bin/a program\n\
            55d0c1a02000-55d0c1a03000 rw-p 00001000 fe:01 1234    /usr/bin/a program\n\
            55d0c1a03000-55d0c1a05000 rw-p 00000000 00:00 0\n\
            55d0c2b00000-55d0c2b21000 rw-p 00000000 00:00 0    [heap]\n\
            7f0000000000-7f0000001000 ---p 00000000 00:00 0\n\
            7f0000001000-7f0000002000 rw-s 00000000 00:01 7    /dev/zero (deleted)\n\
            7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0    [stack]\n\
            7ffc00100000-7ffc00102000 r-xp 00000000 00:00 0    [vdso]\n";
        let areas = parse(maps);
        let program = |offset| MappedBacking::File("/usr/bin/a program".into(), offset);
        let backings: Vec<MappedBacking> = areas.iter().map(|area| area.backing.clone()).collect();
        assert_eq!(
            backings,
            [
                program(0),
                program(0x1000),
                MappedBacking::Anonymous,
                MappedBacking::Heap,
                MappedBacking::Anonymous,
                MappedBacking::Shared,
                MappedBacking::Stack,
                MappedBacking::Other,
            ]
        );
        assert_eq!((areas[0].writable, areas[1].writable), (false, true));
        assert_eq!((areas[3].accessible, areas[4].accessible), (true, false));
    }

    #[test]
    fn our_own_stack_heap_and_program_are_there() {
        let process = std::process::id().cast_signed();
        let areas = mapped_areas(Path::new("/proc"), process).unwrap();
        let exe = std::env::current_exe().unwrap();
        let has = |wanted: &dyn Fn(&MappedBacking) -> bool| areas.iter().any(|area| wanted(&area.backing));
        assert!(has(&|backing| *backing == MappedBacking::Stack));
        assert!(has(
            &|backing| matches!(backing, MappedBacking::File(path, 0) if *path == exe)
        ));
        assert!(matches!(
            mapped_areas(Path::new("/proc"), i32::MAX),
            Err(MapsError::NoProcess(_))
        ));
    }
}
