//! Learned policies: an ordered list of rules over metrics. The first rule that holds gives the class.
//!
//! `AutoFinity` (Moore and Childers, 2012, section 2.3 and figure 7) makes its policies in this form, with RIPPER. The
//! Python package learns and writes them (`python/pinfold/learn`); this module reads (`file`) and evaluates them. A
//! class is a text, such as an affinity hint. The caller knows its meaning.
//!
//! A missing value is not zero: no condition on it holds. So a sample with many missing values reaches a later rule or
//! the default, and the verdict lists the conditions without a value.

mod file;
pub(crate) mod observed;

pub use file::RulesError;

use std::fmt;

/// Rules, their metrics, and their training data.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    metrics: Vec<RuleMetric>,
    list: Vec<Rule>,
    default: Outcome,
    trained: Trained,
}

/// A metric of the rules.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleMetric {
    /// The name, as in `--metric` and in the columns of data sets.
    pub name: String,
    /// The unit of thresholds and values.
    pub unit: String,
    /// What a count is divided by before a rule sees it.
    pub normalised: Normalised,
}

/// The divisor of a count, so that rules hold for other numbers of threads and other durations of samples
/// (`AutoFinity`, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Normalised {
    /// By the number of threads and by the seconds of the sample.
    PerThreadAndSecond,
    /// By the seconds of the sample.
    PerSecond,
    /// By the instructions of all threads in the sample. So the value does not depend on the program's speed.
    PerInstruction,
    /// By nothing: it is a ratio of two counts already.
    Ratio,
}

/// The training data of the rules.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trained {
    /// Whether any of it was simulated; `None` if that is not known.
    pub simulated: Option<bool>,
    /// Its machines.
    pub machines: Vec<String>,
    /// Its programs.
    pub programs: Vec<String>,
    /// Its number of rows.
    pub rows: u64,
    /// The learner with its parameters, as text.
    pub learner: String,
    /// The number of measured rows of the data sets that it was chosen from; `None` if that is not known.
    #[serde(default)]
    pub measured_rows: Option<u64>,
    /// The number of simulated rows of these data sets; `None` if that is not known.
    #[serde(default)]
    pub simulated_rows: Option<u64>,
}

impl Trained {
    /// Whether it was measured or simulated, in words.
    fn origin(&self) -> String {
        match (self.measured_rows, self.simulated_rows, self.simulated) {
            (Some(measured @ 1..), Some(simulated @ 1..), _) => {
                format!("from {measured} measured and {simulated} simulated rows of data")
            }
            (_, _, Some(true)) => "simulated".to_owned(),
            (_, _, Some(false)) => "measured".to_owned(),
            (_, _, None) => "of an unknown origin".to_owned(),
        }
    }
}

impl fmt::Display for Trained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} rows of {} programs on {}, which are {} (learner: {})",
            self.rows,
            self.programs.len(),
            self.machines.join(", "),
            self.origin(),
            self.learner
        )
    }
}

/// If all conditions hold, the outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    conditions: Vec<Condition>,
    outcome: Outcome,
}

/// A class, with its result on the training rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The class.
    pub class: String,
    /// The number of training rows with this outcome.
    pub coverage: u64,
    /// The number of these that were of another class.
    pub errors: u64,
}

/// A comparison of a metric with a threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Condition {
    /// The metric's position in [`Rules::metrics`].
    pub metric: usize,
    /// How it compares.
    pub operator: Operator,
    /// The threshold, in the metric's unit.
    pub threshold: f64,
}

/// The comparison of a value with a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
pub enum Operator {
    /// At most.
    #[serde(rename = "<=")]
    AtMost,
    /// At least.
    #[serde(rename = ">=")]
    AtLeast,
    /// More than: the lower bound of a bin, which is not part of the bin.
    #[serde(rename = ">")]
    Above,
    /// Equal, for codes without an order.
    #[serde(rename = "=")]
    Equal,
}

/// The result of the rules for one sample, and the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict<'a> {
    rules: &'a Rules,
    /// The rule that fired, from 0; `None` for the default.
    pub fired: Option<usize>,
    /// The class, with its result on the training rows.
    pub outcome: &'a Outcome,
    /// Each condition of the rule that fired, with the value that fulfilled it.
    pub reasons: Vec<(Condition, f64)>,
    /// Of each earlier rule, the first condition that did not hold, with its value if there was one.
    pub passed_over: Vec<(Condition, Option<f64>)>,
}

impl Rules {
    /// The metrics, in the order in which [`Rules::evaluate`] takes their values.
    pub fn metrics(&self) -> &[RuleMetric] {
        &self.metrics
    }

    /// The rules in their order, without the default.
    pub fn rules(&self) -> &[Rule] {
        &self.list
    }

    /// The outcome if no rule holds.
    pub fn default_outcome(&self) -> &Outcome {
        &self.default
    }

    /// The training data.
    pub fn trained(&self) -> &Trained {
        &self.trained
    }

    /// Finds the first rule that holds. `values` has one value for each of [`Rules::metrics`], in their units. `None`
    /// and NaN are missing values.
    ///
    /// # Panics
    ///
    /// If there are not as many values as metrics.
    pub fn evaluate(&self, values: &[Option<f64>]) -> Verdict<'_> {
        assert_eq!(values.len(), self.metrics.len(), "one value for each metric");
        let value = |condition: &Condition| values[condition.metric].filter(|value| !value.is_nan());
        let mut passed_over = Vec::new();
        for (number, rule) in self.list.iter().enumerate() {
            let failed = rule
                .conditions
                .iter()
                .find(|condition| !condition.holds(value(condition)));
            if let Some(condition) = failed {
                passed_over.push((*condition, value(condition)));
                continue;
            }
            let reasons = rule.conditions.iter();
            return Verdict {
                rules: self,
                fired: Some(number),
                outcome: &rule.outcome,
                reasons: reasons
                    .filter_map(|condition| Some((*condition, value(condition)?)))
                    .collect(),
                passed_over,
            };
        }
        Verdict {
            rules: self,
            fired: None,
            outcome: &self.default,
            reasons: Vec::new(),
            passed_over,
        }
    }
}

impl Rule {
    /// The conditions.
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// The outcome if they hold.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }
}

impl Condition {
    /// Whether the condition holds for a value. It does not hold for a missing value.
    pub fn holds(&self, value: Option<f64>) -> bool {
        value.is_some_and(|value| match self.operator {
            Operator::AtMost => value <= self.threshold,
            Operator::AtLeast => value >= self.threshold,
            Operator::Above => value > self.threshold,
            #[expect(clippy::float_cmp, reason = "codes are compared, not measurements")]
            Operator::Equal => value == self.threshold,
        })
    }
}

impl Verdict<'_> {
    /// The metrics of conditions that had no value.
    pub fn missing(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for (condition, value) in &self.passed_over {
            let name = self.rules.metrics[condition.metric].name.as_str();
            if value.is_none() && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn condition(&self, condition: &Condition) -> String {
        let metric = &self.rules.metrics[condition.metric];
        let unit = if metric.unit.is_empty() { "" } else { " " };
        let Condition {
            operator, threshold, ..
        } = condition;
        format!("{} {operator} {threshold}{unit}{}", metric.name, metric.unit)
    }
}

/// A line for the rule that fired, with its values, and a line for each earlier rule, with the condition that did not
/// hold.
impl fmt::Display for Verdict<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.rules.list.len();
        match self.fired {
            Some(rule) => write!(f, "rule {} of {total} says {}: ", rule + 1, self.outcome.class)?,
            None => write!(f, "none of {total} rules holds, which says {}", self.outcome.class)?,
        }
        for (number, (condition, value)) in self.reasons.iter().enumerate() {
            let and = if number == 0 { "" } else { " and " };
            write!(f, "{and}{}, it is {value}", self.condition(condition))?;
        }
        let Outcome { coverage, errors, .. } = self.outcome;
        write!(f, " ({coverage} training rows, {errors} of another class)")?;
        for (number, (condition, value)) in self.passed_over.iter().enumerate() {
            write!(f, "\n  rule {} asks for {}, ", number + 1, self.condition(condition))?;
            match value {
                Some(value) => write!(f, "it is {value}")?,
                None => write!(f, "which is missing")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtMost => "<=",
            Self::AtLeast => ">=",
            Self::Above => ">",
            Self::Equal => "=",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rules(text: &str) -> Rules {
        text.parse().unwrap()
    }

    fn two_rules() -> Rules {
        rules(include_str!("../../tests/data/two_rules.json"))
    }

    #[test]
    fn the_first_rule_of_which_all_conditions_hold_fires() {
        let rules = two_rules();
        let verdict = rules.evaluate(&[Some(0.5), Some(2e8)]);
        assert_eq!((verdict.fired, verdict.outcome.class.as_str()), (Some(0), "SLP"));
        let verdict = rules.evaluate(&[Some(0.5), Some(1e7)]);
        assert_eq!((verdict.fired, verdict.outcome.class.as_str()), (Some(1), "Slp"));
        let verdict = rules.evaluate(&[Some(1.5), Some(1e7)]);
        assert_eq!((verdict.fired, verdict.outcome.class.as_str()), (None, "slp"));
    }

    #[test]
    fn a_threshold_itself_fulfils_its_condition() {
        assert_eq!(two_rules().evaluate(&[Some(0.75), Some(1.5e8)]).fired, Some(0));
    }

    #[test]
    fn a_missing_value_is_not_zero() {
        let rules = two_rules();
        assert_eq!(rules.evaluate(&[Some(0.0), Some(0.0)]).fired, Some(1));
        let verdict = rules.evaluate(&[None, Some(0.0)]);
        assert_eq!(verdict.fired, None);
        assert_eq!(verdict.missing(), ["ipc"]);
        assert_eq!(rules.evaluate(&[Some(f64::NAN), Some(0.0)]).missing(), ["ipc"]);
    }

    #[test]
    fn a_verdict_has_the_rule_that_fired_and_its_values() {
        assert_eq!(
            two_rules().evaluate(&[Some(0.5), Some(2e8)]).to_string(),
            "rule 1 of 2 says SLP: ipc <= 0.75 instructions/cycle, it is 0.5 and event:l3_misses >= 150000000 1/s, it is \
             200000000 (20 training rows, 1 of another class)"
        );
        assert_eq!(
            two_rules().evaluate(&[Some(0.9), None]).to_string(),
            "none of 2 rules holds, which says slp (30 training rows, 4 of another class)\n  rule 1 asks for ipc <= 0.75 \
             instructions/cycle, it is 0.9\n  rule 2 asks for event:l3_misses <= 20000000 1/s, which is missing"
        );
    }

    #[test]
    #[should_panic(expected = "one value for each metric")]
    fn each_metric_needs_a_value() {
        two_rules().evaluate(&[Some(1.0)]);
    }

    fn any_condition() -> impl Strategy<Value = Condition> {
        let operator = prop::sample::select(vec![
            Operator::AtMost,
            Operator::AtLeast,
            Operator::Above,
            Operator::Equal,
        ]);
        (0..3_usize, operator, 0..5_u8).prop_map(|(metric, operator, threshold)| Condition {
            metric,
            operator,
            threshold: f64::from(threshold),
        })
    }

    fn any_rules() -> impl Strategy<Value = Rules> {
        let rule = prop::collection::vec(any_condition(), 1..4);
        prop::collection::vec(rule, 0..5).prop_map(|rules| {
            let outcome = |class: String| Outcome {
                class,
                coverage: 0,
                errors: 0,
            };
            let rules = rules.into_iter().enumerate();
            Rules {
                metrics: vec![two_rules().metrics[0].clone(); 3],
                list: rules
                    .map(|(number, conditions)| Rule {
                        conditions,
                        outcome: outcome(number.to_string()),
                    })
                    .collect(),
                default: outcome("default".to_owned()),
                trained: two_rules().trained,
            }
        })
    }

    proptest! {
        #[test]
        fn every_condition_of_the_rule_that_fired_holds_and_one_of_each_before_does_not(
            rules in any_rules(),
            values in prop::collection::vec(prop::option::of((0..5_u8).prop_map(f64::from)), 3),
        ) {
            let verdict = rules.evaluate(&values);
            let holds = |condition: &Condition| condition.holds(values[condition.metric]);
            let before = verdict.fired.unwrap_or(rules.list.len());
            prop_assert_eq!(verdict.passed_over.len(), before);
            for rule in &rules.list[..before] {
                prop_assert!(!rule.conditions.iter().all(holds));
            }
            for (condition, value) in &verdict.passed_over {
                prop_assert!(!holds(condition));
                prop_assert_eq!(*value, values[condition.metric]);
            }
            if let Some(fired) = verdict.fired {
                prop_assert!(rules.list[fired].conditions.iter().all(holds));
                prop_assert_eq!(verdict.reasons.len(), rules.list[fired].conditions.len());
            }
        }
    }
}
