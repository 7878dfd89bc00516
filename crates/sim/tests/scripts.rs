//! The behaviour of a scripted machine with valid and invalid scripts.

use pinfold_core::{
    Configuration, Machine, MachineKind, ObjectKind, Pinning, PuId, PuSet, Sample, Topology, TopologyBuilder, Wait,
};
use pinfold_sim::{Script, Scripted};
use std::time::Duration;

/// Two packages of two PUs.
fn topology() -> Topology {
    let mut builder = TopologyBuilder::new("small");
    let root = builder.root();
    for package in 0..2 {
        let object = builder.object(root, ObjectKind::Package, Some(package));
        builder.pu(object, PuId(2 * package));
        builder.pu(object, PuId(2 * package + 1));
    }
    builder.build_all().unwrap()
}

fn machine(rest: &str) -> Scripted {
    let script = format!("topology = \"synthetic:package:2 pu:2\"\n{rest}");
    Scripted::new(script.parse().unwrap(), topology()).unwrap()
}

fn pinned(list: &str) -> Configuration {
    Configuration {
        pinning: Pinning::new(PuSet::parse_ordered(list).unwrap()),
        ..Configuration::default()
    }
}

fn wait(machine: &mut Scripted, seconds: f64) -> Wait {
    machine.wait(Duration::from_secs_f64(seconds)).unwrap()
}

/// The counts of the first metric, by task.
fn counts(sample: &Sample) -> Vec<Option<u64>> {
    sample
        .tasks
        .iter()
        .map(|task| task.counts[0].map(|count| count.value))
        .collect()
}

const PLAIN: &str = "threads = 2\nduration = 100.0\n[[phase]]\nstart = 0.0\nrate = 100.0\n";

#[test]
fn threads_count_their_steps_at_the_rate_of_the_script() {
    let mut machine = machine(PLAIN);
    assert_eq!(machine.kind(), MachineKind::Simulated);
    wait(&mut machine, 2.5);
    assert_eq!(machine.now(), Duration::from_millis(2500));
    assert_eq!(counts(&machine.observe()), [Some(250), Some(250)]);
}

#[test]
fn threads_on_one_pu_share_it() {
    let mut machine = machine(PLAIN);
    machine.apply(&pinned("3"));
    wait(&mut machine, 2.0);
    let sample = machine.observe();
    assert_eq!(counts(&sample), [Some(100), Some(100)]);
    assert_eq!(sample.tasks[0].cpu_time, Some(Duration::from_secs(1)));
}

#[test]
fn neighbours_in_a_cache_domain_change_the_rate_by_the_given_factor() {
    let mut machine = machine(&format!("{PLAIN}llc_sharing = 0.5\n"));
    machine.apply(&pinned("0,1"));
    wait(&mut machine, 2.0);
    assert_eq!(counts(&machine.observe()), [Some(100), Some(100)]);
    machine.apply(&pinned("0,2"));
    wait(&mut machine, 2.0);
    assert_eq!(counts(&machine.observe()), [Some(300), Some(300)]);
}

#[test]
fn the_rate_recovers_exponentially_after_threads_were_moved() {
    let mut machine = machine(&format!("warm_up = 2.0\n{PLAIN}"));
    machine.apply(&pinned("0,1"));
    wait(&mut machine, 10.0);
    // The integral of 100 (1 - exp(-t / 2)) over 10 s: 100 (10 - 2 (1 - exp(-5))) = 801.3.
    assert_eq!(counts(&machine.observe()), [Some(801), Some(801)]);
}

#[test]
fn apply_says_which_tasks_moved_and_which_were_refused() {
    let mut machine = machine(&format!("refused = \"3\"\n{PLAIN}"));
    assert_eq!(machine.apply(&pinned("0,1")).moved.len(), 2);
    assert!(machine.apply(&pinned("0,1")).moved.is_empty());
    let applied = machine.apply(&pinned("2,3"));
    assert_eq!(applied.moved[0].serial, 0);
    assert_eq!(applied.refused[0].task.unwrap().serial, 1);
    let sample = machine.observe();
    assert_eq!(sample.tasks[1].last_pu, Some(PuId(1)));
}

#[test]
fn an_unpinned_task_has_no_rank_and_a_later_task_takes_the_lowest_free_one() {
    let mut machine = machine(&format!("{PLAIN}[[thread]]\nbegins = 1.0\n"));
    let first = machine.observe().tasks[0].id;
    let mut configuration = pinned("0,1,2");
    configuration.left_alone.insert(first);
    machine.apply(&configuration);
    wait(&mut machine, 2.0);
    let pus: Vec<Option<PuId>> = machine.observe().tasks.iter().map(|task| task.last_pu).collect();
    assert_eq!(pus, [None, Some(PuId(0)), Some(PuId(1))]);
}

#[test]
fn an_ended_task_is_in_one_more_sample() {
    let mut machine = machine(&format!("{PLAIN}[[thread]]\nends = 1.0\n"));
    wait(&mut machine, 2.0);
    let sample = machine.observe();
    assert_eq!(sample.tasks.len(), 3);
    assert!(!sample.tasks[2].alive);
    assert_eq!(counts(&sample)[2], Some(100));
    wait(&mut machine, 1.0);
    assert_eq!(machine.observe().tasks.len(), 2);
}

#[test]
fn the_program_ends_after_its_time_or_its_work_with_its_exit_status() {
    let mut by_time = machine(&format!("exit_status = 3\n{PLAIN}"));
    assert_eq!(wait(&mut by_time, 99.0), Wait::Elapsed);
    assert_eq!(wait(&mut by_time, 99.0), Wait::Ended(3));
    assert_eq!(by_time.now(), Duration::from_secs(100));
    let mut by_work = machine(&PLAIN.replace("duration = 100.0", "work = 1500.0"));
    assert_eq!(wait(&mut by_work, 99.0), Wait::Ended(0));
    assert!((by_work.now().as_secs_f64() - 7.5).abs() < 1e-6, "{:?}", by_work.now());
    assert!((by_work.work_done() - 1500.0).abs() < 1e-6);
}

#[test]
fn an_unreadable_metric_is_missing_and_not_zero() {
    let metric = "[[metric]]\nname = \"m\"\nunit = \"u\"\nsource = \"event\"\nscope = \"task\"\n";
    let mut machine = machine(&format!("{PLAIN}{metric}missing = [[1.0, 2.0]]\n"));
    wait(&mut machine, 1.5);
    assert_eq!(counts(&machine.observe()), [None, None]);
    wait(&mut machine, 0.5);
    assert_eq!(counts(&machine.observe()), [Some(200), Some(200)]);
}

#[test]
fn an_invalid_script_is_refused_with_the_position_and_the_correction() {
    let phase = "[[phase]]\nstart = 0.0\nrate = 1.0\n";
    for (text, named, remedy) in [
        (
            format!("threads = 2\nduration = 1.0\nnoize = 1.0\n{phase}"),
            "noize",
            "`noise`",
        ),
        (
            format!("threads = 2\nduration = 1.0\nnoise = -0.1\n{phase}"),
            "line 4: -0.1",
            "from 0 to",
        ),
        (
            format!("threads = 2\nduration = -1.0\n{phase}"),
            "line 3: -1",
            "seconds from 0 to",
        ),
        (
            format!("threads = 2\nduration = 1.0\ncold = 1.5\n{phase}"),
            "line 4: 1.5",
            "from 0 to 1",
        ),
        (format!("threads = 0\nduration = 1.0\n{phase}"), "line 2: ", "nonzero"),
        (
            format!("threads = 2\nduration = 1.0\n{phase}[[phase.pinning]]\npus = \"\"\nrate = 1.0\n"),
            "line 8: ",
            "such as 0,2",
        ),
        (format!("threads = 2\n{phase}"), "`duration`", "give one of them"),
        (
            "threads = 2\nduration = 1.0\nphase = []\n".to_owned(),
            "[[phase]]",
            "start = 0.0",
        ),
        (
            format!("threads = 2\nduration = 1.0\n{phase}{phase}"),
            "number 2",
            "to a later time",
        ),
        (
            format!("threads = 2\nduration = 1.0\n{phase}[[thread]]\nbegins = 2.0\nends = 1.0\n"),
            "[[thread]] number 1",
            "ends before",
        ),
        (
            format!("threads = 2\nduration = 1.0\nhelpers = [2]\n{phase}"),
            "task 2",
            "0 to 1",
        ),
        (
            format!("threads = 4294967295\nduration = 1.0\n{phase}"),
            "4294967295 tasks",
            "the limit is 4096",
        ),
        (
            format!("threads = 2\nduration = 1e18\n{phase}"),
            "line 3: 1000000000000000000 ",
            "seconds from 0 to 1000000000",
        ),
        (
            format!("threads = 2\nduration = 1.0\nwork = 1e300\n{phase}"),
            "line 4: 1000000",
            "from 0 to 1e15",
        ),
    ] {
        let text = format!("topology = \"synthetic:pu:4\"\n{text}");
        let error = text.parse::<Script>().unwrap_err().to_string();
        assert!(error.contains(named) && error.contains(remedy), "{error}");
    }
}

#[test]
fn an_error_in_a_value_names_its_line() {
    let text = "topology = \"synthetic:pu:4\"\nthreads = 2\nduration = 1.0\nnoise = -0.1\n[[phase]]\nstart = 0.0\nrate = 1.0\n";
    let error = text.parse::<Script>().unwrap_err().to_string();
    assert!(error.contains("line 4"), "{error}");
}

#[test]
fn an_error_for_a_missing_pu_names_the_pus_of_the_machine() {
    let text = "topology = \"synthetic:package:2 pu:2\"\nthreads = 2\nduration = 1.0\n[[phase]]\nstart = 0.0\nrate = 1.0\n\
                [[phase.pinning]]\npus = \"0,4\"\nrate = 1.0\n";
    let error = Scripted::new(text.parse().unwrap(), topology()).unwrap_err();
    assert_eq!(error.to_string(), "the script names PU 4, but its machine has 0-3");
}
