//! A total over tasks that stays when tasks end.

use std::collections::HashMap;

/// The sum of a counter of each task, over living and ended tasks.
#[derive(Debug, Default)]
pub(crate) struct TaskSum {
    /// The last reading of each living task, by serial.
    living: HashMap<u64, u64>,
    ended: u64,
    has_read: bool,
}

impl TaskSum {
    /// Takes a task's reading. A counter never shrinks: a smaller one is of another task.
    pub(crate) fn read(&mut self, serial: u64, value: u64) {
        let last = self.living.entry(serial).or_default();
        *last = value.max(*last);
        self.has_read = true;
    }

    /// Keeps the last reading of a task that has ended.
    pub(crate) fn end(&mut self, serial: u64) {
        self.ended = self.ended.wrapping_add(self.living.remove(&serial).unwrap_or(0));
    }

    /// The total. `None` if no task could be read so far.
    pub(crate) fn total(&self) -> Option<u64> {
        let total = self
            .living
            .values()
            .fold(self.ended, |sum, value| sum.wrapping_add(*value));
        self.has_read.then_some(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_total_without_readings_is_missing_and_not_zero() {
        let mut sum = TaskSum::default();
        sum.end(3);
        assert_eq!(sum.total(), None);
        sum.read(3, 0);
        assert_eq!(sum.total(), Some(0));
    }

    proptest! {
        /// Each event is a task, what it counts more, and whether it ends then.
        #[test]
        fn the_total_is_what_all_tasks_have_counted(
            events in proptest::collection::vec((0_u64..4, 0_u64..1000, any::<bool>()), 1..40)
        ) {
            let (mut sum, mut expected, mut living) = (TaskSum::default(), 0, [0; 4]);
            for (task, grown, ends) in events {
                let value: &mut u64 = &mut living[usize::try_from(task).unwrap()];
                *value += grown;
                expected += grown;
                sum.read(task, *value);
                if ends {
                    sum.end(task);
                    *value = 0;
                }
                prop_assert_eq!(sum.total(), Some(expected));
            }
        }
    }
}
