//! The metrics of table 2 of Denoyelle et al. (ICPP 2019), from the exchanges between threads.
//!
//! The paper gives most of them in words. If the words permit several formulas, this is the reading:
//!
//! - `CC`, "average normalized amount per thread": the exchanges of a thread with all others per access of it, averaged
//!   over the threads that access anything.
//! - `CB`, balance: "the average matrix value over the maximum matrix value", over the pairs of different threads.
//! - `CH`, heterogeneity: "the proportion of interthreads exchanges over accesses to private data".
//! - `NB`, "the sum of adjacent thread pairs communications over the sum of matrix values". Adjacent threads are
//!   created one after the other.
//! - `clusterSD`: "the standard deviation across NUMA domains (i.e. groups of consecutive thread IDs inside the same
//!   NUMA node) of the sum of values inside the corresponding domain", with the threads in the default placement,
//!   compact.
//! - `hop_element`: "the average number of hops per communication/sharing" in the topology, in the default placement.

use super::lines::Moments;
use super::{Interactions, Matrix, Spread};

/// A machine with the threads in the default placement.
pub struct Machine<'a> {
    /// For each thread, the NUMA node of its core.
    pub nodes: &'a [usize],
    /// The number of hops between the cores of two threads.
    pub hops: &'a dyn Fn(usize, usize) -> usize,
}

/// The metrics of table 2, with the paper's names. `None` is a ratio without a denominator, or a metric that needs a
/// machine if there is none.
#[derive(Clone, Debug, PartialEq)]
pub struct Metrics {
    /// The metrics of the sharing between threads.
    pub sharing: PairMetrics,
    /// The metrics of the communications between threads.
    pub communications: PairMetrics,
    /// `avg_sharing_degree`, `sd_sharing_degree`: threads that access a line.
    pub sharing_degree: Spread,
    /// `avg_write_ratio`, `sd_write_ratio`: writes per access to a line.
    pub write_ratio: Spread,
    /// `avg_shared_write_ratio`, `sd_shared_write_ratio`: the same for shared lines.
    pub shared_write_ratio: Spread,
    /// `avg_write_degree`, `sd_write_degree`: threads that write a line.
    pub write_degree: Spread,
    /// `footprint`: the number of lines.
    pub footprint: u64,
    /// `sd_thread_footprint`: the standard deviation of the lines of a thread.
    pub thread_footprint_deviation: Option<f64>,
}

/// Metrics of a matrix of exchanges between threads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PairMetrics {
    /// `CC`: exchanges per access of a thread, averaged over threads.
    pub amount: Option<f64>,
    /// `CB`: the mean of pairs divided by the maximum.
    pub balance: Option<f64>,
    /// `CH`: exchanges per access to private lines.
    pub heterogeneity: Option<f64>,
    /// `NB`: the share of adjacent threads.
    pub neighbours: Option<f64>,
    /// `clusterSD`: the standard deviation of the exchanges within a NUMA node.
    pub cluster_deviation: Option<f64>,
    /// `hop_element`: hops per exchange.
    pub hops: Option<f64>,
}

impl Metrics {
    /// Computes the metrics, including those that need a machine if there is one.
    pub fn of(found: &Interactions, machine: Option<&Machine<'_>>) -> Self {
        let mut footprints = Moments::default();
        for &lines in &found.lines_by_thread {
            footprints.add(lines as f64);
        }
        Self {
            sharing: pairs(&found.sharing, found, machine),
            communications: pairs(&found.communications, found, machine),
            sharing_degree: found.lines.sharing_degree,
            write_ratio: found.lines.write_ratio,
            shared_write_ratio: found.lines.shared_write_ratio,
            write_degree: found.lines.write_degree,
            footprint: found.lines.number,
            thread_footprint_deviation: footprints.spread().deviation,
        }
    }

    /// All metrics under the names of the paper's table 2, in its order.
    pub fn named(&self) -> Vec<(String, Option<f64>)> {
        let pairs = [("sharing", self.sharing), ("communications", self.communications)];
        let of_pairs = pairs.into_iter().flat_map(|(of, pairs)| {
            [
                ("CC", pairs.amount),
                ("CB", pairs.balance),
                ("CH", pairs.heterogeneity),
                ("NB", pairs.neighbours),
                ("clusterSD", pairs.cluster_deviation),
                ("hop_element", pairs.hops),
            ]
            .map(|(name, value)| (format!("{of}_{name}"), value))
        });
        let of_lines = [
            ("sharing_degree", self.sharing_degree),
            ("write_ratio", self.write_ratio),
            ("shared_write_ratio", self.shared_write_ratio),
            ("write_degree", self.write_degree),
        ]
        .into_iter()
        .flat_map(|(name, spread)| {
            [
                (format!("avg_{name}"), spread.mean),
                (format!("sd_{name}"), spread.deviation),
            ]
        });
        let footprints = [
            ("footprint".to_owned(), Some(self.footprint as f64)),
            ("sd_thread_footprint".to_owned(), self.thread_footprint_deviation),
        ];
        of_pairs.chain(of_lines).chain(footprints).collect()
    }
}

fn pairs(matrix: &Matrix, found: &Interactions, machine: Option<&Machine<'_>>) -> PairMetrics {
    let threads = matrix.len();
    let all = || (0..threads).flat_map(|one| (0..threads).map(move |other| (one, other)));
    let value = |(one, other): (usize, usize)| matrix[one][other] as f64;
    let sum: f64 = all().map(value).sum();
    let largest = all().map(value).fold(0.0, f64::max);
    let number = threads * threads.saturating_sub(1);
    let mut amount = Moments::default();
    for thread in (0..threads).filter(|&thread| found.accesses[thread] > 0) {
        let mine: u64 = matrix[thread].iter().sum();
        amount.add(mine as f64 / found.accesses[thread] as f64);
    }
    let adjacent: f64 = all().filter(|(one, other)| one.abs_diff(*other) == 1).map(value).sum();
    PairMetrics {
        amount: amount.spread().mean,
        balance: ratio(sum / number.max(1) as f64, largest),
        heterogeneity: ratio(sum, found.private_accesses as f64),
        neighbours: ratio(adjacent, sum),
        cluster_deviation: machine.and_then(|machine| cluster_deviation(matrix, machine)),
        hops: machine.and_then(|machine| {
            let hops = all().map(|pair| value(pair) * (machine.hops)(pair.0, pair.1) as f64);
            ratio(hops.sum(), sum)
        }),
    }
}

fn cluster_deviation(matrix: &Matrix, machine: &Machine<'_>) -> Option<f64> {
    let clusters = machine.nodes.iter().max().map_or(0, |&node| node + 1);
    let mut inside = vec![0.0; clusters];
    for (one, row) in matrix.iter().enumerate() {
        for (other, &value) in row.iter().enumerate() {
            if machine.nodes[one] == machine.nodes[other] {
                inside[machine.nodes[one]] += value as f64;
            }
        }
    }
    let mut moments = Moments::default();
    for sum in inside {
        moments.add(sum);
    }
    moments.spread().deviation
}

fn ratio(value: f64, by: f64) -> Option<f64> {
    (by > 0.0).then_some(value / by)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LineStatistics;

    /// Four threads: 0 and 1 exchange much, 2 and 3 a little, 0 and 3 once.
    fn exchanges() -> Interactions {
        let mut matrix = vec![vec![0; 4]; 4];
        matrix[0][1] = 6;
        matrix[1][0] = 2;
        matrix[2][3] = 3;
        matrix[0][3] = 1;
        Interactions {
            communications: matrix,
            sharing: vec![vec![0; 4]; 4],
            accesses: vec![14, 4, 6, 0],
            lines_by_thread: vec![4, 2, 2, 0],
            private_accesses: 24,
            lines: LineStatistics {
                number: 5,
                ..LineStatistics::default()
            },
        }
    }

    #[test]
    fn the_metrics_of_four_threads_are_those_worked_out_by_hand() {
        let found = Metrics::of(&exchanges(), None);
        let pairs = found.communications;
        // 7 of 14, 2 of 4, 3 of 6 accesses; thread 3 has none.
        assert_eq!(pairs.amount, Some(0.5));
        // 12 exchanges of 12 pairs, the largest 6.
        assert_eq!(pairs.balance, Some(1.0 / 6.0));
        assert_eq!(pairs.heterogeneity, Some(0.5));
        assert_eq!(pairs.neighbours, Some(11.0 / 12.0));
        assert_eq!((pairs.cluster_deviation, pairs.hops), (None, None));
        assert_eq!(found.thread_footprint_deviation, Some(2.0_f64.sqrt()));
    }

    #[test]
    fn a_machine_gives_the_exchanges_within_nodes_and_the_hops() {
        let machine = Machine {
            nodes: &[0, 0, 1, 1],
            hops: &|one, other| if one / 2 == other / 2 { 2 } else { 8 },
        };
        let pairs = Metrics::of(&exchanges(), Some(&machine)).communications;
        // 8 within the first node and 3 within the second.
        assert_eq!(pairs.cluster_deviation, Some(2.5));
        assert_eq!(pairs.hops, Some((11.0 * 2.0 + 8.0) / 12.0));
    }

    #[test]
    fn without_exchanges_there_are_no_ratios_of_them() {
        let sharing = Metrics::of(&exchanges(), None).sharing;
        assert_eq!((sharing.balance, sharing.neighbours, sharing.hops), (None, None, None));
        assert_eq!((sharing.amount, sharing.heterogeneity), (Some(0.0), Some(0.0)));
    }

    #[test]
    fn each_metric_has_the_papers_name() {
        let names: Vec<String> = Metrics::of(&exchanges(), None)
            .named()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        let paper = "sharing_CC sharing_CB sharing_CH sharing_NB sharing_clusterSD sharing_hop_element \
                     communications_CC communications_CB communications_CH communications_NB \
                     communications_clusterSD communications_hop_element avg_sharing_degree sd_sharing_degree \
                     avg_write_ratio sd_write_ratio avg_shared_write_ratio sd_shared_write_ratio avg_write_degree \
                     sd_write_degree footprint sd_thread_footprint";
        assert_eq!(names.join(" "), paper);
    }
}
