//! Reads rules from JSON (docs/formats/models.md).

use super::{Condition, Operator, Outcome, Rule, RuleMetric, Rules, Trained};
use serde::Deserialize;
use std::str::FromStr;

/// The format version that is read.
const VERSION: u64 = 1;

/// Why a text is not a rule policy. The caller knows the file.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// It is not JSON, or a key is missing, unknown, or of the wrong type; the message has line and column.
    #[error("{0}; the keys of a rule policy are in docs/formats/models.md")]
    Json(#[from] serde_json::Error),
    /// It is JSON of another kind.
    #[error(
        "this is no rule policy: the key `rule_policy` with its version is missing; give a file that `pinfold learn train` wrote"
    )]
    Other,
    /// It is of another version.
    #[error("this rule policy has version {0}, and this pinfold reads version {VERSION}; train it again")]
    Version(u64),
    /// Two metrics have the same name.
    #[error("metric `{0}` is listed twice; remove one of them from `metrics`")]
    Twice(String),
    /// A condition has a metric that is not listed.
    #[error("rule {rule} has the metric `{metric}`, which is not in `metrics`{}", hint(.nearest.as_deref()))]
    UnknownMetric {
        /// The number of the rule, from 1.
        rule: usize,
        /// The metric of the condition.
        metric: String,
        /// The listed metric with the most similar name.
        nearest: Option<String>,
    },
    /// A rule without conditions always holds, so that later ones never fire.
    #[error("rule {0} has no condition, so that no later rule could fire; put its class into `default`")]
    NoCondition(usize),
    /// A rule has more errors than rows.
    #[error("{place} covers {coverage} training rows and gets {errors} of them wrong; correct `coverage` or `errors`")]
    Errors {
        /// The rule, as text.
        place: String,
        /// Its rows.
        coverage: u64,
        /// Those of another class.
        errors: u64,
    },
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(
        || "; list it there with its unit".to_owned(),
        |name| format!("; did you mean `{name}`?"),
    )
}

#[derive(Deserialize)]
struct Head {
    rule_policy: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "rule_policy")]
    _version: u64,
    trained: Trained,
    metrics: Vec<RuleMetric>,
    rules: Vec<FileRule>,
    default: FileOutcome,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRule {
    conditions: Vec<FileCondition>,
    class: String,
    coverage: u64,
    errors: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileOutcome {
    class: String,
    coverage: u64,
    errors: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileCondition {
    metric: String,
    operator: Operator,
    threshold: f64,
}

impl FromStr for Rules {
    type Err = RulesError;

    fn from_str(text: &str) -> Result<Self, RulesError> {
        match serde_json::from_str::<Head>(text)?.rule_policy {
            Some(VERSION) => {}
            Some(other) => return Err(RulesError::Version(other)),
            None => return Err(RulesError::Other),
        }
        let file: File = serde_json::from_str(text)?;
        let metrics = file.metrics;
        if let Some((_, twice)) = metrics
            .iter()
            .enumerate()
            .find(|(place, metric)| metrics[..*place].iter().any(|earlier| earlier.name == metric.name))
        {
            return Err(RulesError::Twice(twice.name.clone()));
        }
        let rules = file.rules.into_iter().enumerate();
        let rules = rules.map(|(place, one)| rule(one, place + 1, &metrics));
        Ok(Self {
            list: rules.collect::<Result<_, _>>()?,
            default: outcome("`default`", file.default)?,
            trained: file.trained,
            metrics,
        })
    }
}

fn rule(rule: FileRule, number: usize, metrics: &[RuleMetric]) -> Result<Rule, RulesError> {
    if rule.conditions.is_empty() {
        return Err(RulesError::NoCondition(number));
    }
    let conditions = rule.conditions.into_iter();
    let conditions = conditions.map(|condition| {
        let listed = metrics.iter().position(|metric| metric.name == condition.metric);
        Ok(Condition {
            metric: listed.ok_or_else(|| unknown(condition.metric, number, metrics))?,
            operator: condition.operator,
            threshold: condition.threshold,
        })
    });
    let file_outcome = FileOutcome {
        class: rule.class,
        coverage: rule.coverage,
        errors: rule.errors,
    };
    Ok(Rule {
        conditions: conditions.collect::<Result<_, RulesError>>()?,
        outcome: outcome(&format!("rule {number}"), file_outcome)?,
    })
}

/// The least similarity of two names for a suggestion, from 0 to 1.
const SIMILAR: f64 = 0.7;

fn unknown(metric: String, rule: usize, metrics: &[RuleMetric]) -> RulesError {
    let similarity = |listed: &RuleMetric| strsim::normalized_damerau_levenshtein(&listed.name, &metric);
    let nearest = metrics
        .iter()
        .filter(|listed| similarity(listed) >= SIMILAR)
        .max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
    RulesError::UnknownMetric {
        rule,
        nearest: nearest.map(|listed| listed.name.clone()),
        metric,
    }
}

fn outcome(place: &str, outcome: FileOutcome) -> Result<Outcome, RulesError> {
    let FileOutcome {
        class,
        coverage,
        errors,
    } = outcome;
    if errors > coverage {
        return Err(RulesError::Errors {
            place: place.to_owned(),
            coverage,
            errors,
        });
    }
    Ok(Outcome {
        class,
        coverage,
        errors,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Normalised;

    const TWO_RULES: &str = include_str!("../../tests/data/two_rules.json");

    fn refused(from: &str, to: &str) -> String {
        assert!(TWO_RULES.contains(from), "{from}");
        TWO_RULES
            .replacen(from, to, 1)
            .parse::<Rules>()
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn everything_that_is_written_is_read() {
        let rules: Rules = TWO_RULES.parse().unwrap();
        assert_eq!(rules.metrics()[1].name, "event:l3_misses");
        assert_eq!(rules.metrics()[0].normalised, Normalised::Ratio);
        assert_eq!(rules.rules()[0].conditions().len(), 2);
        assert_eq!(rules.rules()[0].outcome().errors, 1);
        assert_eq!(rules.default_outcome().coverage, 30);
        assert_eq!(rules.trained().simulated, Some(true));
        assert_eq!(rules.trained().programs, ["fft", "stream"]);
    }

    #[test]
    fn the_origin_of_the_training_data_is_told_in_words() {
        let trained = |rows: &str| -> String {
            let text = format!(
                r#"{{"simulated": true, "machines": ["m"], "programs": ["a"], "rows": 3, "learner": "l"{rows}}}"#
            );
            serde_json::from_str::<Trained>(&text).unwrap().to_string()
        };
        let before = "3 rows of 1 programs on m, which are simulated (learner: l)";
        assert_eq!(trained(""), before);
        assert_eq!(trained(r#", "measured_rows": 0, "simulated_rows": 9"#), before);
        let mixed = trained(r#", "measured_rows": 4, "simulated_rows": 5"#);
        assert!(
            mixed.contains("which are from 4 measured and 5 simulated rows of data"),
            "{mixed}"
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place_and_a_remedy() {
        for (from, to, message) in [
            (
                "\"rule_policy\": 1",
                "\"rule_policy\": 2",
                "this rule policy has version 2, and this pinfold reads version 1; train it again",
            ),
            (
                "\"rule_policy\": 1,",
                "",
                "this is no rule policy: the key `rule_policy` with its version is missing; give a file that `pinfold learn train` wrote",
            ),
            (
                "\"metric\": \"event:l3_misses\"",
                "\"metric\": \"event:l3_miss\"",
                "rule 1 has the metric `event:l3_miss`, which is not in `metrics`; did you mean `event:l3_misses`?",
            ),
            (
                "\"metric\": \"event:l3_misses\"",
                "\"metric\": \"time\"",
                "rule 1 has the metric `time`, which is not in `metrics`; list it there with its unit",
            ),
            (
                "\"name\": \"event:l3_misses\"",
                "\"name\": \"ipc\"",
                "metric `ipc` is listed twice; remove one of them from `metrics`",
            ),
            (
                "\"errors\": 4",
                "\"errors\": 31",
                "`default` covers 30 training rows and gets 31 of them wrong; correct `coverage` or `errors`",
            ),
        ] {
            assert_eq!(refused(from, to), message);
        }
    }

    #[test]
    fn a_key_or_value_of_another_kind_is_named_with_its_line() {
        let message = refused("\"operator\": \"<=\"", "\"operator\": \"<\"");
        assert!(
            message.starts_with("unknown variant `<`, expected one of `<=`, `>=`, `>`, `=` at line "),
            "{message}"
        );
        let message = refused("\"threshold\": 0.75", "\"threshhold\": 0.75");
        assert!(message.starts_with("unknown field `threshhold`"), "{message}");
        let message = refused("\"simulated\": true", "\"simulated\": 1");
        assert!(message.contains("at line "), "{message}");
    }

    #[test]
    fn a_rule_without_conditions_is_refused() {
        let text = r#"{"rule_policy": 1, "metrics": [], "rules": [{"conditions": [], "class": "a", "coverage": 1, "errors": 0}],
            "default": {"class": "b", "coverage": 0, "errors": 0},
            "trained": {"simulated": null, "machines": [], "programs": [], "rows": 1, "learner": "none"}}"#;
        assert!(matches!(text.parse::<Rules>(), Err(RulesError::NoCondition(1))));
    }
}
