//! The comparison for programs: the output of `--export-json` (docs/formats/run.md).
//!
//! Keys that hyperfine's export also has keep its names and meanings.

use crate::{Choice, Choices, Comparison, Difference, LeftOut, Role, Simulated, Summary, Variant, notes};
use pinfold_core::{MachineKind, PageMapping, Pinning};
use serde::Serialize;

/// The whole file.
#[derive(Clone, Debug, Serialize)]
pub struct Document<'a> {
    version: u32,
    pinfold: &'static str,
    command: &'a [String],
    machine: &'a str,
    simulated: bool,
    machine_kind: MachineKind,
    simulation: Option<&'a Simulated>,
    ended_early: Option<&'a str>,
    results: Vec<Result<'a>>,
    left_out: &'a [LeftOut],
    notes: Vec<String>,
}

/// One variant.
#[derive(Clone, Debug, Serialize)]
struct Result<'a> {
    command: &'a str,
    role: Role,
    options: Option<&'a [String]>,
    mean: Option<f64>,
    stddev: Option<f64>,
    median: Option<f64>,
    user: Option<f64>,
    system: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    times: Vec<f64>,
    exit_codes: Vec<i32>,
    relative: Option<Ratio>,
    decided: Option<usize>,
    choices: Vec<ChoiceCount>,
}

/// The comparison of a variant with the program alone.
#[derive(Clone, Copy, Debug, Serialize)]
struct Ratio {
    times_as_fast: f64,
    standard_error: Option<f64>,
    p_value: Option<f64>,
    difference: Option<&'static str>,
    more_runs: Option<usize>,
}

/// A choice, and the number of runs that made it.
#[derive(Clone, Debug, Serialize)]
struct ChoiceCount {
    choice: &'static str,
    pus: Option<Pinning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pages: Option<PageMapping>,
    text: String,
    why: Option<String>,
    runs: usize,
}

impl<'a> Document<'a> {
    /// The version of the format that this pinfold writes.
    pub const VERSION: u32 = 1;

    /// The document of a comparison.
    pub fn of(comparison: &'a Comparison) -> Self {
        Self {
            version: Self::VERSION,
            pinfold: env!("CARGO_PKG_VERSION"),
            command: &comparison.command,
            machine: &comparison.machine,
            simulated: comparison.simulated.is_some(),
            machine_kind: comparison
                .simulated
                .as_ref()
                .map_or(MachineKind::Live, |simulated| simulated.kind),
            simulation: comparison.simulated.as_ref(),
            ended_early: comparison.ended_early.as_deref(),
            results: comparison
                .variants
                .iter()
                .map(|variant| result(comparison, variant))
                .collect(),
            left_out: &comparison.left_out,
            notes: notes::notes(comparison),
        }
    }
}

fn result<'a>(comparison: &Comparison, variant: &'a Variant) -> Result<'a> {
    let summary = variant.summary();
    let figure = |figure: fn(Summary) -> f64| summary.map(figure);
    let choices = variant.choices();
    Result {
        command: &variant.name,
        role: variant.role,
        options: variant.options.as_deref(),
        mean: figure(|summary| summary.mean),
        stddev: summary.and_then(|summary| summary.deviation),
        median: figure(|summary| summary.median),
        user: variant.mean(|run| run.user),
        system: variant.mean(|run| run.system),
        min: figure(|summary| summary.min),
        max: figure(|summary| summary.max),
        times: variant.times(),
        exit_codes: variant.runs.iter().map(|run| run.exit_status).collect(),
        relative: comparison.relative(variant).map(|relative| Ratio {
            times_as_fast: relative.ratio,
            standard_error: relative.standard_error,
            p_value: relative.p_value,
            difference: match relative.difference() {
                Difference::Faster => Some("faster"),
                Difference::Slower => Some("slower"),
                Difference::TooFewRuns(_) => Some("too_few_runs"),
                Difference::WithinNoise => Some("within_noise"),
                Difference::Unknown => None,
            },
            more_runs: relative.more_runs,
        }),
        decided: (!choices.is_empty()).then(|| choices.iter().filter(|choice| choice.is_decided()).count()),
        choices: Choices::count(choices).iter().map(counted).collect(),
    }
}

fn counted(choices: &Choices) -> ChoiceCount {
    let (choice, pus, pages, why) = match &choices.choice {
        Choice::Undecided { why, .. } => ("undecided", None, None, Some(why.clone())),
        Choice::Placement { pus: None, pages } => ("unpinned", None, *pages, None),
        Choice::Placement { pus, pages } => ("pinning", pus.clone(), *pages, None),
        Choice::Regions(_) => ("regions", None, None, None),
        Choice::Moves(_) => ("moves", None, None, None),
    };
    ChoiceCount {
        choice,
        pus,
        pages,
        text: choices.to_string(),
        why,
        runs: choices.runs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::{comparison, variant};
    use serde_json::{Value, json};

    #[test]
    fn the_document_has_hyperfines_keys_and_null_for_what_is_not_known() {
        let mut policy = variant("autopin", Role::Policy, &[2.0]);
        policy.runs[0].user = None;
        policy.runs[0].choice = Some(Choice::UNPINNED);
        let compared = comparison(vec![variant("alone", Role::Alone, &[2.0, 4.0]), policy]);
        let document = serde_json::to_value(Document::of(&compared)).unwrap();
        assert_eq!(
            (&document["simulated"], &document["simulation"]),
            (&json!(false), &Value::Null)
        );
        assert_eq!(document["machine_kind"], "live");
        let [alone, policy] = [&document["results"][0], &document["results"][1]];
        assert_eq!(
            (&alone["command"], &alone["mean"], &alone["times"]),
            (&json!("alone"), &json!(3.0), &json!([2.0, 4.0]))
        );
        assert_eq!((&alone["relative"], &alone["decided"]), (&Value::Null, &Value::Null));
        assert_eq!(
            (&policy["stddev"], &policy["user"], &policy["decided"]),
            (&Value::Null, &Value::Null, &json!(1))
        );
        assert_eq!(policy["relative"]["times_as_fast"], 1.5);
        assert_eq!(policy["relative"]["difference"], Value::Null);
        assert_eq!(policy["choices"][0]["choice"], "unpinned");
    }
}
