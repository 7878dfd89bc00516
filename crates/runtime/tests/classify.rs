//! The policy `classify`, on scripted machines.

mod common;
#[path = "../../core/tests/support/synthetic.rs"]
mod synthetic;

use common::Log;
use pinfold_core::{ChoiceCode, EndedCode, Finding, ForecastCode, Pinning};
use pinfold_policy::classify::{Classify, ClassifyOptions, MachinePeaks};
use pinfold_policy::{MetricRequest, Skip, Times};
use pinfold_runtime::Record;
use pinfold_sim::Scripted;
use synthetic::synthetic;

const COMPACT: &str = "0-7";
const UNPINNED: &str = "unpinned";
const SCATTER: &str = "0,4,1,5,2,6,3,7";

/// Two packages, each a node of four cores.
const TWO_NODES: &str = "package:2 numa:1 core:4 pu:1";

/// Eight threads, with this rate when they are scattered and 100 elsewhere.
fn program(scattered: f64, duration: f64) -> String {
    program_with(scattered, 100.0, duration)
}

/// Eight threads, with this rate when they are scattered, this one when they are unpinned, and 100 elsewhere.
fn program_with(scattered: f64, unpinned: f64, duration: f64) -> String {
    format!(
        r#"
        topology = "synthetic:package:2 numa:1 core:4 pu:1"
        threads = 8
        duration = {duration:?}
        [[phase]]
        start = 0.0
        rate = 100.0
        unpinned = {unpinned:?}
        [[phase.pinning]]
        pus = "{SCATTER}"
        rate = {scattered:?}
        [[metric]]
        name = "regions"
        unit = "region"
        source = "regions"
        scope = "program"
        per_step = 1.0
        "#
    )
}

/// A model by which scatter takes this multiple of the default's time, with these further keys. A difference of more
/// than a tenth matters.
fn model(feature: &str, scatter: f64, limit: Option<f64>) -> String {
    let limit = limit.map_or_else(|| "null".to_owned(), |limit| format!("{limit:?}"));
    let log = scatter.ln();
    let matters = f64::from(u8::from((scatter - 1.0).abs() > 0.1));
    format!(
        r#"{{
            "placement_model": 2,
            "trained": {{"simulated": true, "machines": [], "programs": [], "rows": 3, "learner": "by hand"}},
            "features": [
                {{"name": "scatter", "least": 0.0, "greatest": 1.0}},
                {{"name": "{feature}", "least": 2.0, "greatest": 2.0}}
            ],
            "strategies": [
                {{"threads": "compact", "pages": "interleave"}},
                {{"threads": "scatter", "pages": "first_touch"}},
                {{"threads": "scatter", "pages": "interleave"}}
            ],
            "times": {{"base": 0.0, "factor": 1.0, "trees": [
                [[0, 0.5, 1, 2], [0.05], [1, 9.0, 3, 3], [{log:?}]]
            ]}},
            "errors": {{"base": 0.01, "factor": 1.0, "trees": []}},
            "least_error": 0.001, "width": 2.0, "limit": {limit}, "close": 0.02,
            "sensitivity": {{"base": {matters:?}, "factor": 1.0, "trees": []}},
            "deviations": [[1.0, 0.0, 0.0, 0.0]]
        }}"#
    )
}

fn run(script: &str, model: Option<&str>) -> (Log, Record) {
    let mut policy = Classify::new(ClassifyOptions {
        times: Times::default(),
        metric: MetricRequest::Auto,
        skip: Skip::default(),
        threads: None,
        model: model.map(|text| text.parse().unwrap()),
        peaks: MachinePeaks::default(),
        events: None,
    });
    common::run_on(
        Scripted::new(script.parse().unwrap(), synthetic(TWO_NODES)).unwrap(),
        &mut policy,
    )
}

/// The pinnings that were applied, in their order, without repetitions.
fn pinnings(log: &Log) -> Vec<String> {
    let mut pinnings: Vec<String> = log
        .applied
        .iter()
        .map(|(_, configuration, _)| Pinning::text(configuration.pinning.as_ref()))
        .collect();
    pinnings.dedup();
    pinnings
}

fn choices(log: &Log) -> Vec<ChoiceCode> {
    let code = |(_, finding): &(f64, Finding)| match finding {
        Finding::Chosen { code, .. } => Some(*code),
        _ => None,
    };
    log.findings.iter().filter_map(code).collect()
}

fn forecast(record: &Record) -> ForecastCode {
    record.by_policy.forecast.as_ref().unwrap().code
}

#[test]
fn a_strategy_of_which_the_model_is_sure_is_verified_and_stays_if_it_helps() {
    let (log, record) = run(&program(150.0, 300.0), Some(&model("nodes", 0.7, Some(1.0))));
    assert_eq!(forecast(&record), ForecastCode::Strategy);
    assert_eq!(pinnings(&log), [UNPINNED, COMPACT, SCATTER]);
    assert_eq!(choices(&log), [ChoiceCode::StrategyKept]);
    let chosen = record.search.chosen.unwrap();
    assert!((chosen.gain_over_first.unwrap() - 0.5).abs() < 0.01, "{chosen:?}");
}

#[test]
fn a_strategy_that_is_faster_than_the_default_and_not_than_the_unpinned_program_does_not_stay() {
    let script = program_with(150.0, 160.0, 300.0);
    let (log, _) = run(&script, Some(&model("nodes", 0.7, Some(1.0))));
    assert_eq!(pinnings(&log), [UNPINNED, COMPACT, SCATTER, UNPINNED]);
    assert_eq!(choices(&log), [ChoiceCode::StrategyRolledBack]);
}

#[test]
fn the_default_stays_where_it_is_faster_than_the_unpinned_program() {
    let script = program_with(100.0, 80.0, 300.0);
    let (log, record) = run(&script, Some(&model("nodes", 1.0, Some(1.0))));
    assert_eq!(forecast(&record), ForecastCode::Insensitive);
    assert_eq!(pinnings(&log), [UNPINNED, COMPACT]);
    assert_eq!(choices(&log), [ChoiceCode::DefaultStrategy]);
    let chosen = record.search.chosen.unwrap();
    assert!((chosen.gain_over_first.unwrap() - 0.25).abs() < 0.01, "{chosen:?}");
}

#[test]
fn a_program_goes_back_if_the_strategy_does_not_help() {
    let (log, _) = run(&program(80.0, 300.0), Some(&model("nodes", 0.7, Some(1.0))));
    assert_eq!(pinnings(&log), [UNPINNED, COMPACT, SCATTER, UNPINNED]);
    assert_eq!(choices(&log), [ChoiceCode::StrategyRolledBack]);
    // It has lost long before the end of its probe.
    let probed =
        |(at, finding): &(f64, Finding)| matches!(finding, Finding::Probed { dropped: true, .. }).then_some(*at);
    let lost: Vec<f64> = log.findings.iter().filter_map(probed).collect();
    assert!(lost.len() == 1 && lost[0] < 120.0, "{lost:?}");
}

#[test]
fn an_insensitive_program_is_left_alone() {
    let (log, record) = run(&program(150.0, 300.0), Some(&model("nodes", 1.0, Some(1.0))));
    assert_eq!(forecast(&record), ForecastCode::Insensitive);
    assert_eq!(pinnings(&log), [UNPINNED, COMPACT, UNPINNED]);
    assert_eq!(choices(&log), [ChoiceCode::NoPinningBetter]);
}

#[test]
fn an_unsure_model_lets_the_likeliest_strategies_race() {
    let (log, record) = run(&program(150.0, 500.0), Some(&model("nodes", 0.95, None)));
    assert_eq!(forecast(&record), ForecastCode::Unsure);
    // Both mappings of pages have the rate of scatter here, and compact with interleave cannot be the fastest.
    assert_eq!(pinnings(&log), [UNPINNED, COMPACT, SCATTER]);
    assert_eq!(record.search.candidates.len(), 4);
    assert_eq!(choices(&log), [ChoiceCode::StrategyKept]);
}

#[test]
fn a_model_that_lacks_a_figure_says_which_and_moves_nothing() {
    let (log, record) = run(&program(150.0, 300.0), Some(&model("ipc", 0.7, Some(1.0))));
    let forecast = record.by_policy.forecast.unwrap();
    assert_eq!(forecast.code, ForecastCode::NotKnown);
    assert!(forecast.why.contains("ipc is not known"), "{}", forecast.why);
    assert!(forecast.strategies.is_empty());
    assert_eq!(pinnings(&log), [UNPINNED, COMPACT, UNPINNED]);
}

#[test]
fn a_machine_unlike_those_of_the_model_is_not_guessed_about() {
    let (log, record) = run(&program(150.0, 300.0), Some(&model("cores_per_node", 0.7, Some(1.0))));
    assert_eq!(forecast(&record), ForecastCode::OtherMachine);
    assert_eq!(pinnings(&log), [UNPINNED, COMPACT, UNPINNED]);
}

#[test]
fn without_a_model_a_program_is_only_observed() {
    let (log, record) = run(&program(150.0, 300.0), None);
    let forecast = record.by_policy.forecast.unwrap();
    assert_eq!(forecast.code, ForecastCode::NoModel);
    let nodes = forecast.observed.iter().find(|one| one.name == "nodes").unwrap();
    assert_eq!(nodes.value, Some(2.0));
    assert!(
        forecast
            .observed
            .iter()
            .any(|one| one.name == "ipc" && one.value.is_none())
    );
    assert_eq!(pinnings(&log), [UNPINNED, COMPACT, UNPINNED]);
}

#[test]
fn of_a_program_that_ends_before_it_was_observed_that_is_reported() {
    for duration in [30.0, 70.0] {
        let (_, record) = run(&program(150.0, duration), Some(&model("nodes", 0.7, Some(1.0))));
        assert_eq!(record.program.ended_early.unwrap().code, EndedCode::DuringSample);
    }
}
