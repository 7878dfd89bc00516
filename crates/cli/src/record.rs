//! `pinfold record`: the memory accesses of an unmodified program.
//!
//! 1. Find the executable (`pinfold_linux::qemu`), QEMU and the plugin.
//! 2. Write the recording's header; make the memory that is shared with the plugin.
//! 3. Run the program under QEMU with the standard streams of this process.
//! 4. If the program was ended while it was recorded, complete the recording with the unfinished blocks.

use crate::console;
use crate::embedded;
use anyhow::{Context, Result, bail};
use clap::Args;
use pinfold_core::digits;
use pinfold_files::output::open_growing;
use pinfold_linux::channel::Channel;
use pinfold_linux::qemu::{self, Executable};
use pinfold_linux::symbols;
use pinfold_trace::shared::{self, Memory, Settings, Status};
use pinfold_trace::{FORMAT_VERSION, Functions, Header, Recording, Region, RegionPlace, TraceError, Window, Writer};
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

/// Record the data accesses of an unmodified x86-64 program, which runs under qemu-user.
///
/// The exit status is the program's, or 0 with --stop. If the program forks, the first process is recorded; if it calls
/// exec, the recording ends there.
#[derive(Args)]
#[command(override_usage = "pinfold record [OPTIONS] -o FILE [--] CMD [ARGUMENT]...")]
#[command(after_long_help = "\
Examples:
  pinfold record -o solver.pft -- ./solver input.dat
      the whole program
  pinfold record -o step.pft --region solve_step -- ./solver input.dat
      one parallel region of it
  pinfold record -o part.pft --from 2G --instructions 500M --stop -- ./solver input.dat
      500 million instructions after the first two thousand million")]
pub(crate) struct Arguments {
    /// The recording.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Record from this instruction on, counted over all threads together: 2000000, 2M. Where threads meet, at barriers
    /// and at the borders of parallel regions, the recorded part begins and ends at the next such place within 100
    /// million instructions. Otherwise it is exact to 1000 instructions a thread.
    #[arg(long, value_name = "INSTRUCTIONS", value_parser = count, conflicts_with = "region")]
    from: Option<u64>,

    /// Record this many instructions. After them a program with one thread runs on without instrumentation, unless
    /// --every is given. One with several threads keeps it and stays slow, because QEMU cannot remove it safely then:
    /// --stop ends such a program instead
    #[arg(long = "instructions", value_name = "INSTRUCTIONS", value_parser = count, conflicts_with = "region")]
    length: Option<u64>,

    /// Record the executions of one parallel region: the name of its function or of the function that it is in (of all
    /// of them that are in it), `FILE:FUNCTION` for one of a library; or its number in the order in which regions first
    /// begin, from 0; or the address of its function, 0x...
    #[arg(long, value_name = "REGION", value_parser = WantedRegion::parse)]
    region: Option<WantedRegion>,

    /// With --instructions, begin to record every N instructions; with --region, record every Nth execution.
    #[arg(long, value_name = "N", value_parser = count)]
    every: Option<u64>,

    /// End the program after the window of --instructions: it is killed, and the exit status is 0.
    #[arg(long, requires = "length", conflicts_with = "every")]
    stop: bool,

    /// Print the content of the recording and its size.
    #[arg(short, long)]
    verbose: bool,

    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,

    /// More variables of the program's environment.
    #[arg(skip)]
    variables: Vec<(OsString, OsString)>,
}

/// Parses a number that may end in k, M or G.
fn count(text: &str) -> Result<u64, String> {
    let (number, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1_000),
        Some(b'M') => (&text[..text.len() - 1], 1_000_000),
        Some(b'G') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    digits::decimal::<u64>(number)
        .and_then(|number| number.checked_mul(factor))
        .ok_or_else(|| "not a number; write 2000000, 2000k or 2M".to_owned())
}

/// A region as the user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum WantedRegion {
    Number(u64),
    Address(u64),
    /// A function of a file, or of the program if no file is named.
    Function {
        file: Option<PathBuf>,
        name: String,
    },
}

impl WantedRegion {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(address) = text.strip_prefix("0x") {
            return digits::hexadecimal(address)
                .map(Self::Address)
                .ok_or_else(|| "not an address; write it as 0x401234".to_owned());
        }
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            return digits::decimal(text)
                .map(Self::Number)
                .ok_or_else(|| "not a region; write its number from 0, or the name of its function".to_owned());
        }
        // The first colon that is not part of a C++ name's `::`.
        let colon = text
            .match_indices(':')
            .map(|(at, _)| at)
            .find(|&at| !text[..at].ends_with(':') && !text[at + 1..].starts_with(':'));
        let (file, name) = match colon {
            Some(at) => (Some(PathBuf::from(&text[..at])), &text[at + 1..]),
            None => (None, text),
        };
        if name.is_empty() || file.as_ref().is_some_and(|file| file.as_os_str().is_empty()) {
            return Err("a part is missing; write FUNCTION or FILE:FUNCTION".to_owned());
        }
        Ok(Self::Function {
            file,
            name: name.to_owned(),
        })
    }

    /// The region as the plugin finds it, with a function's code looked up in the file. Errors: the function does not
    /// exist.
    fn resolve(&self, program: &Path) -> Result<Region> {
        Ok(match self {
            Self::Number(number) => Region::Number(*number),
            Self::Address(address) => Region::Address(*address),
            Self::Function { file, name } => {
                let file = file.as_deref().unwrap_or(program);
                let ranges = symbols::Functions::read(file)?.ranges_of(name)?;
                Region::Functions(Functions {
                    name: name.clone(),
                    file: file.canonicalize()?,
                    ranges,
                })
            }
        })
    }
}

impl Arguments {
    /// A recording of a whole program, with more variables in its environment.
    pub(crate) fn whole(output: PathBuf, command: Vec<OsString>, variables: Vec<(OsString, OsString)>) -> Self {
        Self {
            output,
            from: None,
            length: None,
            region: None,
            every: None,
            stop: false,
            verbose: false,
            command,
            variables,
        }
    }

    fn window(&self, program: &Path) -> Result<Option<Window>> {
        if self.every == Some(0) || self.length == Some(0) {
            bail!("--every and --instructions take at least 1");
        }
        if let Some(region) = &self.region {
            return Ok(Some(Window::Region {
                region: region.resolve(program)?,
                every: self.every.unwrap_or(1),
            }));
        }
        match (self.length, self.every) {
            (None, Some(_)) => bail!("--every needs --instructions, which says how long each stretch is, or --region"),
            (Some(length), Some(every)) if length >= every => {
                bail!("--instructions {length} leaves nothing out between stretches that begin --every {every}")
            }
            _ => {}
        }
        if self.from.is_none() && self.length.is_none() {
            return Ok(None);
        }
        Ok(Some(Window::Instructions {
            from: self.from.unwrap_or(0),
            length: self.length,
            every: self.every,
        }))
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    record(arguments).map(ExitCode::from)
}

/// Records; the exit status is the program's, or 126 or 127 if the command could not be run.
pub(crate) fn record(arguments: &Arguments) -> Result<u8> {
    let program = match Executable::find(&arguments.command) {
        Ok(program) => program,
        Err(error) => {
            console::say(&error);
            return Ok(error.exit_status());
        }
    };
    let window = arguments.window(&program.file)?;
    let plugin = embedded::recorder()?;
    let qemu = qemu::search_path("qemu-x86_64")
        .context("qemu-x86_64 is not there; install it: apt install qemu-user (Debian 12's version 7.2)")?;
    let channel = Channel::create().context("no channel for the agent")?;
    let mut environment = environment(&channel)?;
    environment.extend_from_slice(&arguments.variables);

    let output = create(arguments, &program, window.clone())?;
    let memory = shared_memory(&Settings {
        output: output.clone(),
        window,
        stop: arguments.stop,
    })
    .context("no memory to share with the recorded program")?;

    let started = Instant::now();
    let mut command = program.command(&qemu, &plugin, &memory_name(&memory), &environment);
    let status =
        pinfold_linux::child::run(&mut command).with_context(|| format!("{} cannot be run", qemu.display()))?;
    let elapsed = started.elapsed();
    finish(&memory, &output, status)?;
    say_missing_window(arguments, &output)?;
    if arguments.verbose {
        say_size(&output, elapsed)?;
    }
    let code = status
        .code()
        .or(status.signal().map(|signal| 128 + signal))
        .unwrap_or(1);
    Ok(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Creates the recording with its header; its absolute path.
fn create(arguments: &Arguments, program: &Executable, window: Option<Window>) -> Result<PathBuf> {
    let words = arguments.command.iter();
    let header = Header {
        recorder: format!("pinfold {}", env!("CARGO_PKG_VERSION")),
        architecture: "x86_64".to_owned(),
        page_size: 4096,
        command: words.map(|word| word.to_string_lossy().into_owned()).collect(),
        program: program.file.to_string_lossy().into_owned(),
        window,
    };
    let mut options = OpenOptions::new();
    let mut file = open_growing(&arguments.output, options.write(true).create(true).truncate(true))
        .and_then(|mut file| Ok(Writer::header(&mut file, &header).map(|()| file)?))
        .with_context(|| format!("{} cannot be written", arguments.output.display()))?;
    file.flush()?;
    Ok(arguments.output.canonicalize()?)
}

/// Reports the content of the recording and its size.
fn say_size(output: &Path, elapsed: Duration) -> Result<()> {
    let (recording, _) = Recording::salvage(output)?;
    let accesses: u64 = recording.threads().iter().map(pinfold_trace::Thread::accesses).sum();
    console::say(format_args!(
        "recorded {accesses} accesses of {} threads in {:.2} s: {} bytes, {:.3} an access (format {FORMAT_VERSION})",
        recording.threads().len(),
        elapsed.as_secs_f64(),
        recording.file_size(),
        recording.file_size() as f64 / accesses.max(1) as f64,
    ));
    Ok(())
}

/// Opens a recording. With `salvage` the part before the damage of a damaged recording is read, with a message.
pub(crate) fn open(path: &Path, salvage: bool) -> Result<Recording> {
    if !salvage {
        return Ok(Recording::open(path)?);
    }
    let (recording, damage) = Recording::salvage(path)?;
    match damage {
        Some(TraceError::Damaged { path, offset, what }) => console::say(format_args!(
            "{} is damaged at byte {offset}: {what}; what precedes is used",
            path.display()
        )),
        Some(other) => return Err(other.into()),
        None => {}
    }
    Ok(recording)
}

/// Reports a window that was never reached, so that nothing is recorded.
fn say_missing_window(arguments: &Arguments, output: &Path) -> Result<()> {
    let (recording, _) = Recording::salvage(output)?;
    if recording.threads().iter().any(|thread| thread.accesses() > 0) {
        return Ok(());
    }
    if arguments.region.is_some() {
        tell_missing_region(&recording);
    } else if let Some(from) = arguments.from {
        let instructions: u64 = recording
            .threads()
            .iter()
            .map(pinfold_trace::Thread::instructions)
            .sum();
        console::say(format_args!(
            "the program ended after {instructions} instructions, before the window of --from {from} began, so that \
             nothing is recorded"
        ));
    }
    Ok(())
}

/// Lists the regions that began instead of the one of --region.
fn tell_missing_region(recording: &Recording) {
    let names: Vec<String> = recording
        .regions()
        .iter()
        .map(|place| region_name(place).unwrap_or_else(|| format!("{:#x}", place.identity)))
        .collect();
    if names.is_empty() {
        console::say(
            "no parallel region began, so that nothing is recorded: regions are known in OpenMP programs that \
             are dynamically linked",
        );
    } else {
        console::say(format_args!(
            "the region of --region never began, so that nothing is recorded; these did: {}",
            names.join(", ")
        ));
    }
}

/// The name of the function that a region's code lies in; `None` if the file has changed or names none.
pub(crate) fn region_name(place: &RegionPlace) -> Option<String> {
    let metadata = place.file.metadata().ok()?;
    if !place.is_of(&metadata) {
        return None;
    }
    symbols::Functions::read(&place.file).ok()?.at(place.offset)
}

/// The variables that make the program load the agent, and the agent make marks.
fn environment(channel: &Channel) -> Result<Vec<(OsString, OsString)>> {
    let agent = embedded::agent()?;
    let mut environment = channel.environment(|name: &str| std::env::var_os(name), Some(&agent), None);
    environment.push(("PINFOLD_MARKS".into(), "1".into()));
    Ok(environment)
}

/// The memory that is shared with the plugin: a file that lives in memory and has no name.
fn shared_memory(settings: &Settings) -> Result<Memory> {
    let file = tempfile::tempfile_in("/dev/shm").or_else(|_| tempfile::tempfile())?;
    Ok(Memory::create(file, settings)?)
}

fn memory_name(memory: &Memory) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), memory.file().as_raw_fd())
}

/// Completes the recording of a program that was ended while it was recorded, and reports what went wrong.
fn finish(memory: &Memory, output: &Path, status: ExitStatus) -> Result<()> {
    if memory.status(Status::Started)? == 0 {
        // There is only the header. A pipe or a device has no file to remove.
        if fs::symlink_metadata(output).is_ok_and(|there| there.is_file()) {
            let _ = fs::remove_file(output);
        }
        bail!(
            "QEMU ended ({status}) before it ran the program; it must be qemu-user 7.2, as in Debian 12: neither Debian 11's \
             nor Debian 13's takes plugins"
        );
    }
    let error = memory.status(Status::WriteError)?;
    if error != 0 {
        bail!(
            "{} could not be written: {}; the recording ends there",
            output.display(),
            io::Error::from_raw_os_error(i32::try_from(error)?)
        );
    }
    say_what_is_missing(memory)?;
    if memory.status(Status::Complete)? == 1 {
        return Ok(());
    }
    memory
        .complete(output)
        .with_context(|| format!("{} could not be completed", output.display()))?;
    if memory.status(Status::Exec)? == 1 {
        console::say("the program replaced itself by exec; what it did before is recorded");
    } else if let Some(signal) = status.signal() {
        console::say(format_args!(
            "the program was killed by signal {signal} while it was recorded; what it did before is kept"
        ));
    } else {
        console::say(format_args!(
            "the program ended ({status}) before its recording did; what was recorded is kept"
        ));
    }
    Ok(())
}

/// Reports threads and processes that are not recorded.
fn say_what_is_missing(memory: &Memory) -> Result<()> {
    let unrecorded = memory.status(Status::Unrecorded)?;
    if unrecorded > 0 {
        console::say(format_args!(
            "{unrecorded} threads are not in the recording: it holds {} at one time",
            shared::SLOTS
        ));
    }
    let forks = memory.status(Status::Forks)?;
    if forks > 0 {
        console::say(format_args!(
            "the program created {forks} processes; only its first one is recorded"
        ));
    }
    Ok(())
}
