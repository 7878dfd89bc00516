//! The core and its translation lookaside buffer.

use super::Writer;
use super::text::{as_in, digits, measured, whole};
use pinfold_core::measurement::{Processor, Relation, TranslationPoint};

impl Writer<'_> {
    pub(super) fn core(&mut self) {
        let calibration = self.calibration;
        self.table("[core]");
        self.number(
            "frequency",
            &format!("ghz = {}", digits(calibration.frequency.value * 1e-9)),
            &measured("dependent additions", calibration.frequency),
        );
        self.instruction_cost();
        let similar = self.similar.core.clone();
        for (key, number) in [
            ("reorder_buffer", &similar.reorder_buffer),
            ("store_buffer", &similar.store_buffer),
        ] {
            self.count(key, number.value().0 as usize, &as_in(&self.similar, number));
        }
        self.count(
            "line_fill_buffers",
            whole(calibration.parallelism.value),
            &measured(
                "independent loads from memory, relative to one",
                calibration.parallelism,
            ),
        );
        self.microarchitecture();
        self.atomic_instructions();
        if self.shape.threads_per_core > 1 {
            self.smt_throughput();
        }
    }

    fn instruction_cost(&mut self) {
        let frequency = self.calibration.frequency.value;
        let loops = &self.calibration.instruction;
        let cycles: Vec<f64> = loops.iter().map(|one| one.value * frequency).collect();
        let mean = (cycles.iter().map(|cycles| cycles.ln()).sum::<f64>() / cycles.len() as f64).exp();
        let each: Vec<String> = cycles.iter().map(|&cycles| digits(cycles)).collect();
        self.number(
            "base_cpi",
            &format!("cycles = {}", digits(mean)),
            &format!(
                "measured: geometric mean of {} loops (a triad, a sum, unpredictable branches, registers)",
                each.join(", ")
            ),
        );
    }

    /// The latencies and ports of the instructions. They come from the processor's own core if pinfold knows it.
    fn microarchitecture(&mut self) {
        let known = self.calibration.processor.as_ref().and_then(|processor| {
            let name = microarchitecture_of(processor)?;
            let Processor { vendor, family, model } = processor;
            let source = format!("reported by the processor (CPUID): {vendor}, family {family}, model {model}");
            Some((name.to_owned(), source))
        });
        let similar = self.similar.core.microarchitecture.clone();
        let like = similar.map(|name| (name.value().0, as_in(&self.similar, &name)));
        if let Some((name, source)) = known.or(like) {
            self.number("microarchitecture", &format!("name = \"{name}\""), &source);
        }
    }

    fn atomic_instructions(&mut self) {
        let calibration = self.calibration;
        self.number(
            "locked",
            &format!(
                "cycles = {}",
                digits(calibration.atomic.value * calibration.frequency.value)
            ),
            &measured("atomic additions to a line in the L1", calibration.atomic),
        );
        let Some((_, pair)) = calibration.pairs.iter().find(|(_, pair)| !pair.siblings()) else {
            return;
        };
        let what = format!(
            "atomic additions on CPU {} to lines that CPU {} has modified take {:.1} ns each, and a load of such a line \
             {:.1} ns",
            pair.pus.1,
            pair.pus.0,
            1e9 * pair.atomic.value,
            1e9 * pair.modified.value
        );
        let overlapping = pair.modified.value / pair.atomic.value;
        self.count("locked_misses", whole(overlapping), &measured(&what, pair.atomic));
    }

    fn smt_throughput(&mut self) {
        let threads = self.shape.threads_per_core;
        let pair = self
            .calibration
            .pairs
            .iter()
            .find(|(relation, pair)| *relation == Relation::SameCore || pair.siblings());
        match (pair, self.similar.core.smt_throughput.clone()) {
            (Some((_, pair)), _) => {
                let source = format!(
                    "measured: mean of four loops on CPUs {} and {} together, relative to one",
                    pair.pus.0, pair.pus.1
                );
                let ratio = digits(pair.throughput.clamp(1.0, threads as f64));
                self.number("smt_throughput", &format!("ratio = {ratio}"), &source);
            }
            (None, Some(number)) => {
                let source = as_in(&self.similar, &number);
                self.number("smt_throughput", &format!("ratio = {}", number.value().0), &source);
            }
            (None, None) => self.number(
                "smt_throughput",
                "ratio = 1.25",
                "assumed: between the 1.15 and 1.3 that Marr et al. (Intel Technology Journal, 2002) give for \
                 Hyper-Threading",
            ),
        }
    }

    pub(super) fn translation(&mut self) {
        let similar = self.similar.tlb.clone();
        let frequency = self.calibration.frequency.value;
        self.table("[tlb]");
        let ways = similar.ways.value().0;
        if let Some((entries, walk)) = translation(&self.calibration.translation) {
            let sets = (entries / f64::from(ways)).log2().round().max(0.0).exp2();
            self.count(
                "entries",
                whole(sets) * ways as usize,
                "measured: the highest number of pages for which less than half of a walk's time is added to a load",
            );
            self.count("ways", ways as usize, &as_in(&self.similar, &similar.ways));
            self.number(
                "walk",
                &format!("cycles = {}", digits(walk * frequency)),
                "measured: the time of a load in small pages less that in huge pages, the median of all numbers of pages \
                 beyond twice the entries",
            );
        } else {
            self.count(
                "entries",
                similar.entries.value().0 as usize,
                &as_in(&self.similar, &similar.entries),
            );
            self.count("ways", ways as usize, &as_in(&self.similar, &similar.ways));
            let walk = similar.walk.value().cycles(self.similar.frequency());
            self.number(
                "walk",
                &format!("cycles = {}", digits(walk)),
                &as_in(&self.similar, &similar.walk),
            );
        }
    }
}

/// The entries of the last translation lookaside buffer, and the seconds of a walk. `None` if the measurement does not
/// show the end of the buffer.
///
/// While the number of pages grows, a load in small pages first costs as much as one in huge pages, then in addition
/// the time of the second-level buffer, and finally the time of walks. The entries are the highest number of pages
/// whose additional cost is less than half of a walk.
fn translation(points: &[TranslationPoint]) -> Option<(f64, f64)> {
    let cost = |point: &TranslationPoint| (point.small.value - point.huge.value).max(0.0);
    let beyond: Vec<f64> = points.iter().rev().take(4).map(cost).collect();
    let mut sorted = beyond.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let walk = *sorted.get(sorted.len() / 2)?;
    let huge = points.first()?.huge.value;
    if walk < huge {
        return None;
    }
    let entries = points.iter().rfind(|point| cost(point) < walk / 2.0)?.pages as f64;
    Some((entries, walk))
}

/// The core of a processor by its numbers, as in the Linux kernel's arch/x86/include/asm/intel-family.h and
/// arch/x86/kernel/cpu/amd.c. `None` if pinfold has no latencies for it.
pub(super) fn microarchitecture_of(processor: &Processor) -> Option<&'static str> {
    Some(match (processor.vendor.as_str(), processor.family, processor.model) {
        ("GenuineIntel", 6, 0x0f | 0x16 | 0x17 | 0x1d) => "core2",
        ("GenuineIntel", 6, 0x2a | 0x2d | 0x3a | 0x3e) => "sandy_bridge",
        ("GenuineIntel", 6, 0x3c | 0x3d | 0x3f | 0x45 | 0x46 | 0x47 | 0x4f | 0x56) => "haswell",
        ("GenuineIntel", 6, 0x4e | 0x55 | 0x5e | 0x8e | 0x9e) => "skylake_sp",
        ("GenuineIntel", 6, 0x8f | 0xcf) => "golden_cove",
        ("AuthenticAMD", 0x10, _) => "k10",
        ("AuthenticAMD", 0x19, 0x10..=0x1f | 0x60..=0x7f | 0xa0..=0xaf) => "zen4",
        ("AuthenticAMD", 0x19, _) => "zen3",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_sim::model::{MicroarchitectureName, Model};

    #[test]
    fn every_known_processor_has_a_core_that_a_model_can_name() {
        let known = |vendor: &str, family, model| {
            microarchitecture_of(&Processor {
                vendor: vendor.to_owned(),
                family,
                model,
            })
        };
        assert_eq!(known("AuthenticAMD", 0x19, 0x11), Some("zen4"));
        assert_eq!(known("AuthenticAMD", 0x19, 0x01), Some("zen3"));
        assert_eq!(known("GenuineIntel", 6, 0x55), Some("skylake_sp"));
        assert_eq!(known("GenuineIntel", 6, 0x1c), None);
        let text = include_str!("../../../../machines/platinum-8168x2.toml");
        for model in 0..=0xff {
            for (vendor, family) in [("GenuineIntel", 6), ("AuthenticAMD", 0x10), ("AuthenticAMD", 0x19)] {
                let Some(name) = known(vendor, family, model) else {
                    continue;
                };
                let text = text.replace("name = \"skylake_sp\"", &format!("name = \"{name}\""));
                let read = Model::parse("x", &text).unwrap().core.microarchitecture.unwrap();
                assert_eq!(read.value(), MicroarchitectureName(name.to_owned()));
            }
        }
    }
}
