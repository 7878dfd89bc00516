//! A policy that is this file and a line in `POLICIES`: the test that nothing else is needed for one (CONTRIBUTING.md).
//!
//! It is small but whole: it measures the program packed and distributed, pins it to the faster placement, verifies
//! that, and has a finding of its own.
//!
//! ```text
//!   initialise -> packed: settle, measure -> distributed: settle, measure -> the faster: settle, measure -> stay, or roll back
//! ```

use super::{Built, POLICIES, PolicyEntry, PolicyRequest, Prepared, flags};
use crate::run;
use anyhow::Result;
use clap::{Args, Command, FromArgMatches, Parser};
use pinfold_core::hint::AffinityHint;
use pinfold_core::placement::NamedPlacement;
use pinfold_core::{
    Applied, CandidatesCode, ChoiceCode, Configuration, Decision, Finding, Metric, MetricCode, NoteCode, Pinning,
    PolicyFinding, Sample, TaskSample, Topology,
};
use pinfold_policy::Policy;
use pinfold_runtime::RunDocument;
use serde::Serialize;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Each thread runs packed or distributed, whichever is faster.
pub(super) struct Toy;

#[derive(Args)]
#[group(skip)]
#[command(next_help_heading = "Options of --policy toy")]
struct Flags {
    /// Measure each placement for this number of seconds.
    #[arg(long, default_value = "1", value_name = "SECONDS")]
    toy_seconds: u64,
}

impl PolicyEntry for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn about(&self) -> &'static str {
        "keeps threads packed or distributed, whichever is faster"
    }

    fn explained(&self) -> &'static str {
        "measures the program packed and distributed, and keeps the faster placement"
    }

    fn flags(&self, command: Command) -> Command {
        Flags::augment_args(command)
    }

    fn prepare(&self, request: &PolicyRequest<'_>) -> Result<Prepared> {
        let flags = Flags::from_arg_matches(request.flags)?;
        Ok(Prepared::new(move |_| {
            Ok(Built::new(FasterOfTwo {
                lasts: Duration::from_secs(flags.toy_seconds),
                step: Step::Initialise,
                pinnings: vec![],
                rates: vec![],
            }))
        }))
    }
}

const NAMES: [&str; 2] = ["packed", "distributed"];
const PLACEMENTS: [AffinityHint; 2] = [AffinityHint::PACKED, AffinityHint::DISTRIBUTED];

/// The finding that only this policy has.
#[derive(Serialize)]
struct Tried {
    /// The rates of `NAMES`, in counts per second. `None` if nothing was counted.
    rates: Vec<Option<f64>>,
    faster: &'static str,
}

impl PolicyFinding for Tried {
    const NAME: &'static str = "tried";

    fn text(&self) -> String {
        format!("The program was faster {}.", self.faster)
    }
}

/// The next sample ends this step.
enum Step {
    Initialise,
    Settle(usize),
    Measure(usize, Sample),
    SettleFaster(usize),
    Verify(usize, Sample),
    Stay,
}

struct FasterOfTwo {
    /// The length of each step.
    lasts: Duration,
    step: Step,
    pinnings: Vec<Pinning>,
    rates: Vec<Option<f64>>,
}

impl FasterOfTwo {
    fn apply(&self, pinning: Option<usize>, findings: Vec<Finding>) -> Decision {
        Decision {
            configuration: Some(Configuration {
                pinning: pinning.map(|candidate| self.pinnings[candidate].clone()),
                ..Configuration::default()
            }),
            ..self.wait(findings)
        }
    }

    fn wait(&self, findings: Vec<Finding>) -> Decision {
        Decision {
            configuration: None,
            wait: self.lasts,
            findings,
            function: None,
        }
    }

    /// The working tasks are known: makes the candidates, and tries the first.
    fn begin(&mut self, topology: &Topology, sample: &Sample) -> Decision {
        let threads = sample.tasks.iter().filter(|task| task.alive).count();
        let pinning = |hint| NamedPlacement::Hint(hint).pinning(topology, threads.max(1));
        self.pinnings = PLACEMENTS.map(pinning).to_vec();
        let candidates = Finding::CandidatesChosen {
            threads,
            pinnings: self.pinnings.iter().cloned().map(Some).collect(),
            code: CandidatesCode::Unknown,
            why: NAMES.join(" and "),
        };
        self.step = Step::Settle(0);
        self.apply(Some(0), vec![candidates])
    }

    /// A candidate was measured: tries the next, or chooses the faster.
    fn measured(&mut self, candidate: usize, rate: Option<f64>) -> Decision {
        self.rates.push(rate);
        let mut findings = vec![Finding::Probed {
            candidate,
            rate,
            spread: None,
            error: None,
            measured: self.lasts,
            dropped: false,
        }];
        if candidate + 1 < self.pinnings.len() {
            self.step = Step::Settle(candidate + 1);
            return self.apply(Some(candidate + 1), findings);
        }
        let faster = usize::from(self.rates[1] > self.rates[0]);
        findings.push(Finding::own(&Tried {
            rates: self.rates.clone(),
            faster: NAMES[faster],
        }));
        findings.push(Finding::Chosen {
            candidate: faster,
            gain_over_first: None,
            gain_over_worst: None,
            code: ChoiceCode::Unknown,
            why: "it had the higher rate".to_owned(),
        });
        self.step = Step::SettleFaster(faster);
        self.apply(Some(faster), findings)
    }

    /// The faster candidate was measured again: it stays, unless it is slower than the other one was.
    fn verified(&mut self, faster: usize, rate: Option<f64>) -> Decision {
        self.step = Step::Stay;
        let line = Finding::Rate { rate, spread: None };
        if rate >= self.rates[1 - faster] {
            return self.wait(vec![line]);
        }
        let note = Finding::Note {
            code: NoteCode::RolledBack,
            text: format!(
                "Threads are unpinned again: the program is no longer faster {}.",
                NAMES[faster]
            ),
        };
        self.apply(None, vec![line, note])
    }
}

impl Policy for FasterOfTwo {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn start(&mut self, _topology: &Topology, metrics: &[Metric]) -> Decision {
        let metric = Finding::MetricChosen {
            metric: metrics.first().map(|metric| metric.name.clone()),
            code: MetricCode::Unknown,
            why: "it is the first that the machine counts".to_owned(),
            function: None,
        };
        self.wait(vec![metric, Finding::Initialising { lasts: self.lasts }])
    }

    fn decide(&mut self, topology: &Topology, sample: &Sample, _applied: &Applied) -> Decision {
        match std::mem::replace(&mut self.step, Step::Stay) {
            Step::Initialise => self.begin(topology, sample),
            Step::Settle(candidate) => {
                self.step = Step::Measure(candidate, sample.clone());
                self.wait(vec![Finding::Probing {
                    candidate,
                    lasts: self.lasts,
                }])
            }
            Step::Measure(candidate, before) => self.measured(candidate, rate(&before, sample)),
            Step::SettleFaster(faster) => {
                self.step = Step::Verify(faster, sample.clone());
                self.wait(vec![])
            }
            Step::Verify(faster, before) => self.verified(faster, rate(&before, sample)),
            Step::Stay => self.wait(vec![]),
        }
    }

    fn end(&mut self) -> Vec<Finding> {
        vec![]
    }
}

/// The rate of the first metric, in counts of all tasks per second.
fn rate(before: &Sample, after: &Sample) -> Option<f64> {
    let growth = |task: &TaskSample| {
        let earlier = before.task(task.id)?.counts.first()?.as_ref()?;
        task.counts.first()?.as_ref()?.since(earlier)
    };
    let counts = after.tasks.iter().map(growth).sum::<Option<f64>>()?;
    Some(counts / after.at.saturating_sub(before.at).as_secs_f64())
}

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    run: run::Arguments,
}

const SCRIPT: &str = r#"
topology = "clovertown"
threads = 2
duration = 20.0

[[phase]]
start = 0.0
rate = 100.0

[[phase.pinning]]
pus = "0,4"
rate = 150.0
"#;

/// What `pinfold run` with these options writes to `--json` and `--log`, on a scripted machine.
fn ran(folder: &Path, options: &[&str]) -> Result<(Value, String)> {
    let file = |name: &str| folder.join(name).display().to_string();
    fs::write(folder.join("script.toml"), SCRIPT)?;
    let machine = format!("scripted:{}", file("script.toml"));
    let (json, log) = (file("record.json"), file("log"));
    let given = ["run", "--machine", &machine, "--json", &json, "--log", &log];
    let cli = Cli::try_parse_from(given.into_iter().chain(options.iter().copied()))?;
    run::run(&cli.run, None)?;
    Ok((
        serde_json::from_str(&fs::read_to_string(&json)?)?,
        fs::read_to_string(&log)?,
    ))
}

#[test]
fn a_policy_that_is_one_file_and_one_line_runs_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let (record, log) = ran(folder.path(), &["--policy", "toy", "--toy-seconds", "2"]).unwrap();
    assert_eq!(record["policy"], json!("toy"));
    assert_eq!(record["chosen"]["pus"], json!([0, 4]));
    assert!(log.contains("chosen: 0,4"), "{log}");
    let other = ran(folder.path(), &["--policy", "none"]).unwrap().0;
    assert_eq!(other["policy"], json!("none"));
}

#[test]
fn a_finding_of_one_policy_alone_is_reported_recorded_and_explained() {
    let folder = tempfile::tempdir().unwrap();
    let (record, log) = ran(folder.path(), &["--policy", "toy"]).unwrap();
    let found = &record["findings"][0];
    assert_eq!(found["name"], json!("tried"));
    assert_eq!(found["values"]["faster"], json!("distributed"));
    let sentence = "The program was faster distributed.";
    assert!(log.contains(sentence), "{log}");
    let document = RunDocument::read(&record.to_string()).unwrap();
    let explained = document.explanation(super::kind("toy"));
    assert!(explained.contains(sentence), "{explained}");
    assert!(
        explained.contains("which measures the program packed and distributed"),
        "{explained}"
    );
    let page = pinfold_page::run(&document, super::kind("toy"), &pinfold_page::Additions::default());
    assert!(page.contains(sentence));
}

#[test]
fn flags_of_another_policy_are_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    for (options, expected) in [
        (
            &["--toy-seconds", "2"][..],
            "--toy-seconds is for --policy toy; add that, or leave --toy-seconds out",
        ),
        (
            &["--policy", "toy", "--rules", "file"],
            "--rules is for --policy hints or hints:rules; take one of these, or leave --rules out",
        ),
        (
            &["--policy", "hint:SLP", "--search-again", "0"],
            "--search-again is for --policy autopin; add that, or leave --search-again out",
        ),
    ] {
        assert_eq!(ran(folder.path(), options).unwrap_err().to_string(), expected);
    }
}

#[test]
fn an_unknown_policy_is_answered_with_all_there_are() {
    for unknown in ["best", "hint", "toy:3"] {
        let error = Cli::try_parse_from(["run", "--policy", unknown])
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains(
                "there are auto, autopin, hints, hints:rules, classify, classify:forest, react, react:tree, sam, fixed, hint:SLP, \
                 packed, distributed, close, spread, compact, scatter, none, python:FILE.py, toy"
            ),
            "{error}"
        );
    }
}

#[test]
fn an_unknown_policy_is_answered_with_those_that_resemble_it() {
    let error = |name: &str| Cli::try_parse_from(["run", "--policy", name]).err().unwrap();
    assert!(error("spred").to_string().contains("did you mean spread?"));
    assert!(error("hint").to_string().contains("did you mean hints?"));
    assert!(!error("everything").to_string().contains("did you mean"));
}

#[test]
fn the_policies_are_listed_on_request_and_no_command_is_needed() {
    let answer = Cli::try_parse_from(["run", "--policy", "help"]).err().unwrap();
    assert_eq!(answer.kind(), clap::error::ErrorKind::DisplayHelp);
    let text = answer.to_string();
    assert_eq!(text.lines().count(), POLICIES.len(), "{text}");
    assert!(
        text.contains("- packed ") && text.contains("the same as hint:slp"),
        "{text}"
    );
}

#[test]
fn flags_of_a_policy_are_under_a_heading_with_its_name() {
    for (policy, flag) in flags() {
        let heading = format!("Options of --policy {policy}");
        assert_eq!(flag.get_help_heading(), Some(heading.as_str()), "{flag}");
    }
}
