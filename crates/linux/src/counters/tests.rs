//! The counters on this kernel. A test that lacks a permission, a compiler or a counter reports that it was skipped.

use super::error::{Refused, explain};
use super::event::resolve;
use super::*;
use nix::errno::Errno;
use proptest::prelude::*;
use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread;
use tempfile::TempDir;

/// Waits for a byte, calls `relax_grid` and touches pages as often as its arguments say, answers with the byte, and
/// waits for another before it ends.
const PROGRAM: &str = r"
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
static volatile long sink;
__attribute__((noinline)) void relax_grid(long step) { sink += step; }
int main(int argc, char **argv) {
    long calls = atol(argv[1]), pages = atol(argv[2]), size = sysconf(_SC_PAGESIZE);
    char byte, *memory = mmap(0, (pages + 1) * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, (pages + 1) * size, MADV_NOHUGEPAGE);
    if (read(0, &byte, 1) != 1) return 1;
    for (long call = 0; call < calls; call++) relax_grid(call);
    for (long page = 0; page < pages; page++) memory[page * size] = 1;
    return write(1, &byte, 1) == 1 && read(0, &byte, 1) == 1 ? 0 : 1;
}
";

/// A C program, compiled with `flags` into a directory that lives as long as the result.
fn compiled(flags: &[&str]) -> Option<(TempDir, PathBuf)> {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("program.c");
    let binary = directory.path().join("program");
    fs::write(&source, PROGRAM).unwrap();
    let status = Command::new("cc")
        .arg("-O1")
        .args(flags)
        .arg("-o")
        .arg(&binary)
        .arg(&source)
        .status();
    if status.is_ok_and(|status| status.success()) {
        return Some((directory, binary));
    }
    pinfold_testing::skip(format_args!("`cc {}` does not work here", flags.join(" ")));
    None
}

/// The running program, before its work.
fn start(binary: &Path, calls: u32, pages: u32) -> Child {
    Command::new(binary)
        .args([calls.to_string(), pages.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Lets the program do its work, and returns when it is done.
fn let_it_work(child: &mut Child) {
    child.stdin.as_mut().unwrap().write_all(b"g").unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
}

fn kernel_id(child: &Child) -> i32 {
    child.id().try_into().unwrap()
}

fn event(name: &str) -> Request {
    Request::Event(name.to_owned())
}

/// The plan. `None`, with a message, if the kernel does not permit it.
fn permitted(requests: &[Request]) -> Option<Plan> {
    match Plan::new(requests) {
        Err(error @ (CounterError::Forbidden { .. } | CounterError::NoUprobes { .. })) => {
            pinfold_testing::skip(&error);
            None
        }
        plan => Some(plan.unwrap()),
    }
}

fn refusal(requests: &[Request]) -> CounterError {
    Plan::new(requests).err().expect("the plan must be refused")
}

#[inline(never)]
fn probed_by_its_rust_name(turn: u64) {
    hint::black_box(turn);
}

#[inline(never)]
fn probed_as_well(turn: u64) {
    hint::black_box(turn + 1);
}

#[inline(never)]
fn probed_on_another_thread(turn: u64) {
    hint::black_box(turn + 2);
}

fn own_function(name: &str) -> Request {
    Request::Uprobe {
        symbol: format!("pinfold_linux::counters::tests::{name}"),
        binary: std::env::current_exe().unwrap(),
    }
}

#[test]
fn page_faults_of_another_task_are_those_of_the_pages_it_touches() {
    let Some((_directory, binary)) = compiled(&[]) else {
        return;
    };
    let Some(plan) = permitted(&[event("page-faults")]) else {
        return;
    };
    let mut child = start(&binary, 0, 1000);
    let mut counters = plan.open(kernel_id(&child)).unwrap();
    let_it_work(&mut child);
    let faults = counters.read()[0].unwrap().value;
    // The program may still be starting when its counter is opened, which adds some hundred faults at most.
    assert!((1000..2000).contains(&faults), "{faults}");
}

#[test]
fn the_task_clock_of_the_calling_thread_grows_and_is_never_scaled() {
    let Some(plan) = permitted(&[event("task-clock")]) else {
        return;
    };
    assert_eq!(plan.metrics()[0].unit, "nanosecond");
    let mut counters = plan.open(0).unwrap();
    let before = counters.read()[0].unwrap();
    for turn in 0..100_000 {
        hint::black_box(turn);
    }
    let after = counters.read()[0].unwrap();
    assert!(after.value > before.value, "{before:?} {after:?}");
    assert!(!after.multiplexed());
}

#[test]
fn a_uprobe_counts_every_call_in_every_kind_of_binary() {
    for flags in [
        &["-fPIE", "-pie"][..],
        &["-no-pie"],
        &["-static"],
        &["-static-pie", "-fPIE"],
    ] {
        let Some((_directory, binary)) = compiled(flags) else {
            continue;
        };
        let request = parse_uprobe("uprobe:relax_grid", &binary).unwrap();
        let Some(plan) = permitted(&[request]) else { return };
        let mut child = start(&binary, 1234, 0);
        let mut counters = plan.open(kernel_id(&child)).unwrap();
        let_it_work(&mut child);
        assert_eq!(counters.read()[0].unwrap().value, 1234, "{flags:?}");
    }
}

#[test]
fn a_task_that_has_ended_keeps_its_counts() {
    let Some((_directory, binary)) = compiled(&[]) else {
        return;
    };
    let request = parse_uprobe("uprobe:relax_grid", &binary).unwrap();
    let Some(plan) = permitted(&[request, event("page-faults")]) else {
        return;
    };
    let mut child = start(&binary, 5, 10);
    let mut counters = plan.open(kernel_id(&child)).unwrap();
    let_it_work(&mut child);
    child.stdin.as_mut().unwrap().write_all(b"e").unwrap();
    assert!(child.wait().unwrap().success());
    let counts = counters.read();
    assert_eq!(counts[0].unwrap().value, 5);
    assert!(counts[1].unwrap().value >= 10);
}

#[test]
fn counts_come_in_the_order_of_the_requests() {
    let requests = [
        own_function("probed_by_its_rust_name"),
        event("task-clock"),
        own_function("probed_as_well"),
    ];
    let Some(plan) = permitted(&requests) else { return };
    let names: Vec<String> = plan.metrics().iter().map(ToString::to_string).collect();
    assert_eq!(names, requests.each_ref().map(Request::metric_name));
    let mut counters = plan.open(0).unwrap();
    (0..3).for_each(probed_by_its_rust_name);
    (0..5).for_each(probed_as_well);
    let values: Vec<u64> = counters.read().into_iter().map(|count| count.unwrap().value).collect();
    assert_eq!((values[0], values[2]), (3, 5));
    assert!(values[1] > 5, "{values:?}");
}

#[test]
fn software_events_and_uprobes_share_one_group() {
    let requests = ["task-clock", "page-faults", "minor-faults", "major-faults"].map(event);
    let Some(plan) = permitted(&requests) else { return };
    assert_eq!(plan.groups, [[0, 1, 2, 3]]);
}

#[test]
fn a_thread_that_the_task_creates_is_not_counted_with_it() {
    let Some(plan) = permitted(&[own_function("probed_on_another_thread")]) else {
        return;
    };
    let mut counters = plan.open(0).unwrap();
    thread::spawn(|| (0..9).for_each(probed_on_another_thread))
        .join()
        .unwrap();
    probed_on_another_thread(9);
    assert_eq!(counters.read()[0].unwrap().value, 1);
}

#[test]
fn a_plan_without_requests_reads_nothing() {
    let plan = Plan::new(&[]).unwrap();
    assert!(plan.open(0).unwrap().read().is_empty());
}

#[test]
fn a_thread_that_has_ended_is_named() {
    let Some(plan) = permitted(&[event("page-faults")]) else {
        return;
    };
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let error = plan.open(kernel_id(&child)).err().unwrap();
    assert!(
        matches!(error, CounterError::Ended { thread } if thread == kernel_id(&child)),
        "{error}"
    );
}

#[test]
fn hardware_events_count_or_the_error_says_what_else_there_is() {
    match hardware_counters() {
        Availability::Available => {
            let plan = Plan::new(&[event("instructions"), event("cycles")]).unwrap();
            assert_eq!(plan.metrics()[0].unit, "instruction");
            assert!(plan.open(0).unwrap().read()[0].unwrap().value > 0);
        }
        Availability::Absent { why } => {
            let error = refusal(&[event("instructions")]);
            assert!(matches!(error, CounterError::NoCounter { .. }), "{error}");
            assert!(why.contains("heartbeat") && why.contains("uprobe:SYMBOL"), "{why}");
        }
        Availability::Forbidden { why } => assert!(why.contains("CAP_PERFMON"), "{why}"),
    }
}

#[test]
fn a_misspelt_event_is_answered_with_the_nearest() {
    let message = refusal(&[event("page-fautls")]).to_string();
    assert!(
        message.contains("`page-fautls`") && message.contains("PAGE-FAULTS"),
        "{message}"
    );
}

#[test]
fn a_misspelt_pmu_is_answered_with_the_nearest() {
    let error = refusal(&[event("ivbep::MEM_LOAD_UOPS_LLC_MISS_RETIRED:REMOTE_DRAM")]);
    assert!(
        matches!(&error, CounterError::UnknownPmu { nearest, .. } if nearest[0] == "ivb_ep"),
        "{error}"
    );
}

#[test]
fn an_unknown_unit_mask_is_answered_with_those_there_are() {
    let error = refusal(&[event("PERF_COUNT_HW_CACHE_L1D:NOWHERE")]);
    assert!(
        matches!(&error, CounterError::UnknownAttribute { choices, .. } if choices.contains(&":READ".to_owned())),
        "{error}"
    );
}

#[test]
fn an_event_of_another_processor_differs_from_an_unknown_one() {
    let library = pfm::library().unwrap();
    let (pmu, name) = [
        ("ivb_ep", "ivb_ep::MEM_LOAD_UOPS_LLC_MISS_RETIRED:REMOTE_DRAM"),
        ("amd64_k8_revb", "amd64_k8_revb::RETIRED_INSTRUCTIONS"),
    ]
    .into_iter()
    .find(|(name, _)| library.pmus().iter().any(|pmu| pmu.name == *name && !pmu.present))
    .unwrap();
    let error = refusal(&[event(name)]);
    assert!(
        matches!(&error, CounterError::OtherProcessor { known_for, .. } if known_for[0].contains(pmu)),
        "{error}"
    );
}

#[test]
fn instructions_are_encoded_as_libpfm4_encodes_them() {
    let resolved = resolve(Path::new("/"), &event("instructions")).unwrap();
    let by_library = resolve(Path::new("/"), &event("perf::INSTRUCTIONS")).unwrap();
    let encoded = |source: &Source| {
        let it = &source.attributes;
        let excluded = [
            it.exclude_user(),
            it.exclude_kernel(),
            it.exclude_hv(),
            it.exclude_idle(),
        ];
        let virtual_machines = [it.exclude_host(), it.exclude_guest()];
        (it.type_, it.config, it.size, excluded, virtual_machines)
    };
    assert_eq!(encoded(&resolved), encoded(&by_library));
    assert_eq!(resolved.metric.unit, by_library.metric.unit);
    assert!(resolved.user_only.is_none() && by_library.user_only.is_none());
}

#[test]
fn an_event_of_a_whole_package_is_refused() {
    let library = pfm::library().unwrap();
    let uncore = |pmu: &&Pmu| pmu.present && pmu.kind == pfm::PmuKind::Uncore;
    let Some(pmu) = library.pmus().iter().find(uncore) else {
        pinfold_testing::skip("libpfm4 knows no uncore counters of this machine");
        return;
    };
    let name = format!("{}::{}", pmu.name, library.events(pmu)[0].name);
    let error = refusal(&[event(&name)]);
    assert!(matches!(error, CounterError::NotPerTask { .. }), "{error}");
}

#[test]
fn a_misspelt_function_is_answered_with_the_nearest() {
    let Some((_directory, binary)) = compiled(&[]) else {
        return;
    };
    let message = refusal(&[parse_uprobe("uprobe:relax_gird", &binary).unwrap()]).to_string();
    assert!(message.contains("did you mean relax_grid"), "{message}");
}

/// The error for a refused page-fault counter on a system whose `perf_event_paranoid` is `level`.
fn refused_at(level: &str, name: &str, error: Errno) -> String {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("proc/sys/kernel");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("perf_event_paranoid"), format!("{level}\n")).unwrap();
    let source = event::resolve(root.path(), &event(name)).unwrap();
    let refused = Refused {
        source: &source,
        thread: 0,
        error,
    };
    explain(root.path(), refused).to_string()
}

#[test]
fn a_forbidden_event_names_the_level_there_is_and_the_one_that_is_needed() {
    let message = refused_at("3", "page-faults:u", Errno::EACCES);
    assert!(message.contains("is 3 and must be 2 or lower"), "{message}");
    assert!(message.contains("CAP_PERFMON"), "{message}");
    let message = refused_at("2", "page-faults:k", Errno::EACCES);
    assert!(message.contains("is 2 and must be 1 or lower"), "{message}");
}

#[test]
fn a_forbidden_event_at_a_permissive_level_points_at_containers() {
    let message = refused_at("-1", "page-faults:u", Errno::EPERM);
    assert!(
        message.contains("is -1, which suffices") && message.contains("seccomp"),
        "{message}"
    );
}

#[test]
fn a_missing_descriptor_names_the_limit() {
    let message = refused_at("2", "page-faults", Errno::EMFILE);
    assert!(message.contains("ulimit -n"), "{message}");
}

#[test]
fn a_kernel_without_uprobes_is_named() {
    let Some((_directory, binary)) = compiled(&[]) else {
        return;
    };
    let root = tempfile::tempdir().unwrap();
    let error = Plan::with_root(root.path(), &[parse_uprobe("uprobe:main", &binary).unwrap()])
        .err()
        .unwrap();
    assert!(matches!(error, CounterError::NoUprobes { .. }), "{error}");
}

#[test]
fn a_probe_text_needs_its_parts() {
    for text in [
        "relax",
        "uprobe:",
        "uprobe:/bin/true",
        "uprobe:/bin/true:",
        "uprobe::f",
        "uprobe:a:b:c",
    ] {
        let parsed = parse_uprobe(text, Path::new("/bin/sh"));
        assert!(parsed.is_err(), "{text}: {parsed:?}");
    }
}

proptest! {
    #[test]
    fn a_probe_text_with_a_path_gives_its_two_parts(
        path in "[^:\0]{1,20}",
        symbol in "[A-Za-z_][A-Za-z0-9_<>() ]{0,10}(::[A-Za-z_~]{1,8}){0,3}",
    ) {
        let parsed = parse_uprobe(&format!("uprobe:{path}:{symbol}"), Path::new("/bin/sh")).unwrap();
        prop_assert_eq!(parsed, Request::Uprobe { symbol, binary: path.into() });
    }

    #[test]
    fn a_probe_text_without_a_path_is_about_the_executable(
        symbol in "[A-Za-z_][A-Za-z0-9_<>() ]{0,10}(::[A-Za-z_~]{1,8}){0,3}",
    ) {
        let parsed = parse_uprobe(&format!("uprobe:{symbol}"), Path::new("/bin/sh")).unwrap();
        prop_assert_eq!(parsed, Request::Uprobe { symbol, binary: "/bin/sh".into() });
    }

    #[test]
    fn no_probe_text_is_too_strange_for_an_answer(text in ".*") {
        let _ = parse_uprobe(&format!("uprobe:{text}"), Path::new("/bin/sh"));
    }
}
