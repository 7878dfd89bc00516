//! The ELF file that QEMU has to run for a command.
//!
//! QEMU runs only ELF files of its architecture: it does not search `PATH` and does not interpret `#!`. So this module
//! does both, like the kernel, and refuses a file that QEMU cannot run.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that QEMU can run.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// The ELF file.
    pub file: PathBuf,
    /// All arguments, the zeroth first.
    arguments: Vec<OsString>,
}

/// Why a command cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The file does not exist.
    #[error("{0}: command not found")]
    NotFound(String),
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The user may not execute the file.
    #[error("{} is not executable", .0.display())]
    NotExecutable(PathBuf),
    /// The file would get privileges that it does not get under QEMU.
    #[error("{} is set-uid or set-gid: it would run without its privilege under QEMU; record a copy without these bits", .0.display())]
    Privileged(PathBuf),
    /// The file is for another architecture.
    #[error("{} is an ELF file for {architecture}; only x86-64 programs can be recorded", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The architecture.
        architecture: String,
    },
    /// The kernel could not execute the file either.
    #[error("{} is neither an ELF file nor a script that starts with #!", .0.display())]
    Unknown(PathBuf),
    /// Too many interpreters are nested.
    #[error("{}: its interpreter is a script whose interpreter is a script, and so on", .0.display())]
    Endless(PathBuf),
}

impl ProgramError {
    /// The exit statuses of shells: 127 for a command that does not exist, 126 for a command that cannot be run.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::NotFound(_) => 127,
            _ => 126,
        }
    }
}

/// The largest number of nested interpreters, as in Linux.
const INTERPRETERS: usize = 5;
/// The longest `#!` line, as in Linux.
const LINE: usize = 256;

impl Program {
    /// The program of a command, which has at least one word.
    pub fn find(command: &[OsString]) -> Result<Self, ProgramError> {
        let name = &command[0];
        let file = if name.as_bytes().contains(&b'/') {
            PathBuf::from(name)
        } else {
            search_path(name).ok_or_else(|| ProgramError::NotFound(name.to_string_lossy().into_owned()))?
        };
        Self::resolve(file, command.to_vec())
    }

    fn resolve(mut file: PathBuf, mut arguments: Vec<OsString>) -> Result<Self, ProgramError> {
        for _ in 0..INTERPRETERS {
            let mut head = Vec::with_capacity(LINE);
            let unreadable = |source: std::io::Error| match source.kind() {
                std::io::ErrorKind::NotFound => ProgramError::NotFound(file.display().to_string()),
                _ => ProgramError::Unreadable {
                    path: file.clone(),
                    source,
                },
            };
            let metadata = file.metadata().map_err(unreadable)?;
            if !metadata.is_file() || metadata.mode() & 0o111 == 0 {
                return Err(ProgramError::NotExecutable(file));
            }
            File::open(&file)
                .and_then(|opened| opened.take(LINE as u64).read_to_end(&mut head))
                .map_err(unreadable)?;
            if let Some(architecture) = elf_architecture(&head) {
                if architecture != "x86-64" {
                    return Err(ProgramError::Foreign {
                        path: file,
                        architecture,
                    });
                }
                if metadata.mode() & 0o6000 != 0 {
                    return Err(ProgramError::Privileged(file));
                }
                return Ok(Self { file, arguments });
            }
            let Some((interpreter, argument)) = interpreter(&head) else {
                return Err(ProgramError::Unknown(file));
            };
            arguments[0] = file.into_os_string();
            arguments.splice(0..0, [interpreter.clone().into_os_string()].into_iter().chain(argument));
            file = interpreter;
        }
        Err(ProgramError::Endless(file))
    }

    /// The command that runs it under QEMU, with this plugin, its shared memory, and these variables in the program's
    /// environment.
    pub fn command(&self, qemu: &Path, plugin: &Path, memory: &str, environment: &[(OsString, OsString)]) -> Command {
        let mut option = OsString::new();
        for byte in plugin.as_os_str().as_bytes() {
            // QEMU reads two commas as one comma that does not separate.
            let piece: &[u8] = if *byte == b',' {
                b",,"
            } else {
                std::slice::from_ref(byte)
            };
            option.push(OsStr::from_bytes(piece));
        }
        option.push(format!(",memory={memory}"));
        let mut command = Command::new(qemu);
        // All features that QEMU can emulate, so that programs find their vector instructions. "Fast strings" are
        // excluded, because they would make memcpy move single bytes.
        command.args(["-cpu", "max,erms=off", "-plugin"]).arg(option);
        for (name, value) in environment {
            // A comma starts QEMU's next variable. Variables with a comma are left out.
            if !value.as_bytes().contains(&b',') {
                let mut variable = name.clone();
                variable.push("=");
                variable.push(value);
                command.arg("-E").arg(variable);
            }
        }
        command
            .arg("-0")
            .arg(&self.arguments[0])
            .arg(&self.file)
            .args(&self.arguments[1..]);
        command
    }
}

/// The executable file of this name in `PATH`.
pub fn search_path(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(name.as_ref()))
        .find(|file| {
            file.metadata()
                .is_ok_and(|metadata| metadata.is_file() && metadata.mode() & 0o111 != 0)
        })
}

/// The architecture of an ELF file, by its machine and class. `None` for any other file.
fn elf_architecture(head: &[u8]) -> Option<String> {
    if !head.starts_with(b"\x7fELF") || head.len() < 20 {
        return None;
    }
    let number = |at: usize| u16::from(head[at]) | u16::from(head[at + 1]) << 8;
    let machine = if head[5] == 2 {
        number(18).swap_bytes()
    } else {
        number(18)
    };
    // The numbers are from e_machine of the ELF specification. Class 1 with machine 62 is the x32 ABI.
    Some(match (machine, head[4]) {
        (62, 2) => "x86-64".to_owned(),
        (62, _) => "x32 (x86-64 with 32-bit addresses)".to_owned(),
        (3, _) => "i386".to_owned(),
        (183, _) => "AArch64".to_owned(),
        (40, _) => "Arm".to_owned(),
        (243, _) => "RISC-V".to_owned(),
        (21, _) => "PowerPC 64".to_owned(),
        (22, _) => "s390".to_owned(),
        (8, _) => "MIPS".to_owned(),
        (258, _) => "LoongArch".to_owned(),
        (other, _) => format!("the machine number {other}"),
    })
}

/// The interpreter of a script, and its argument: the rest of the line as one word.
fn interpreter(head: &[u8]) -> Option<(PathBuf, Option<OsString>)> {
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = line.trim_ascii();
    let end = line
        .iter()
        .position(|byte| matches!(byte, b' ' | b'\t'))
        .unwrap_or(line.len());
    let (interpreter, argument) = line.split_at(end);
    let argument = argument.trim_ascii();
    if interpreter.is_empty() {
        return None;
    }
    Some((
        PathBuf::from(OsString::from_vec(interpreter.to_vec())),
        (!argument.is_empty()).then(|| OsString::from_vec(argument.to_vec())),
    ))
}
