//! Prefetchers, the costs of the operating system, and energy.

use super::Writer;
use super::text::{as_in, digits, measured, whole, word};
use pinfold_core::measurement::Traffic;
use pinfold_sim::model::LINE_BYTES;

/// The number of polls of a waiting thread before it sleeps, if threads outnumber CPUs. This is libgomp's default
/// (config/linux/wait.h and env.c of GCC).
const POLLS: f64 = 100.0;

impl Writer<'_> {
    pub(super) fn prefetch(&mut self) {
        let calibration = self.calibration;
        let similar = self.similar.prefetch.clone();
        self.table("[prefetch]");
        let (memory, _) = self.memory_latency();
        let names: Vec<String> = similar.present.value().0.iter().map(word).collect();
        let source = format!(
            "{}; measured: a load from memory in ascending order takes {} ns, in random order {} ns, so {}",
            as_in(&self.similar, &similar.present),
            digits(1e9 * calibration.foreseen.value),
            digits(1e9 * memory),
            if calibration.foreseen.value < memory / 2.0 {
                "there are prefetchers"
            } else {
                "no prefetcher has an effect"
            }
        );
        self.number("present", &format!("names = [{}]", names.join(", ")), &source);
        let distance = &similar.streamer_distance;
        let source = as_in(&self.similar, distance);
        self.count("streamer_distance", distance.value().0 as usize, &source);
        let reading = self.local().find(|one| one.cores == 1 && one.traffic == Traffic::Read);
        if let Some(reading) = reading {
            let lines = reading.rate.value * memory / LINE_BYTES as f64;
            let what = format!(
                "one core reads {:.1} GB/s; the number of lines is this rate multiplied by the latency of memory, {} ns \
                 (Little's law)",
                reading.rate.value * 1e-9,
                digits(1e9 * memory)
            );
            self.count("in_flight", whole(lines), &measured(&what, reading.rate));
        } else {
            let source = as_in(&self.similar, &similar.in_flight);
            self.count("in_flight", similar.in_flight.value().0 as usize, &source);
        }
        let has_l3 = self.shape.caches.len() > 2;
        let buffers = whole(calibration.parallelism.value);
        for (key, number) in similar.optional() {
            if !has_l3 && ["streamer_l2_below", "llc_in_flight"].contains(&key) {
                continue;
            }
            let most = if key.ends_with("_below") { buffers } else { usize::MAX };
            let source = as_in(&self.similar, number);
            self.count(key, most.min(number.value().0 as usize), &source);
        }
    }

    pub(super) fn system(&mut self) {
        let system = self.calibration.system;
        self.table("[system]");
        self.nanoseconds(
            "call",
            system.call.value,
            &measured("a futex call that wakes nobody", system.call),
        );
        let calls = format!(
            "two threads on one CPU wake each other in turn, {:.0} ns each time, less two futex calls",
            1e9 * system.hand_over.value
        );
        let switch = (system.hand_over.value - 2.0 * system.call.value).max(system.call.value);
        self.nanoseconds("switch", switch, &measured(&calls, system.hand_over));
        self.nanoseconds(
            "poll",
            POLLS * system.pause.value,
            &measured(
                "a hundred pauses: the polling of GCC's libgomp where threads outnumber CPUs",
                system.pause,
            ),
        );
    }

    pub(super) fn energy(&mut self) {
        let similar = self.similar.clone();
        self.table("[energy]");
        let energy = &similar.energy;
        for (key, watts) in [
            ("package_idle", &energy.package_idle),
            ("core_active", &energy.core_active),
            ("memory_idle", &energy.memory_idle),
        ] {
            self.number(
                key,
                &format!("watts = {}", digits(watts.value().0)),
                &as_in(&similar, watts),
            );
        }
        for (key, joules) in [
            ("instruction", &energy.instruction),
            ("link_line", &energy.link_line),
            ("memory_line", &energy.memory_line),
        ] {
            let value = format!("nj = {}", digits(joules.value().0 * 1e9));
            self.number(key, &value, &as_in(&similar, joules));
        }
    }
}
