//! The PUs that unpinned tasks run on: all PUs that the program may use, or some of them.
//!
//! A task whose original mask is the program's has the current limit instead. So it is limited with the others, and
//! when it is unpinned it gets the limit of that time. A task with a separate mask keeps it.

use crate::affinity::CpuMask;
use crate::requested::{Requested, Seen};
use pinfold_core::PuSet;
use std::sync::Arc;

/// The masks of the program.
#[derive(Debug)]
pub(crate) struct Limit {
    /// The program's mask without a limit.
    whole: Arc<Requested>,
    /// The PUs that the program may use.
    pus: PuSet,
    /// The current mask of unpinned tasks.
    present: Arc<Requested>,
    /// The mask of unpinned tasks before the last change. It is needed for a task that was created before the change
    /// and is seen only now.
    former: Option<Arc<Requested>>,
}

impl Limit {
    /// No limit yet. Unpinned tasks have the mask `whole`, and the program may use its PUs `pus`.
    pub(super) fn none(whole: Requested, pus: PuSet) -> Self {
        let whole = Arc::new(whole);
        Self {
            present: Arc::clone(&whole),
            whole,
            pus,
            former: None,
        }
    }

    /// The PUs that the program may use.
    pub(super) fn pus(&self) -> &PuSet {
        &self.pus
    }

    /// The mask of unpinned tasks.
    pub(super) fn present(&self) -> &Arc<Requested> {
        &self.present
    }

    /// Whether unpinned tasks are limited to some of the program's PUs.
    pub(super) fn is_limited(&self) -> bool {
        self.present != self.whole
    }

    /// Whether `usable` equals a limit, the current one or the previous one.
    pub(super) fn has_set(&self, usable: &CpuMask) -> bool {
        let masks = [&self.present].into_iter().chain(&self.former);
        masks
            .filter(|mask| **mask != self.whole)
            .any(|mask| matches!(&**mask, Requested::Cpus(cpus) if cpus == usable))
    }

    /// Limits unpinned tasks to the program's PUs that are also in `within`. `None` removes the limit. Returns whether
    /// the mask has changed.
    ///
    /// # Errors
    ///
    /// Fails with the reason if the limit leaves no PU. Then the limit stays unchanged.
    pub(super) fn set(&mut self, within: Option<&PuSet>) -> Result<bool, String> {
        let present = match within {
            None => Arc::clone(&self.whole),
            Some(within) => {
                let pus = self.pus.intersection(within);
                if pus.is_empty() {
                    return Err(format!(
                        "unpinned threads are not limited: none of the CPUs {within} is among those that the program may \
                         use, {}",
                        self.pus
                    ));
                }
                Arc::new(Requested::Cpus((&pus).into()))
            }
        };
        if present == self.present {
            return Ok(false);
        }
        self.former = Some(std::mem::replace(&mut self.present, present));
        Ok(true)
    }

    /// The mask of unpinned tasks before the last change. `None` if it equals the current one.
    pub(super) fn former(&self) -> Option<&Requested> {
        self.former.as_deref().filter(|&former| *former != *self.present)
    }

    /// Whether this is the mask of unpinned tasks before the last change.
    pub(super) fn is_former(&self, seen: &Seen) -> bool {
        self.former().is_some_and(|former| former.explains(seen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requested::tests::{mask, seen};

    /// The unlimited masks of a program that may use these PUs.
    fn none(pus: &str) -> Limit {
        Limit::none(Requested::Nobody, pus.parse().unwrap())
    }

    fn is_former(limit: &Limit, mask: &str) -> bool {
        limit.is_former(&seen(mask, "0-3", "0-3"))
    }

    #[test]
    fn a_limit_has_only_pus_that_the_program_may_use() {
        let mut limit = none("1-3");
        assert!(!is_former(&limit, "0-3"));
        assert_eq!(limit.set(Some(&"0-2".parse().unwrap())), Ok(true));
        assert_eq!(**limit.present(), Requested::Cpus(mask("1-2")));
        assert!(is_former(&limit, "0-3"));
        assert!(limit.has_set(&mask("1-2")) && !limit.has_set(&mask("0-3")));
        assert_eq!(limit.set(None), Ok(true));
        assert!(limit.has_set(&mask("1-2")) && !limit.has_set(&mask("1")));
        assert_eq!(**limit.present(), Requested::Nobody);
        assert!(is_former(&limit, "1-2"));
        assert_eq!(limit.set(None), Ok(false));
    }

    #[test]
    fn a_limit_that_leaves_nothing_is_refused() {
        let mut limit = none("0-3");
        let why = limit.set(Some(&"8-9".parse().unwrap())).unwrap_err();
        assert!(why.contains("8-9") && why.contains("0-3"), "{why}");
        assert_eq!(**limit.present(), Requested::Nobody);
    }
}
