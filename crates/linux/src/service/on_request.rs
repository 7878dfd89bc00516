//! A value that one thread creates only when other threads request it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Passes values of one thread to the threads that request them. A value is created after the request, so it is never
/// stale, and no value is created without a request.
#[derive(Debug)]
pub struct OnRequest<T> {
    slot: Mutex<Slot<T>>,
    made: Condvar,
}

#[derive(Debug)]
struct Slot<T> {
    requested: bool,
    /// The number of values created so far.
    number: u64,
    value: Option<Arc<T>>,
}

impl<T> Default for OnRequest<T> {
    fn default() -> Self {
        Self {
            slot: Mutex::new(Slot {
                requested: false,
                number: 0,
                value: None,
            }),
            made: Condvar::new(),
        }
    }
}

impl<T> OnRequest<T> {
    /// Whether a thread waits for a value.
    pub fn is_requested(&self) -> bool {
        self.lock().requested
    }

    /// Passes a value to all waiting threads.
    pub fn supply(&self, value: T) {
        let mut slot = self.lock();
        slot.value = Some(Arc::new(value));
        slot.number += 1;
        slot.requested = false;
        self.made.notify_all();
    }

    /// Requests a value and waits for it. `None` if none arrives within `patience`.
    pub fn request(&self, patience: Duration) -> Option<Arc<T>> {
        let deadline = Instant::now() + patience;
        let mut slot = self.lock();
        let seen = slot.number;
        while slot.number == seen {
            slot.requested = true;
            let left = deadline.checked_duration_since(Instant::now())?;
            let waited = self.made.wait_timeout(slot, left);
            slot = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        slot.value.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Slot<T>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_value_is_made_after_the_request_for_it() {
        let values = OnRequest::default();
        values.supply(1);
        assert!(!values.is_requested());
        let received = thread::scope(|scope| {
            let asks = scope.spawn(|| values.request(Duration::from_secs(600)));
            while !values.is_requested() {
                thread::yield_now();
            }
            values.supply(2);
            asks.join().unwrap()
        });
        assert_eq!(received.as_deref(), Some(&2));
        assert!(!values.is_requested());
    }

    #[test]
    fn without_a_value_the_request_ends_after_the_time_given() {
        assert_eq!(OnRequest::<u32>::default().request(Duration::ZERO), None);
    }
}
