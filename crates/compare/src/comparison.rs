//! The runs of a comparison.

use crate::{Choice, Relative, Summary};
use pinfold_core::MachineKind;
use serde::Serialize;
use std::path::PathBuf;

/// The kind of a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The program without pinfold. In a simulation the simulated operating system alone places it.
    Alone,
    /// The program under pinfold, which leaves threads to the operating system.
    Unpinned,
    /// The program under a policy.
    Policy,
}

/// One run that ended. Times are in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedRun {
    /// The time from its start to its end.
    pub time: f64,
    /// Processor time in user mode, including pinfold's; `None` for a simulated run.
    pub user: Option<f64>,
    /// Processor time in the kernel, including pinfold's; `None` for a simulated run.
    pub system: Option<f64>,
    /// The exit status of the program, or 128 plus the number of the signal.
    pub exit_status: i32,
    /// The choice of the policy; `None` without a policy that chooses.
    pub choice: Option<Choice>,
}

/// One way to run the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// The name in the table.
    pub name: String,
    /// Its kind.
    pub role: Role,
    /// The options of `pinfold run` for all its runs; `None` if the program runs without pinfold.
    pub options: Option<Vec<String>>,
    /// The measured runs, in their order.
    pub runs: Vec<FinishedRun>,
}

impl Variant {
    /// The times of its runs.
    pub fn times(&self) -> Vec<f64> {
        self.runs.iter().map(|run| run.time).collect()
    }

    /// The statistics of its times; `None` if it has no runs.
    pub fn summary(&self) -> Option<Summary> {
        Summary::of(&self.times())
    }

    /// The mean of a figure of its runs; `None` if a run lacks it or there are no runs.
    pub fn mean(&self, figure: impl Fn(&FinishedRun) -> Option<f64>) -> Option<f64> {
        let values: Option<Vec<f64>> = self.runs.iter().map(figure).collect();
        Some(Summary::of(&values?)?.mean)
    }

    /// The known choices of its policy.
    pub(crate) fn choices(&self) -> Vec<&Choice> {
        self.runs.iter().filter_map(|run| run.choice.as_ref()).collect()
    }
}

/// A policy that was not compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The name.
    pub policy: String,
    /// The reason and the remedy.
    pub why: String,
}

/// The simulation, or the replay of a table, that replaces measured runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Simulated {
    /// Where the times come from.
    #[serde(skip)]
    pub kind: MachineKind,
    /// The recording; `None` if this comparison made it, and for a table.
    pub recording: Option<PathBuf>,
    /// The number of executions of what was recorded or measured, in each run.
    pub repeat: u64,
    /// The seed of the first round. Each round adds one.
    pub first_seed: u64,
    /// The version of the simulated Linux, which places the program alone; `None` for a table.
    pub kernel: Option<String>,
    /// Whether its automatic NUMA balancing was on; `None` for a table.
    pub numa_balancing: Option<bool>,
}

/// A comparison, complete or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The name of the machine.
    pub machine: String,
    /// The simulation; `None` if runs were measured.
    pub simulated: Option<Simulated>,
    /// The variants, in the order in which they run. The first is the program alone.
    pub variants: Vec<Variant>,
    /// The policies that pinfold left out although the user named none.
    pub left_out: Vec<LeftOut>,
    /// The reason why the comparison ended before all runs were made; `None` for a complete comparison.
    pub ended_early: Option<String>,
}

impl Comparison {
    /// Whether there is a run to report.
    pub fn has_runs(&self) -> bool {
        self.variants.iter().any(|variant| !variant.runs.is_empty())
    }

    /// The total time of all runs.
    pub fn spent(&self) -> f64 {
        let runs = self.variants.iter().flat_map(|variant| &variant.runs);
        runs.map(|run| run.time).sum()
    }

    /// Compares a variant with the program alone. `None` for the program alone, and if one of the two has no runs.
    pub fn relative(&self, variant: &Variant) -> Option<Relative> {
        let alone = self.variants.iter().find(|variant| variant.role == Role::Alone)?;
        if variant.role == Role::Alone {
            return None;
        }
        Relative::of(&variant.times(), &alone.times())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Difference;

    /// A variant with runs of these times.
    pub(crate) fn variant(name: &str, role: Role, times: &[f64]) -> Variant {
        let run = |&time: &f64| FinishedRun {
            time,
            user: Some(2.0 * time),
            system: Some(0.0),
            exit_status: 0,
            choice: None,
        };
        Variant {
            name: name.to_owned(),
            role,
            options: (role != Role::Alone).then(|| vec![format!("--policy={name}")]),
            runs: times.iter().map(run).collect(),
        }
    }

    /// A complete comparison of these variants on a real machine.
    pub(crate) fn comparison(variants: Vec<Variant>) -> Comparison {
        Comparison {
            command: vec!["program".to_owned(), "input file".to_owned()],
            machine: "2 packages".to_owned(),
            simulated: None,
            variants,
            left_out: vec![],
            ended_early: None,
        }
    }

    #[test]
    fn variants_are_compared_with_the_program_alone_which_is_not_compared_with_itself() {
        let compared = comparison(vec![
            variant("alone", Role::Alone, &[2.0, 2.1, 1.9]),
            variant("autopin", Role::Policy, &[1.0, 1.1, 0.9]),
        ]);
        let relative = |of: usize| compared.relative(&compared.variants[of]);
        assert_eq!(relative(0), None);
        assert_eq!(relative(1).unwrap().difference(), Difference::Faster);
        assert!((compared.spent() - 9.0).abs() < 1e-12);
    }

    #[test]
    fn a_figure_that_one_run_lacks_has_no_mean() {
        let mut one = variant("alone", Role::Alone, &[1.0, 3.0]);
        assert_eq!(one.mean(|run| run.user), Some(4.0));
        one.runs[1].user = None;
        assert_eq!(one.mean(|run| run.user), None);
    }
}
