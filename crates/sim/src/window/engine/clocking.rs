//! Cores whose clock depends on the active cores of their package.

use super::Engine;
use crate::window::thread::CoreTimes;

impl<const W: usize> Engine<'_, W> {
    /// A thread has moved from one PU to another.
    pub(super) fn change_clocks(&mut self, from: usize, to: usize) {
        if let Some(clocks) = &mut self.clocks {
            clocks.move_thread(self.pus[from].core, self.pus[to].core);
            self.set_clocks();
        }
    }

    /// Lets each core run at the clock that its package has now.
    pub(super) fn set_clocks(&mut self) {
        let Some(clocks) = &mut self.clocks else { return };
        for (core, state) in self.cores.iter_mut().enumerate() {
            let clock = clocks.of_core(core);
            if clock != state.times.clock {
                state.times = CoreTimes::new(self.model, clock);
                self.system.caches.set_clock(self.model, core, clock);
            }
        }
        for (number, thread) in self.threads.iter_mut().enumerate() {
            thread.steps = clocks.table(number, self.pus[thread.pu].core);
        }
    }
}
