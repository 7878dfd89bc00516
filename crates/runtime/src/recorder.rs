//! Recorders: what receives the events of a run, besides its record.

use crate::Record;
use pinfold_core::{Applied, Configuration, Finding, Refusal, Sample};
use std::time::Duration;

/// Receives every event of a run, with the time on the machine's clock. The record that comes with an event already
/// contains the event, so that no recorder builds a record itself. A recorder implements the methods that it needs; the
/// others do nothing.
pub trait Recorder {
    /// The counts were read.
    fn sample(&mut self, _sample: &Sample) {}

    /// A policy requested a configuration, and the machine did this.
    fn applied(&mut self, _at: Duration, _configuration: &Configuration, _applied: &Applied) {}

    /// The machine refused a change, for a reason that is new in this run.
    fn refused(&mut self, _at: Duration, _refusal: &Refusal) {}

    /// The policy has a finding.
    fn finding(&mut self, _at: Duration, _finding: &Finding, _record: &Record) {}

    /// The run is over: the program has ended with this exit status, or runs on.
    fn ended(&mut self, _at: Duration, _exit_status: Option<i32>, _record: &Record) {}
}

/// No recorder: only the record is needed.
impl Recorder for () {}

/// Two recorders receive the same events, the first recorder first.
impl<First: Recorder, Second: Recorder> Recorder for (First, Second) {
    fn sample(&mut self, sample: &Sample) {
        self.0.sample(sample);
        self.1.sample(sample);
    }

    fn applied(&mut self, at: Duration, configuration: &Configuration, applied: &Applied) {
        self.0.applied(at, configuration, applied);
        self.1.applied(at, configuration, applied);
    }

    fn refused(&mut self, at: Duration, refusal: &Refusal) {
        self.0.refused(at, refusal);
        self.1.refused(at, refusal);
    }

    fn finding(&mut self, at: Duration, finding: &Finding, record: &Record) {
        self.0.finding(at, finding, record);
        self.1.finding(at, finding, record);
    }

    fn ended(&mut self, at: Duration, exit_status: Option<i32>, record: &Record) {
        self.0.ended(at, exit_status, record);
        self.1.ended(at, exit_status, record);
    }
}

/// A borrowed recorder is a recorder.
impl<Borrowed: Recorder + ?Sized> Recorder for &mut Borrowed {
    fn sample(&mut self, sample: &Sample) {
        (**self).sample(sample);
    }

    fn applied(&mut self, at: Duration, configuration: &Configuration, applied: &Applied) {
        (**self).applied(at, configuration, applied);
    }

    fn refused(&mut self, at: Duration, refusal: &Refusal) {
        (**self).refused(at, refusal);
    }

    fn finding(&mut self, at: Duration, finding: &Finding, record: &Record) {
        (**self).finding(at, finding, record);
    }

    fn ended(&mut self, at: Duration, exit_status: Option<i32>, record: &Record) {
        (**self).ended(at, exit_status, record);
    }
}
