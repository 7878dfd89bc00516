//! Reports a run to the user: the machine, the metric, what is changed, and at the end the result in one line. Trials,
//! moves of pages and a summary are for `--verbose`. Without it, trials and rates update the progress line.
//!
//! Lines go to standard error and begin with pinfold's name, so that they differ from the program's own. Whether they
//! can be written makes no difference to the run.

use super::Arguments;
use super::arguments::Detail;
use super::lines::Lines;
use super::plan::Plan;
use super::policies::Listener;
use super::progress::Progress;
use crate::colour::Tone;
use crate::console;
use pinfold_core::text::words;
use pinfold_core::{Applied, Configuration, Finding, Machine, MachineKind, Refusal, Sample};
use pinfold_linux::processor_time::{self, ProcessorTime};
use pinfold_runtime::{Record, Recorder};
use pinfold_view::findings::{self, Findings};
use pinfold_view::run_summary;
use std::time::Duration;

/// Writes the lines and the progress line.
pub(super) struct Report {
    detail: Detail,
    /// The name in the only line, if there is only one.
    account_as: Option<String>,
    /// The program and its arguments.
    command: Vec<String>,
    /// What stays pinned after the run, in words.
    left_pinned: Option<&'static str>,
    kind: MachineKind,
    lines: Lines,
    progress: Progress,
    findings: Findings,
    /// Reports the findings that only the policy has.
    listener: Box<dyn Listener>,
    /// Why the program ended before the choice. It is written below the result.
    ended_early: Option<String>,
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
        let detail = arguments.reports.detail();
        let kept = "threads and processes that outlive the program (--keep-pinned)";
        let mut report = Self {
            detail,
            account_as: arguments.reports.account_as.clone(),
            command: vec![],
            left_pinned: arguments.changes.keep_pinned.then_some(kept),
            kind: machine.kind(),
            progress: Progress::new(detail < Detail::Changes || !lines.are_shown()),
            lines,
            findings: Findings {
                metrics: machine.metrics().to_vec(),
                without_counters: plan.without_counters().map(str::to_owned),
                events: None,
                pins: false,
                attached: false,
                with_reasons: detail == Detail::Everything,
            },
            listener,
            ended_early: None,
        };
        let word = machine
            .kind()
            .word()
            .map_or_else(String::new, |word| format!("{word}: "));
        report.say(&format!("{word}{}", pinfold_core::summary(&plan.topology)));
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
        self.say_from(Detail::Changes, Tone::Plain, text);
    }

    /// Writes a text for `--verbose`.
    pub(super) fn say_detail(&self, text: &str) {
        self.say_from(Detail::Everything, Tone::Plain, text);
    }

    /// Writes a text for users who want this much or more.
    fn say_from(&self, detail: Detail, tone: Tone, text: &str) {
        if self.detail >= detail {
            self.progress.suspend(|| self.lines.say(tone, text));
        }
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
            if moves.broken_off.is_some() {
                self.say(&moves.to_string());
            } else {
                self.say_detail(&moves.to_string());
            }
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
        match finding {
            Finding::EndedEarly { .. } => self.ended_early = line,
            Finding::Rate { .. } if self.detail < Detail::Everything => self.progress.rest(&line.unwrap_or_default()),
            _ if findings::is_change(finding, &record.search) => self.say_any(line),
            _ => {
                if let Some(line) = line {
                    self.say_detail(&line);
                }
            }
        }
        if matches!(finding, Finding::Chosen { .. }) {
            self.progress.rest("watching the rate");
        }
        if let Some(text) = self.listener.finding(at, finding, record) {
            if self.listener.is_detail(finding) {
                self.say_detail(&text);
            } else {
                self.say(&text);
            }
        }
    }

    fn ended(&mut self, _at: Duration, _exit_status: Option<i32>, record: &Record) {
        // Whatever is printed, the listener has to know: it may keep the run in the behaviour database.
        let detail = self.listener.program_ended(record);
        self.progress.finish();
        self.lines.end();
        let result = run_summary::result(record);
        if let Some(name) = &self.account_as {
            console::say_to_launcher(format_args!("{name}: policy {}: {result}", record.policy));
        }
        // The policy has said it in a sentence of its own.
        if record.by_policy.nothing_to_gain.is_some() && self.detail >= Detail::Changes {
            return;
        }
        let tone = if run_summary::is_faster(record) {
            Tone::Faster
        } else {
            Tone::NotFaster
        };
        self.say_from(Detail::Result, tone, &result);
        let ended_early = self.ended_early.take();
        self.say_any(ended_early);
        let cost = processor_time::this_process()
            .ok()
            .filter(|_| self.kind.is_live())
            .map(ProcessorTime::total);
        let ending = run_summary::Ending {
            command: &self.command,
            left_pinned: self.left_pinned,
            cost,
        };
        if self.detail < Detail::Everything {
            self.say(&run_summary::ending(record, &ending));
            return;
        }
        self.say(&run_summary::text(record, &ending));
        self.say_any(detail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::path::Path;
    use std::rc::Rc;

    /// Counts the ends of programs.
    struct Ends(Rc<Cell<usize>>);

    impl Listener for Ends {
        fn program_ended(&mut self, _record: &Record) -> Option<String> {
            self.0.set(self.0.get() + 1);
            None
        }
    }

    #[test]
    fn the_policys_listener_is_told_of_the_end_however_much_is_printed() {
        for detail in [Detail::Nothing, Detail::Result, Detail::Changes, Detail::Everything] {
            for nothing_to_gain in [None, Some("one core".to_owned())] {
                let ends = Rc::new(Cell::new(0));
                let mut report = Report {
                    detail,
                    account_as: None,
                    command: vec!["solver".to_owned()],
                    left_pinned: None,
                    kind: MachineKind::Live,
                    lines: Lines::new(Some(Path::new("/dev/null"))).unwrap(),
                    progress: Progress::new(true),
                    findings: Findings {
                        metrics: vec![],
                        without_counters: None,
                        events: None,
                        pins: false,
                        attached: false,
                        with_reasons: false,
                    },
                    listener: Box::new(Ends(ends.clone())),
                    ended_early: None,
                };
                let mut record = Record::default();
                record.by_policy.nothing_to_gain = nothing_to_gain;
                report.ended(Duration::ZERO, Some(0), &record);
                assert_eq!(ends.get(), 1);
            }
        }
    }
}
