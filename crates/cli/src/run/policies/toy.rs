//! A policy that is this file and a line in `POLICIES`: the test that nothing else is needed for one.

use super::{Built, Initial, Listener, POLICIES, PolicyEntry, PolicyRequest, Prepared};
use crate::run;
use anyhow::Result;
use clap::{Args, Command, FromArgMatches, Parser};
use pinfold_core::{Applied, Configuration, Decision, Finding, Metric, NoteCode, Pinning, PuId, Sample, Topology};
use pinfold_policy::Policy;
use pinfold_runtime::Record;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Every thread runs on one PU, which the user names.
pub(super) struct Toy;

#[derive(Args)]
#[group(skip)]
#[command(next_help_heading = "Options of --policy toy")]
struct Flags {
    /// The CPU.
    #[arg(long, default_value = "0", value_name = "CPU")]
    toy_cpu: u32,
}

impl PolicyEntry for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn about(&self) -> &'static str {
        "puts every thread on one CPU"
    }

    fn explained(&self) -> &'static str {
        "puts every thread on one CPU"
    }

    fn flags(&self, command: Command) -> Command {
        Flags::augment_args(command)
    }

    fn prepare(&self, request: &PolicyRequest<'_>) -> Result<Prepared> {
        let flags = Flags::from_arg_matches(request.flags)?;
        Ok(Prepared::new(move |_| {
            let pinning = Pinning::new(vec![PuId(flags.toy_cpu)]);
            Ok(Built {
                initial: pinning.clone().map(|pinning| Initial {
                    pinning,
                    why: "it is a toy".to_owned(),
                }),
                listener: Box::new(Ended),
                ..Built::new(OneCpu(pinning))
            })
        }))
    }
}

struct OneCpu(Option<Pinning>);

impl Policy for OneCpu {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn start(&mut self, _topology: &Topology, _metrics: &[Metric]) -> Decision {
        Decision {
            configuration: Some(Configuration {
                pinning: self.0.clone(),
                ..Configuration::default()
            }),
            wait: Duration::from_secs(1),
            findings: vec![Finding::Note {
                code: NoteCode::Unknown,
                text: "the toy decides".to_owned(),
            }],
        }
    }

    fn decide(&mut self, _topology: &Topology, _sample: &Sample, _applied: &Applied) -> Decision {
        Decision {
            configuration: None,
            wait: Duration::from_secs(1),
            findings: vec![],
        }
    }

    fn end(&mut self) -> Vec<Finding> {
        vec![]
    }
}

struct Ended;

impl Listener for Ended {
    fn program_ended(&mut self, _record: &Record) -> Option<String> {
        Some("the toy is done".to_owned())
    }
}

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    run: run::Arguments,
}

const SCRIPT: &str = r#"
topology = "clovertown"
threads = 2
duration = 10.0

[[phase]]
start = 0.0
rate = 100.0
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
    let (record, log) = ran(folder.path(), &["--policy", "toy", "--toy-cpu", "5"]).unwrap();
    assert_eq!(record["policy"], json!("toy"));
    assert!(
        log.contains("threads are pinned from the start, each to one of the CPUs 5: it is a toy"),
        "{log}"
    );
    for line in ["the toy decides", "the toy is done"] {
        assert!(log.contains(line), "{log}");
    }
    let other = ran(folder.path(), &["--policy", "none"]).unwrap().0;
    assert_eq!(other["policy"], json!("none"));
}

#[test]
fn flags_of_another_policy_are_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    for (options, expected) in [
        (
            &["--toy-cpu", "0"][..],
            "--toy-cpu is for --policy toy; add that, or leave --toy-cpu out",
        ),
        (
            &["--policy", "toy", "--rules", "file"],
            "--rules is for --policy hints; add that, or leave --rules out",
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
                "there are auto, autopin, hints, classify, react, sam, fixed, hint:SLP, packed, distributed, close, spread, \
                 compact, scatter, none, toy"
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
    for policy in POLICIES {
        let command = policy.flags(Command::new("run"));
        for flag in command.get_arguments() {
            let heading = format!("Options of --policy {}", policy.name());
            assert_eq!(flag.get_help_heading(), Some(heading.as_str()), "{flag}");
        }
    }
}
