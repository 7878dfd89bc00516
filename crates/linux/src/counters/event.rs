//! Resolves a name to the arguments of `perf_event_open(2)`.

use super::Request;
use super::error::{CounterError, Refused, explain};
use super::group::Group;
use super::source::Source;
use crate::nearest::{misspelt, nearest};
use crate::pfm::{self, AttributeKind, Encoding, Library, PfmError, Pmu, PmuKind, Privilege, sys};
use crate::{perf_event, symbols};
use nix::errno::Errno;
use pinfold_core::{Metric, Scope, digits, sources};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{self, Path};

/// The kernel's event of all instructions.
const INSTRUCTIONS: &str = "instructions";

/// The most PMUs that a message lists.
const NAMED_PMUS: usize = 4;

/// Opens the source on the calling thread, and returns it as it could be opened. If counting the kernel is not
/// permitted, and user space alone is useful, the result counts user space only.
pub(super) fn admitted(mut source: Source, root: &Path) -> Result<Source, CounterError> {
    let refusal = |source: &Source| {
        Group::open(std::slice::from_ref(source), &[0], 0)
            .err()
            .map(|it| it.error)
    };
    let mut error = refusal(&source);
    if let (Some(Errno::EACCES | Errno::EPERM), Some(user_only)) = (error, source.user_only) {
        source.attributes = user_only;
        error = refusal(&source);
    }
    match error {
        None => Ok(source),
        Some(error) => Err(explain(
            root,
            Refused {
                source: &source,
                thread: 0,
                error,
            },
        )),
    }
}

/// Resolves a request; `root` is the root of /sys.
pub(super) fn resolve(root: &Path, request: &Request) -> Result<Source, CounterError> {
    let metric = |unit: &str, source| Metric {
        name: request.metric_name(),
        unit: unit.to_owned(),
        source,
        scope: Scope::Task,
    };
    match request {
        Request::Event(name) => {
            // Each run counts instructions. libpfm4 encodes them in the same way, but in a virtual machine it takes 2
            // ms to identify the processor.
            let (attributes, unit, user_only) = if name == INSTRUCTIONS {
                (
                    perf_event::hardware(sys::PERF_COUNT_HW_INSTRUCTIONS),
                    "instruction",
                    None,
                )
            } else {
                let (encoding, user_only) = resolve_event(pfm::library()?, name)?;
                (encoding.attributes, unit(&encoding), user_only)
            };
            Ok(Source {
                name: name.clone(),
                metric: metric(unit, &sources::EVENT),
                attributes,
                user_only,
                probed_path: None,
            })
        }
        Request::Uprobe { symbol, binary } => {
            let offset = symbols::file_offset(binary, symbol)?;
            let absolute = path::absolute(binary).unwrap_or_else(|_| binary.clone());
            let mut attributes = pfm::empty_attributes();
            attributes.type_ = uprobe_type(root)?;
            attributes.__bindgen_anon_4.config2 = offset;
            Ok(Source {
                name: request.metric_name(),
                metric: metric("call", &sources::UPROBE),
                attributes,
                user_only: None,
                probed_path: Some(CString::new(absolute.as_os_str().as_bytes()).expect("the path was just opened")),
            })
        }
    }
}

/// Whether the tables have the event, independent of the permission to count it.
fn is_listed(library: &Library, pmu: &Pmu, event: &str) -> bool {
    let base = event.split(':').next().unwrap_or(event);
    let events = library.events(pmu);
    events.iter().any(|listed| listed.name.eq_ignore_ascii_case(base))
}

/// The kernel's PMU number for uprobes (kernel documentation,
/// Documentation/ABI/testing/sysfs-bus-event_source-devices).
fn uprobe_type(root: &Path) -> Result<u32, CounterError> {
    let file = root.join("sys/bus/event_source/devices/uprobe/type");
    fs::read_to_string(&file)
        .and_then(|text| digits::decimal(text.trim()).ok_or_else(|| io::Error::other("it does not contain a number")))
        .map_err(|source| CounterError::NoUprobes {
            file: file.display().to_string(),
            source,
        })
}

/// The PMUs that may have the event `name`: those with the name `wanted`, or all PMUs, the kernel's first.
fn candidate_pmus<'a>(library: &'a Library, name: &str, wanted: Option<&str>) -> Result<Vec<&'a Pmu>, CounterError> {
    let is_wanted = |pmu: &&Pmu| wanted.is_none_or(|wanted| pmu.name.eq_ignore_ascii_case(wanted));
    let mut candidates: Vec<&Pmu> = library.pmus().iter().filter(is_wanted).collect();
    if let (Some(wanted), true) = (wanted, candidates.is_empty()) {
        return Err(CounterError::UnknownPmu {
            name: name.to_owned(),
            pmu: wanted.to_owned(),
            nearest: nearest(wanted, library.pmus().iter().map(|pmu| pmu.name.as_str())),
        });
    }
    candidates.sort_by_key(|pmu| pmu.kind != PmuKind::Kernel);
    Ok(candidates)
}

/// The PMUs as a message shows them.
fn described<'a>(pmus: impl Iterator<Item = &'a Pmu>) -> Vec<String> {
    pmus.map(|pmu| format!("{} ({})", pmu.description, pmu.name)).collect()
}

/// Finds an event among the present PMUs, the kernel's generic names first. Returns its attributes, and its attributes
/// for user space alone if these are useful.
fn resolve_event(library: &Library, name: &str) -> Result<(Encoding, Option<sys::perf_event_attr>), CounterError> {
    let (wanted_pmu, event) = match name.split_once("::") {
        Some((pmu, event)) => (Some(pmu), event),
        None => (None, name),
    };
    let candidates = candidate_pmus(library, name, wanted_pmu)?;
    let mut refusal = None;
    for &pmu in candidates.iter().filter(|pmu| pmu.present) {
        let full = format!("{}::{event}", pmu.name);
        match library.encode(&full, Privilege::User) {
            Ok(_) if pmu.kind == PmuKind::Uncore => return Err(CounterError::NotPerTask { name: name.to_owned() }),
            Ok(encoding) => return Ok(privileges(library, &full, encoding)?),
            Err(PfmError::Attribute { why, .. }) if refusal.is_none() => refusal = Some((why, pmu)),
            // libpfm4 encodes some of these only if the kernel has the PMU. The kernels of some virtual machines lack
            // it.
            Err(_) if pmu.kind == PmuKind::Uncore && is_listed(library, pmu, event) => {
                return Err(CounterError::NotPerTask { name: name.to_owned() });
            }
            Err(_) => {}
        }
    }
    if let Some((why, pmu)) = refusal {
        return Err(CounterError::UnknownAttribute {
            name: name.to_owned(),
            why,
            choices: choices(library, pmu, event),
        });
    }
    let has_event = |pmu: &Pmu| {
        let full = format!("{}::{event}", pmu.name);
        library.encode(&full, Privilege::User).is_ok()
    };
    let elsewhere = described(candidates.iter().copied().filter(|pmu| !pmu.present && has_event(pmu)));
    if !elsewhere.is_empty() {
        let here = library.pmus().iter();
        return Err(CounterError::OtherProcessor {
            name: name.to_owned(),
            known_for: shortened(elsewhere),
            here: described(here.filter(|pmu| pmu.present && pmu.kind == PmuKind::Core)),
        });
    }
    let first = |pmu: &Pmu| wanted_pmu.map_or(pmu.present, |wanted| pmu.name.eq_ignore_ascii_case(wanted));
    Err(CounterError::UnknownEvent {
        name: name.to_owned(),
        nearest: nearest_events(library, first, event),
    })
}

/// The attributes of an event: hardware events count user space, as encoded. Software events happen in the kernel, so
/// the kernel is counted as well. If that is forbidden, user space alone is the alternative, except for events that
/// never happen in user space.
fn privileges(
    library: &Library,
    full_name: &str,
    user: Encoding,
) -> Result<(Encoding, Option<sys::perf_event_attr>), PfmError> {
    if user.attributes.type_ != sys::PERF_TYPE_SOFTWARE {
        return Ok((user, None));
    }
    let both = library.encode(full_name, Privilege::UserAndKernel)?;
    let in_kernel_only = [
        sys::PERF_COUNT_SW_CONTEXT_SWITCHES,
        sys::PERF_COUNT_SW_CPU_MIGRATIONS,
        sys::PERF_COUNT_SW_CGROUP_SWITCHES,
    ]
    .iter()
    .any(|&event| u64::from(event) == both.config());
    let user_only = (!in_kernel_only).then_some(user.attributes);
    Ok((both, user_only))
}

/// The unit of a count, if the encoding or the name shows it.
fn unit(encoding: &Encoding) -> &'static str {
    let config = u32::try_from(encoding.config()).unwrap_or(u32::MAX);
    match (encoding.event_type(), config) {
        (sys::PERF_TYPE_HARDWARE, sys::PERF_COUNT_HW_INSTRUCTIONS) => "instruction",
        (sys::PERF_TYPE_HARDWARE, sys::PERF_COUNT_HW_CPU_CYCLES | sys::PERF_COUNT_HW_REF_CPU_CYCLES) => "cycle",
        (sys::PERF_TYPE_HARDWARE, sys::PERF_COUNT_HW_BRANCH_INSTRUCTIONS) => "branch",
        (sys::PERF_TYPE_SOFTWARE, sys::PERF_COUNT_SW_CPU_CLOCK | sys::PERF_COUNT_SW_TASK_CLOCK) => "nanosecond",
        (
            sys::PERF_TYPE_SOFTWARE,
            sys::PERF_COUNT_SW_PAGE_FAULTS | sys::PERF_COUNT_SW_PAGE_FAULTS_MIN | sys::PERF_COUNT_SW_PAGE_FAULTS_MAJ,
        ) => "page fault",
        (sys::PERF_TYPE_SOFTWARE, sys::PERF_COUNT_SW_CONTEXT_SWITCHES) => "context switch",
        (sys::PERF_TYPE_SOFTWARE, sys::PERF_COUNT_SW_CPU_MIGRATIONS) => "migration",
        _ => match encoding.name.split([':']).filter(|part| !part.is_empty()).nth(1) {
            Some("INSTRUCTION_RETIRED" | "INSTRUCTIONS_RETIRED" | "RETIRED_INSTRUCTIONS" | "INST_RETIRED") => {
                "instruction"
            }
            _ => "event",
        },
    }
}

/// The attributes that can follow the name of `event`, each with its colon.
fn choices(library: &Library, pmu: &Pmu, event: &str) -> Vec<String> {
    let base = event.split(':').next().unwrap_or(event);
    library
        .events(pmu)
        .iter()
        .find(|candidate| candidate.name.eq_ignore_ascii_case(base))
        .map(|found| {
            let text = |attribute: &pfm::Attribute| match attribute.kind {
                AttributeKind::UnitMask | AttributeKind::Switch => format!(":{}", attribute.name),
                AttributeKind::Number => format!(":{}=N", attribute.name),
            };
            found.attributes.iter().map(text).collect()
        })
        .unwrap_or_default()
}

/// The events whose names are nearest to `event`. Events of the wanted PMUs come first. If none is similar, the
/// misspelling is looked up among all events. A mere part of a name is not enough there, because an event that this
/// machine lacks would be a bad suggestion. Events of absent and of uncore PMUs have the prefix that they need.
pub(super) fn nearest_events(library: &Library, first: impl Fn(&Pmu) -> bool, event: &str) -> Vec<String> {
    let base = event.split(':').next().unwrap_or(event);
    let names = |pmus: &mut dyn Iterator<Item = &Pmu>| {
        let mut names = vec![];
        for pmu in pmus {
            let bare = pmu.present && pmu.kind != PmuKind::Uncore;
            let prefix = if bare { String::new() } else { format!("{}::", pmu.name) };
            names.extend(
                library
                    .events(pmu)
                    .into_iter()
                    .map(|event| format!("{prefix}{}", event.name)),
            );
        }
        names
    };
    let firsts = names(&mut library.pmus().iter().filter(|pmu| first(pmu)));
    let found = nearest(base, firsts.iter().map(String::as_str));
    if found.is_empty() {
        let all = names(&mut library.pmus().iter());
        misspelt(base, all.iter().map(String::as_str))
    } else {
        found
    }
}

/// The first few of `names`, and the number of the others.
fn shortened(mut names: Vec<String>) -> Vec<String> {
    if names.len() > NAMED_PMUS {
        let more = names.len() - NAMED_PMUS;
        names.truncate(NAMED_PMUS);
        names.push(format!("{more} more"));
    }
    names
}

/// Parses `uprobe:SYMBOL`, a function of `executable`, or `uprobe:PATH:SYMBOL`. The first colon that is not part of a
/// `::` ends the path, so that `uprobe:solver::step` is a C++ or Rust function and a path cannot contain a colon.
pub fn parse_uprobe(text: &str, executable: &Path) -> Result<Request, CounterError> {
    let syntax = |why| CounterError::UprobeSyntax {
        text: text.to_owned(),
        why,
    };
    let rest = text
        .strip_prefix("uprobe:")
        .ok_or_else(|| syntax("it does not start with `uprobe:`"))?;
    let (binary, symbol) = match lone_colon(rest) {
        Some(position) => (Path::new(&rest[..position]), &rest[position + 1..]),
        None if rest.starts_with('/') => return Err(syntax("no function follows the path")),
        None => (executable, rest),
    };
    if binary.as_os_str().is_empty() {
        return Err(syntax("the path is empty"));
    }
    if symbol.is_empty() {
        return Err(syntax("the function's name is empty"));
    }
    if lone_colon(symbol).is_some() {
        return Err(syntax("it has more parts than a path and a function"));
    }
    Ok(Request::Uprobe {
        symbol: symbol.to_owned(),
        binary: binary.to_owned(),
    })
}

/// The position of the first single colon.
fn lone_colon(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    (0..bytes.len()).find(|&position| {
        let colon_at = |other: Option<usize>| other.and_then(|it| bytes.get(it)) == Some(&b':');
        bytes[position] == b':' && !colon_at(position.checked_sub(1)) && !colon_at(Some(position + 1))
    })
}
