//! What is counted: `--metric`, `--event` and the events of the policy.

use super::super::Arguments;
use super::super::policies::Prepared;
use crate::program::executable;
use anyhow::{Result, anyhow, bail};
use pinfold_core::sources;
use pinfold_linux::counters::{self, Availability, CounterError, Request};
use pinfold_linux::functions;
use pinfold_linux::launch::RunningProcess;
use pinfold_policy::MetricRequest;

/// What is counted for each task.
pub(super) struct Counting {
    /// The metric of comparisons and rate lines.
    pub(super) metric: MetricRequest,
    /// Why hardware counters cannot be used, so that only the program's own reports can be measured.
    pub(super) without_counters: Option<String>,
    /// Whether a function that shows progress may be looked for.
    pub(super) finds_functions: bool,
    requests: Vec<Request>,
}

/// Whether a value of `--metric` names events for activities (`NAME=EVENT`), and not a metric.
pub(in super::super) fn names_events(metric: &str) -> bool {
    metric.contains('=')
}

/// The metric that the user names. `NAME=EVENT` is a metric only to a policy that does not take it.
fn asked(arguments: &Arguments, prepared: &Prepared) -> MetricRequest {
    let name = &arguments.search.metric;
    match arguments.search.event.first() {
        Some(event) => MetricRequest::Named(Request::Event(event.clone()).metric_name()),
        None if name == "auto" || (prepared.names_events && names_events(name)) => MetricRequest::Auto,
        None => MetricRequest::Named(name.clone()),
    }
}

impl Counting {
    /// On this machine.
    pub(super) fn here(arguments: &Arguments, process: Option<&RunningProcess>, prepared: &Prepared) -> Result<Self> {
        if !prepared.counts {
            return Ok(Self {
                metric: MetricRequest::Auto,
                without_counters: None,
                finds_functions: false,
                requests: vec![],
            });
        }
        let (mut requests, metric) = requested(arguments, process, asked(arguments, prepared))?;
        add(&mut requests, prepared.requests.clone());
        let finds_functions = metric == MetricRequest::Auto || metric.is_named(sources::FUNCTION.code);
        let mut without_counters = None;
        if requests.is_empty() && metric == MetricRequest::Auto {
            match counters::hardware_counters() {
                Availability::Available => requests.push(Request::Event("instructions".to_owned())),
                Availability::Absent { why } | Availability::Forbidden { why } => without_counters = Some(why),
            }
        }
        Ok(Self {
            metric,
            without_counters,
            finds_functions,
            requests,
        })
    }

    /// On a simulated or scripted machine, which counts all that it has.
    pub(super) fn elsewhere(arguments: &Arguments, prepared: &Prepared) -> Self {
        Self {
            metric: asked(arguments, prepared),
            without_counters: None,
            finds_functions: false,
            requests: prepared.requests.clone(),
        }
    }

    /// Counts these events, too, if all of them can be counted together. The machine lists later what it counts.
    pub(super) fn add_where_possible(&mut self, optional: &[Request]) {
        let mut requests = self.requests.clone();
        add(&mut requests, optional.to_vec());
        if matches!(counters::hardware_counters(), Availability::Available) && counters::Plan::new(&requests).is_ok() {
            self.requests = requests;
        }
    }

    /// Whether the bytes are counted that the program reads and writes: `auto` may need them.
    pub(super) fn io(&self) -> bool {
        match &self.metric {
            MetricRequest::Auto => true,
            MetricRequest::Named(name) => *name == sources::IO.code,
        }
    }

    /// The counters of each task; `None` for none.
    pub(super) fn plan(&self, arguments: &Arguments) -> Result<Option<counters::Plan>> {
        if self.requests.is_empty() {
            return Ok(None);
        }
        let plan = counters::Plan::new(&self.requests);
        plan.map(Some)
            .map_err(|error| explained(error, &arguments.search.metric))
    }
}

/// The requests that count the metric, and the metric's full name.
fn requested(
    arguments: &Arguments,
    process: Option<&RunningProcess>,
    metric: MetricRequest,
) -> Result<(Vec<Request>, MetricRequest)> {
    if !arguments.search.event.is_empty() {
        return Ok((
            arguments.search.event.iter().cloned().map(Request::Event).collect(),
            metric,
        ));
    }
    let MetricRequest::Named(name) = &metric else {
        return Ok((vec![], metric));
    };
    if *name == sources::RUN.code {
        return Ok((vec![], metric));
    }
    if sources::reported().any(|(source, _)| source.code == name) {
        if process.is_some() {
            bail!(
                "--metric {name} is reported from inside the program, by what pinfold gives it at its start, and a process that \
                 runs already has none of that; compare by an event (`pinfold events`) or by uprobe:SYMBOL, or start the \
                 program with `pinfold run -- CMD`"
            );
        }
        return Ok((vec![], metric));
    }
    if name == sources::IO.code {
        return Ok((vec![], metric));
    }
    if metric.is_named(sources::FUNCTION.code) {
        if let Some(why) = functions::obstacle() {
            bail!("--metric {name}: {why}");
        }
        return Ok((vec![], metric));
    }
    let request = if name.starts_with("uprobe:") {
        let file = match process {
            Some(process) => process.executable(),
            None => executable(&arguments.command[0])?,
        };
        counters::parse_uprobe(name, &file)?
    } else {
        Request::Event(name.strip_prefix("event:").unwrap_or(name).to_owned())
    };
    let metric = MetricRequest::Named(request.metric_name());
    Ok((vec![request], metric))
}

/// Adds the requests that are not in the list yet.
fn add(requests: &mut Vec<Request>, more: Vec<Request>) {
    for request in more {
        if !requests.contains(&request) {
            requests.push(request);
        }
    }
}

/// The value of `--metric` may have been meant for an event or for a metric of pinfold.
fn explained(error: CounterError, given: &str) -> anyhow::Error {
    let CounterError::UnknownEvent { name, nearest } = &error else {
        return error.into();
    };
    if name != given {
        return error.into();
    }
    let reported: Vec<&str> = sources::reported().map(|(source, _)| source.code).collect();
    let reported: Vec<&str> = reported.into_iter().chain([sources::IO.code]).collect();
    let own = reported
        .iter()
        .copied()
        .filter(|own| strsim::damerau_levenshtein(own, given) <= 2);
    let near: Vec<&str> = own.chain(nearest.iter().map(String::as_str)).collect();
    let guess = match near.first() {
        Some(_) => format!("; did you mean {}?", near.join(" or ")),
        None => String::new(),
    };
    anyhow!(
        "there is no metric `{given}`{guess}; there are {}, {}, uprobe:SYMBOL and the events that `pinfold events` lists",
        reported.join(", "),
        sources::FUNCTION.code
    )
}
