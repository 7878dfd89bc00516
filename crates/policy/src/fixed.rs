//! The baselines: `fixed` keeps one pinning, `none` leaves every thread to the operating system. Both only measure, by
//! the same rules as `autopin`, so that their rate lines can be compared with its own.

use crate::Policy;
use crate::meter::Meter;
use crate::metric_choice::MetricRequest;
use crate::opening::{Opened, Opening};
use crate::roster::{Roster, Skip};
use crate::times::{self, Times};
use pinfold_core::{Applied, Configuration, Decision, Finding, Metric, Pinning, Sample, Topology};
use std::time::Duration;

/// One pinning, or none, for the whole run.
#[derive(Debug)]
pub struct Fixed {
    pinning: Option<Pinning>,
    times: Times,
    opening: Opening,
    roster: Roster,
    /// The meter, how far apart it is read, and when the present rate line began.
    line: Option<(Meter, Duration, Duration)>,
    configuration: Option<Configuration>,
}

impl Fixed {
    /// Keeps `pinning`; `None` leaves the threads to the operating system. The warm-up in `times` is not used.
    pub fn new(pinning: Option<Pinning>, times: Times, metric: MetricRequest, skip: Skip) -> Self {
        Self {
            pinning,
            times,
            opening: Opening::new(times, metric),
            roster: Roster::new(skip),
            line: None,
            configuration: None,
        }
    }

    /// Asks for the configuration once more, so that it is in force for tasks too that the machine left to themselves
    /// when they began.
    fn affirm(&mut self) {
        self.configuration = None;
    }

    fn decision(&mut self, now: Duration, findings: Vec<Finding>) -> Decision {
        let wanted = Configuration {
            pinning: self.pinning.clone(),
            left_alone: self.roster.left_alone(),
            ..Configuration::default()
        };
        let asked = self.configuration.as_ref() != Some(&wanted);
        if asked {
            self.configuration = Some(wanted);
        }
        let wait = match &self.line {
            None => self.opening.wait(now),
            Some((_, reading, began)) => times::wait(now, *began + self.times.probe, *reading),
        };
        Decision {
            configuration: self.configuration.clone().filter(|_| asked),
            wait,
            findings,
        }
    }
}

impl Policy for Fixed {
    fn name(&self) -> &'static str {
        if self.pinning.is_some() { "fixed" } else { "none" }
    }

    fn start(&mut self, _topology: &Topology, metrics: &[Metric]) -> Decision {
        let mut findings = vec![];
        self.opening.start(metrics, &mut findings);
        self.decision(Duration::ZERO, findings)
    }

    fn decide(&mut self, _topology: &Topology, sample: &Sample, _applied: &Applied) -> Decision {
        let mut findings = vec![];
        self.roster.update(sample);
        if let Some((meter, _, began)) = &mut self.line {
            meter.read(sample, |id| !self.roster.is_left_alone(id));
            if sample.at >= *began + self.times.probe {
                let line = meter.measurement();
                findings.push(Finding::Rate {
                    rate: line.rate,
                    spread: line.spread,
                });
                self.roster.judge(sample);
                meter.share(sample, |id| !self.roster.is_left_alone(id));
                meter.restart();
                *began = sample.at;
                self.affirm();
            }
        } else {
            match self.opening.look(sample, &mut self.roster, &mut findings) {
                Opened::NotYet => {}
                Opened::WithoutMetric => self.affirm(),
                Opened::With { meter, reading } => {
                    self.affirm();
                    self.roster.begin_window(sample);
                    self.line = Some((meter, reading, sample.at));
                }
            }
        }
        self.decision(sample.at, findings)
    }

    fn end(&mut self) -> Vec<Finding> {
        vec![]
    }
}
