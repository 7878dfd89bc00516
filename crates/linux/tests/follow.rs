//! Each thread and process of a program is followed from its first instruction, in whatever way it is created.

mod common;

use common::{Workshop, end, eventually, field, plain, run, send, status_field, threads, two_pus};
use pinfold_core::{Machine, PuId, TopologyBuilder, Wait};
use pinfold_linux::launch::{Launch, LaunchError};
use pinfold_linux::machine::LinuxMachine;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

#[test]
fn tasks_come_in_the_order_of_their_creation() {
    let workshop = Workshop::new();
    let out = workshop.file("out");
    let (status, sample) = run(plain([workshop.program("births"), out, "20".into()]));
    assert_eq!(status, 0);
    let mut created: Vec<i32> = workshop
        .lines("out")
        .iter()
        .map(|line| line[0].parse().unwrap())
        .collect();
    // The first thread writes a second line at the end.
    created.pop();
    assert_eq!(threads(&sample), created);
    let serials: Vec<u64> = sample.tasks.iter().map(|task| task.id.serial).collect();
    assert_eq!(serials, (0..21).collect::<Vec<u64>>());
}

#[test]
fn processes_are_followed_from_each_system_call_that_creates_them() {
    let workshop = Workshop::new();
    let (status, sample) = run(plain([workshop.program("begets"), workshop.file("out")]));
    assert_eq!(status, 0);
    let begun = workshop.lines("out");
    let statuses: Vec<[&str; 2]> = begun.iter().map(|line| [&*line[0], &*line[2]]).collect();
    assert_eq!(
        statuses,
        [["fork", "1"], ["vfork", "2"], ["posix_spawn", "3"], ["clone", "4"]]
    );
    let numbers: Vec<i32> = begun.iter().map(|line| line[1].parse().unwrap()).collect();
    assert_eq!(threads(&sample)[1..], numbers);
    assert!(sample.tasks.iter().all(|task| task.id.process == task.id.thread));
}

#[test]
fn a_chain_of_execs_is_one_task() {
    let (status, sample) = run(plain(["sh", "-c", "exec sh -c 'exec sh -c \"exit 4\"'"]));
    assert_eq!((status, sample.tasks.len()), (4, 1));
}

#[test]
fn an_exec_by_a_later_thread_adds_a_new_task() {
    let workshop = Workshop::new();
    let (status, sample) = run(plain([workshop.program("exec_from_thread"), workshop.file("out")]));
    assert_eq!(status, 7);
    let process = workshop.number("out");
    let [first, executing, after] = sample.tasks.as_slice() else {
        panic!("{:?}", sample.tasks);
    };
    assert_eq!((first.id.thread, after.id.thread), (process, process));
    assert_eq!((executing.id.process, after.id.serial), (process, 2));
}

#[test]
fn a_static_program_is_followed() {
    let workshop = Workshop::new();
    let Some(program) = workshop.compiled("cc", "births", &["-pthread", "-static"]) else {
        pinfold_testing::skip("no static C library is installed");
        return;
    };
    let (status, sample) = run(plain([program, workshop.file("out"), "3".into()]));
    assert_eq!((status, sample.tasks.len()), (0, 4));
}

#[test]
fn an_ended_task_is_shown_once() {
    let mut machine = LinuxMachine::launch(plain(["true"])).unwrap();
    end(&mut machine);
    let last = machine.observe();
    assert!(last.tasks.len() == 1 && !last.tasks[0].alive && last.tasks[0].cpu_time.is_some());
    assert!(machine.observe().tasks.is_empty());
}

#[test]
fn the_exit_status_is_the_programs() {
    assert_eq!(run(plain(["sh", "-c", "exit 3"])).0, 3);
}

#[test]
fn the_exit_status_of_a_killed_program_is_128_and_the_signal() {
    assert_eq!(run(plain(["sh", "-c", "kill -KILL $$"])).0, 128 + libc::SIGKILL);
}

fn refused(launch: Launch) -> LaunchError {
    match LinuxMachine::launch(launch) {
        Ok(_) => panic!("it was launched"),
        Err(error) => error,
    }
}

#[test]
fn a_command_that_is_not_there_is_not_found() {
    let error = refused(plain(["no-such-command"]));
    assert_eq!(error.exit_status(), 127);
    assert!(error.to_string().contains("no-such-command"));
    assert_eq!(refused(plain([""])).exit_status(), 127);
}

#[test]
fn a_file_that_is_no_program_cannot_be_executed() {
    let workshop = Workshop::new();
    fs::write(workshop.file("plain"), "text").unwrap();
    let error = refused(plain([workshop.file("plain")]));
    assert_eq!(error.exit_status(), 126);
    assert!(error.to_string().contains("Permission denied"), "{error}");
}

fn script(workshop: &Workshop, text: &str) -> std::path::PathBuf {
    let path = workshop.file("script");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_script_whose_interpreter_is_missing_says_so() {
    let workshop = Workshop::new();
    let error = refused(plain([script(&workshop, "#!/no/such/interpreter\n")]));
    assert_eq!(error.exit_status(), 126);
    assert!(error.to_string().contains("interpreter"), "{error}");
}

#[test]
fn a_script_without_a_first_line_is_run_by_the_shell() {
    let workshop = Workshop::new();
    assert_eq!(
        run(plain([script(&workshop, "exit $#\n"), "a".into(), "b".into()])).0,
        2
    );
}

#[test]
fn the_environment_is_ours_with_what_is_added_and_removed() {
    let mut launch = plain([
        "sh",
        "-c",
        "test \"$ADDED\" = here -a -n \"$PATH\" -a -z \"${CARGO_MANIFEST_DIR+x}\"",
    ]);
    launch.environment = vec![("ADDED".into(), "here".into())];
    launch.removed_environment = vec!["CARGO_MANIFEST_DIR".into()];
    assert_eq!(run(launch).0, 0);
}

#[test]
fn the_program_gets_the_signal_state_that_any_other_child_gets() {
    let workshop = Workshop::new();
    let copy = format!("cat /proc/self/status >{}", workshop.file("out").display());
    // The standard library gives its children no blocked signals, and SIGPIPE with its default action.
    let expected = Command::new("cat").arg("/proc/self/status").output().unwrap().stdout;
    let expected = String::from_utf8(expected).unwrap();
    assert_eq!(run(plain(["sh", "-c", &copy])).0, 0);
    let seen = fs::read_to_string(workshop.file("out")).unwrap();
    // Signals 32 and 33 belong to the C library. It does not report even their masks.
    let set = |text: &str, name| u64::from_str_radix(&field(text, name).unwrap(), 16).unwrap() & !(0b11 << 31);
    for name in ["SigBlk", "SigIgn", "SigCgt"] {
        assert_eq!(set(&seen, name), set(&expected, name), "{name}");
    }
}

#[test]
fn the_program_inherits_ignored_signals() {
    let command = format!(
        "trap '' HUP PIPE; exec {} --quiet -- sh -c 'kill -HUP $$; kill -PIPE $$; exit 3'",
        common::follower().display()
    );
    assert_eq!(
        Command::new("sh").args(["-c", &command]).status().unwrap().code(),
        Some(3)
    );
}

#[test]
fn the_program_gets_the_original_limit_of_open_files() {
    let command = format!(
        "ulimit -Sn 77; exec {} -- sh -c 'exit $(ulimit -Sn)'",
        common::follower().display()
    );
    let status = Command::new("sh").args(["-c", &command]).status().unwrap();
    assert_eq!(status.code(), Some(77));
}

#[test]
fn a_stopped_program_stays_stopped_until_it_is_continued() {
    let mut machine = LinuxMachine::launch(plain(["sh", "-c", "kill -STOP $$; exit 6"])).unwrap();
    let process = machine.observe().tasks[0].id.process;
    eventually("it is stopped", || {
        status_field(process, "State").is_some_and(|state| state.starts_with(['T', 't']))
    });
    assert_eq!(machine.wait(Duration::ZERO).unwrap(), Wait::Elapsed);
    // A signal that does not end the stop must not be mistaken for one that does.
    send(process, libc::SIGWINCH);
    assert_eq!(machine.wait(Duration::ZERO).unwrap(), Wait::Elapsed);
    send(process, libc::SIGCONT);
    assert_eq!(end(&mut machine), 6);
}

#[test]
fn a_program_that_is_no_longer_wanted_ends() {
    let workshop = Workshop::new();
    let launch = plain([workshop.program("linger"), workshop.file("out"), "2".into()]);
    let machine = LinuxMachine::launch(launch).unwrap();
    let process = workshop.number("out");
    assert!(common::lives(process));
    drop(machine);
    assert!(!common::lives(process));
}

#[test]
fn two_programs_can_be_followed_at_a_time() {
    let mut first = LinuxMachine::launch(plain(["sh", "-c", "true; exit 1"])).unwrap();
    let mut second = LinuxMachine::launch(plain(["sh", "-c", "true; exit 2"])).unwrap();
    assert_eq!((end(&mut second), end(&mut first)), (2, 1));
}

#[test]
fn a_task_has_its_own_counts() {
    use pinfold_linux::counters::{Plan, Request};
    let plan = match Plan::new(&[Request::Event("page-faults".to_owned())]) {
        Ok(plan) => plan,
        Err(error) => {
            pinfold_testing::skip(&error);
            return;
        }
    };
    let mut launch = plain(["sh", "-c", "true | true"]);
    launch.counted.plan = Some(plan);
    let (_, sample) = run(launch);
    assert_eq!(sample.tasks.len(), 3);
    for task in &sample.tasks {
        assert!(task.counts[0].is_some_and(|count| count.value > 0), "{task:?}");
    }
    assert_eq!(sample.program, [None]);
}

#[test]
fn counts_are_missing_until_the_program_reports() {
    use pinfold_linux::channel::Channel;
    let mut launch = plain(["true"]);
    launch.counted.channel = Some(Channel::create().unwrap());
    let mut machine = LinuxMachine::launch(launch).unwrap();
    assert_eq!(machine.metrics(), Channel::metrics());
    end(&mut machine);
    let counts = machine.observe().program;
    assert_eq!(counts, vec![None; Channel::metrics().len()]);
}

#[test]
fn a_program_runs_on_the_chosen_pus_of_the_topology_only() {
    let Some([_, second]) = two_pus() else { return };
    let workshop = Workshop::new();
    let mut launch = plain([workshop.program("births"), workshop.file("out"), "0".into()]);
    let chosen = [second].into_iter().collect();
    launch.topology = launch.topology.restricted_to(&chosen).unwrap();
    launch.chosen = Some(chosen);
    run(launch);
    assert_eq!(workshop.lines("out")[0][1..], [second.to_string()]);
}

#[test]
fn a_topology_without_a_pu_of_ours_is_refused() {
    let foreign = PuId(common::allowed().iter().next_back().unwrap().0 + 1);
    let mut builder = TopologyBuilder::new("elsewhere");
    let root = builder.root();
    builder.pu(root, foreign);
    let mut launch = plain(["true"]);
    launch.topology = builder.build_all().unwrap();
    let error = refused(launch).to_string();
    assert!(error.contains(&foreign.to_string()), "{error}");
}
