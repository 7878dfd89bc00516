//! Reports a run to the user, a line for each finding that matters, and a summary at the end. The rate lines after the
//! choice are for `--verbose`; without it they update the progress line.
//!
//! Lines go to standard error and begin with `pinfold: `, so that they differ from the program's own. Whether they can
//! be written makes no difference to the run.

use super::Arguments;
use super::lines::Lines;
use super::plan::Plan;
use super::policies::Listener;
use super::progress::Progress;
use pinfold_core::text::words;
use pinfold_core::{Applied, Configuration, Finding, Machine, Refusal, Sample};
use pinfold_linux::processor_time::{self, ProcessorTime};
use pinfold_runtime::{Record, Recorder};
use pinfold_view::findings::{self, Findings};
use pinfold_view::run_summary;
use std::time::Duration;

/// Writes the lines and the progress line.
pub(super) struct Report {
    quiet: bool,
    verbose: bool,
    /// The name in the only line, if there is only one.
    account_as: Option<String>,
    /// The program and its arguments.
    command: Vec<String>,
    /// What stays pinned after the run, in words.
    left_pinned: Option<&'static str>,
    simulated: bool,
    lines: Lines,
    progress: Progress,
    findings: Findings,
    /// Reports the findings that only the policy has.
    listener: Box<dyn Listener>,
}

impl Report {
    /// Begins with the machine in one line and the notes of the plan.
    pub(super) fn new(
        plan: &Plan,
        machine: &impl Machine,
        arguments: &Arguments,
        lines: Lines,
        listener: Box<dyn Listener>,
    ) -> Self {
        let account_as = arguments.reports.account_as.clone();
        let quiet = arguments.reports.quiet || account_as.is_some();
        let kept = "threads and processes that outlive the program (--keep-pinned)";
        let mut report = Self {
            quiet,
            verbose: arguments.reports.verbose,
            account_as,
            command: vec![],
            left_pinned: arguments.changes.keep_pinned.then_some(kept),
            simulated: machine.simulated(),
            progress: Progress::new(quiet || !lines.are_shown()),
            lines,
            findings: Findings {
                metrics: machine.metrics().to_vec(),
                without_counters: plan.without_counters().map(str::to_owned),
                events: None,
                pins: false,
                attached: false,
            },
            listener,
        };
        let simulated = if machine.simulated() { "simulated: " } else { "" };
        report.say(&format!("{simulated}{}", pinfold_core::summary(&plan.topology)));
        for note in &plan.notes {
            report.say(note);
        }
        let note = report.listener.begin(machine.metrics());
        report.say_any(note);
        report
    }

    /// The program, and its process if it ran before.
    pub(super) fn program(&mut self, command: &[String], attached: Option<i32>) {
        self.command = command.to_vec();
        self.findings.attached = attached.is_some();
        if let Some(process) = attached {
            self.say(&format!("attached to process {process}: {}", words(command)));
        }
    }

    /// The run is over, and its policy with it.
    pub(super) fn policy_ends(&mut self) {
        let note = self.listener.end();
        self.say_any(note);
    }

    /// Shows only these of the counted events: a simulated machine counts all that it has.
    pub(super) fn only(&mut self, events: Vec<String>) {
        self.findings.events = Some(events);
    }

    /// Writes a text, line by line.
    pub(super) fn say(&self, text: &str) {
        if self.quiet {
            return;
        }
        self.progress.suspend(|| self.lines.say(text));
    }

    fn say_any(&self, text: Option<String>) {
        if let Some(text) = text {
            self.say(&text);
        }
    }
}

impl Recorder for Report {
    fn sample(&mut self, sample: &Sample) {
        if !self.lines.are_kept() {
            self.progress.tick(sample.at);
        }
    }

    fn applied(&mut self, _at: Duration, configuration: &Configuration, applied: &Applied) {
        self.findings.pins = configuration.pins();
        if let Some(sampled) = &applied.sampled {
            self.say(&format!("accesses: {sampled}"));
        }
        for profiled in &applied.profiled {
            self.say(&format!("accesses: {profiled}"));
        }
        if let Some(moves) = applied.pages.as_ref().filter(|moves| moves.is_worth_telling()) {
            self.say(&moves.to_string());
        }
    }

    fn refused(&mut self, _at: Duration, refusal: &Refusal) {
        match refusal.task {
            Some(task) => self.say(&format!("{task} stays where it is: {}", refusal.why)),
            None => self.say(&refusal.why),
        }
    }

    fn finding(&mut self, at: Duration, finding: &Finding, record: &Record) {
        if let Some((step, lasts)) = findings::step(finding, &record.search) {
            self.progress.step(&step, at, lasts);
        }
        let line = self.findings.line(at, finding, record);
        if matches!(finding, Finding::Rate { .. }) && !self.verbose {
            self.progress.rest(&line.unwrap_or_default());
        } else {
            self.say_any(line);
        }
        if matches!(finding, Finding::Chosen { .. }) {
            self.progress.rest("watching the rate");
        }
        let text = self.listener.finding(at, finding, record);
        self.say_any(text);
    }

    fn ended(&mut self, _at: Duration, _exit_status: Option<i32>, record: &Record) {
        self.progress.finish();
        self.lines.end();
        let text = self.listener.program_ended(record);
        self.say_any(text);
        let cost = processor_time::this_process()
            .ok()
            .filter(|_| !self.simulated)
            .map(ProcessorTime::total);
        if record.by_policy.nothing_to_gain.is_some() && self.account_as.is_none() {
            return;
        }
        let summary = run_summary::text(
            record,
            &run_summary::Ending {
                command: &self.command,
                left_pinned: self.left_pinned,
                cost,
            },
        );
        self.say(&summary);
        if let Some(name) = &self.account_as {
            let (policy, result) = (&record.policy, run_summary::result(record));
            self.lines.say(&format!("{name}: policy {policy}: {result}"));
        }
    }
}
