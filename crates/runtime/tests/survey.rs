//! A survey in the loop: on scripted machines, whose rates are known, and on simulated ones.

mod common;

use common::{pinning, run_on, run_policy, script, scripted, seconds};
use pinfold_core::{Finding, PageMapping};
use pinfold_policy::survey::{By, Configurations, Measured, Subject, Survey, SurveyConfiguration, SurveyOptions};
use pinfold_policy::{MetricRequest, Skip, Times};

fn options() -> SurveyOptions {
    SurveyOptions {
        times: Times::new(Some(seconds(5.0)), None, Some(seconds(1.0))),
        metric: MetricRequest::Auto,
        skip: Skip::default(),
        threads: None,
        by: By::Auto,
        interval: 0.02,
        rounds: (3, 12),
        limit: None,
        seed: 1,
    }
}

/// The unpinned program, and these pinnings.
fn pinned(pinnings: &[&str]) -> Configurations {
    let one = |list: &&str| SurveyConfiguration {
        pinning: Some(pinning(list)),
        ..SurveyConfiguration::default()
    };
    Configurations {
        list: [SurveyConfiguration::default()]
            .into_iter()
            .chain(pinnings.iter().map(one))
            .collect(),
        references: vec![0],
    }
}

/// Two threads. Their rates unpinned and in two pinnings.
fn two_threads(rest: &str, phases: &str) -> String {
    script(&format!("threads = 2\n{rest}\n{phases}"))
}

fn phase(start: f64, factor: f64) -> String {
    let (unpinned, near, far) = (100.0 * factor, 120.0 * factor, 80.0 * factor);
    format!(
        "[[phase]]\nstart = {start}\nrate = {unpinned}\n\
         [[phase.pinning]]\npus = \"0,1\"\nrate = {near}\n[[phase.pinning]]\npus = \"0,4\"\nrate = {far}\n"
    )
}

fn times(survey: &Survey) -> Vec<f64> {
    survey.measured().iter().map(|measured| measured.seconds).collect()
}

/// Whether times over the first one are these, to `error`.
fn assert_ratios(survey: &Survey, wanted: &[f64], error: f64) {
    let times = times(survey);
    assert_eq!(times.len(), wanted.len(), "{:?}", survey.measured());
    for (time, wanted) in times.iter().zip(wanted) {
        let ratio = time / times[0];
        assert!(
            (ratio / wanted - 1.0).abs() < error,
            "{ratio} and not {wanted}: {:?}",
            survey.measured()
        );
    }
}

#[test]
fn rates_of_a_script_are_measured_and_the_program_runs_on_unpinned() {
    let text = two_threads("duration = 60.0\nnoise = 0.01\nseed = 3", &phase(0.0, 1.0));
    let mut survey = Survey::new(options(), |_, _| Ok(pinned(&["0,1", "0,4"])));
    let (log, _) = run_on(scripted(&text), &mut survey);
    assert_ratios(&survey, &[1.0, 100.0 / 120.0, 100.0 / 80.0], 0.02);
    let ended = survey.ended().unwrap();
    assert!(ended.complete && ended.precise == 3, "{ended:?}");
    assert!(ended.lasted < 20.0, "{ended:?}");
    assert_eq!(survey.subjects(), [Subject::Program]);
    let (_, last, _) = log.applied.last().unwrap();
    assert!(!last.pins(), "{last:?}");
}

#[test]
fn a_program_whose_speed_drifts_is_measured_without_the_drift() {
    // Each second the program is 2 % slower than in the one before.
    let phases: String = (0..60)
        .map(|second| phase(f64::from(second), 0.98f64.powi(second)))
        .collect();
    let text = two_threads("duration = 60.0\nnoise = 0.005\nseed = 3", &phases);
    let mut survey = Survey::new(options(), |_, _| Ok(pinned(&["0,1", "0,4"])));
    run_on(scripted(&text), &mut survey);
    assert_ratios(&survey, &[1.0, 100.0 / 120.0, 100.0 / 80.0], 0.03);
    assert!(survey.ended().unwrap().drift > 0.05, "{:?}", survey.ended());
}

#[test]
fn a_program_that_ends_keeps_what_was_measured_and_says_what_is_missing() {
    let text = two_threads("duration = 2.2\nnoise = 0.01", &phase(0.0, 1.0));
    let mut survey = Survey::new(options(), |_, _| Ok(pinned(&["0,1", "0,4", "4,5", "0,5"])));
    let (log, _) = run_on(scripted(&text), &mut survey);
    let measured = survey.measured().len();
    assert!((1..5).contains(&measured), "{measured}");
    let ended = survey.ended().unwrap();
    assert_eq!((ended.complete, ended.measured), (false, measured));
    let own = |(_, finding): &(f64, Finding)| match finding {
        Finding::Own(own) if own.name == "survey_ended" => Some(own.text.clone()),
        _ => None,
    };
    let text: Vec<String> = log.findings.iter().filter_map(own).collect();
    assert!(
        text.len() == 1 && text[0].contains("at least") && text[0].contains("of 5 configurations"),
        "{text:?}"
    );
}

#[test]
fn a_time_limit_ends_the_sweep_and_not_the_program() {
    let limited = SurveyOptions {
        limit: Some(seconds(1.5)),
        ..options()
    };
    let text = two_threads("duration = 30.0\nnoise = 0.01", &phase(0.0, 1.0));
    let mut survey = Survey::new(limited, |_, _| Ok(pinned(&["0,1", "0,4", "4,5", "0,5"])));
    let (log, _) = run_on(scripted(&text), &mut survey);
    let ended = survey.ended().unwrap();
    assert!(!ended.complete && ended.why.contains("time limit"), "{ended:?}");
    assert_eq!(log.ended, Some((30.0, 0)));
}

#[test]
fn what_a_machine_refuses_is_left_out_with_the_reason() {
    let text = two_threads("duration = 60.0\nnoise = 0.01", &phase(0.0, 1.0));
    let mut survey = Survey::new(options(), |_, _| {
        let mut all = pinned(&["0,1"]);
        all.list.push(SurveyConfiguration {
            pages: Some(PageMapping::Interleave),
            ..all.list[1].clone()
        });
        all.list.push(SurveyConfiguration {
            threads: Some(1),
            ..all.list[1].clone()
        });
        Ok(all)
    });
    run_on(scripted(&text), &mut survey);
    let left_out = survey.left_out();
    assert!(
        left_out[&2].contains("interleave") && left_out[&3].contains("no parallel regions"),
        "{left_out:?}"
    );
    let measured: Vec<usize> = survey
        .measured()
        .iter()
        .map(|measured| measured.configuration)
        .collect();
    assert_eq!(measured, [0, 1]);
    assert!(survey.ended().unwrap().complete);
}

#[test]
fn configurations_that_cannot_be_made_are_said_and_the_program_runs_on() {
    let mut survey = Survey::new(options(), |_, threads| {
        Err(format!("{threads} threads have too many placements"))
    });
    let (log, _) = run_policy(
        "threads = 2\nduration = 5.0\n[[phase]]\nstart = 0.0\nrate = 100.0",
        &mut survey,
    );
    assert!(
        log.notes()
            .iter()
            .any(|note| note.contains("2 threads have too many placements")),
        "{:?}",
        log.notes()
    );
    assert!(log.applied.iter().all(|(_, configuration, _)| !configuration.pins()));
    assert_eq!(survey.measured(), [] as [Measured; 0]);
}
