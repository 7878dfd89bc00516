//! The bandwidth and latency limits of a machine, from its model, for `classify`.

use pinfold_policy::classify::MachinePeaks;
use pinfold_sim::model::Model;

/// The peaks of a model. A machine of one node has no other node's memory, and no link to it.
pub fn peaks_of_model(model: &Model) -> MachinePeaks {
    let nodes = model.nodes();
    let routes = model.routes();
    let pairs = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to)));
    let others: Vec<f64> = pairs
        .filter(|(from, to)| from != to)
        .map(|(from, to)| routes.latency(from, to))
        .collect();
    let local = model.memory.latency.value().cycles(model.frequency());
    let mean = others.iter().sum::<f64>() / others.len() as f64;
    MachinePeaks {
        node_bandwidth: Some(model.memory.bandwidth.value().0),
        link_bandwidth: routes.links().iter().map(|link| link.bandwidth).reduce(f64::min),
        latency_ratio: (!others.is_empty()).then_some((local + mean) / local),
        frequency: Some(model.frequency().0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_sim::model::builtin;

    #[test]
    fn the_peaks_of_a_model_are_those_of_its_memory_and_links() {
        let peaks = peaks_of_model(&builtin("e5-2680v3x2").unwrap());
        assert_eq!(peaks.node_bandwidth, Some(30.5e9));
        assert_eq!(peaks.link_bandwidth, Some(15.15e9));
        // A load adds 6.0 ns to the other node of the package, and 51.4 and 57.4 ns to the two nodes of the other
        // package.
        let expected = (89.6 + (6.0 + 51.4 + 57.4) / 3.0) / 89.6;
        assert!((peaks.latency_ratio.unwrap() - expected).abs() < 1e-9, "{peaks:?}");
    }
}
