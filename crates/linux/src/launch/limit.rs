//! The PUs on which unpinned tasks run: all that the program may use, or some of them.
//!
//! A task whose original mask is the program's has the present one instead, whatever that is at the time. So it is limited
//! with the others, and gets the present one back where it was pinned. A task with a mask of its own keeps it.

use crate::affinity::CpuMask;
use pinfold_core::PuSet;
use std::sync::Arc;

/// The masks of the program.
#[derive(Debug)]
pub(crate) struct Limit {
    /// The mask that the program may use.
    whole: Arc<CpuMask>,
    /// That of unpinned tasks now.
    present: Arc<CpuMask>,
    /// That of unpinned tasks before the last change: a task that was created then is seen only now.
    former: Option<Arc<CpuMask>>,
}

impl Limit {
    /// No limit yet: unpinned tasks have the mask that the program may use.
    pub(super) fn none(whole: CpuMask) -> Self {
        let whole = Arc::new(whole);
        Self {
            present: Arc::clone(&whole),
            whole,
            former: None,
        }
    }

    /// The mask that the program may use.
    pub(super) fn whole(&self) -> &CpuMask {
        &self.whole
    }

    /// The mask of unpinned tasks.
    pub(super) fn present(&self) -> &Arc<CpuMask> {
        &self.present
    }

    /// Limits unpinned tasks to those of the program's PUs that are also in `within`, or not at all. Returns whether that
    /// is another mask than before.
    ///
    /// # Errors
    ///
    /// A limit that leaves no PU is not set; then returns why.
    pub(super) fn set(&mut self, within: Option<&PuSet>) -> Result<bool, String> {
        let present = match within {
            None => Arc::clone(&self.whole),
            Some(within) => Arc::new(self.whole.pus().filter(|&pu| within.contains(pu)).collect::<CpuMask>()),
        };
        if present.words().is_empty() {
            return Err(format!(
                "unpinned threads are not limited: none of the CPUs {} is among those that the program may use, {}",
                within.cloned().unwrap_or_default(),
                self.whole.to_set()
            ));
        }
        if present == self.present {
            return Ok(false);
        }
        self.former = Some(std::mem::replace(&mut self.present, present));
        Ok(true)
    }

    /// Whether this is the mask of unpinned tasks before the last change.
    pub(super) fn is_former(&self, mask: &CpuMask) -> bool {
        self.former
            .as_ref()
            .is_some_and(|former| **former == *mask && former != &self.present)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(pus: &str) -> CpuMask {
        CpuMask::from(&pus.parse().unwrap())
    }

    #[test]
    fn a_limit_has_only_pus_that_the_program_may_use() {
        let mut limit = Limit::none(mask("1-5"));
        assert!(!limit.is_former(&mask("1-5")));
        assert_eq!(limit.set(Some(&"0-3".parse().unwrap())), Ok(true));
        assert_eq!(**limit.present(), mask("1-3"));
        assert!(limit.is_former(&mask("1-5")));
        assert_eq!(limit.set(None), Ok(true));
        assert_eq!(**limit.present(), mask("1-5"));
        assert!(limit.is_former(&mask("1-3")));
        assert_eq!(limit.set(None), Ok(false));
    }

    #[test]
    fn a_limit_that_leaves_nothing_is_refused() {
        let mut limit = Limit::none(mask("0-3"));
        let why = limit.set(Some(&"8-9".parse().unwrap())).unwrap_err();
        assert!(why.contains("8-9") && why.contains("0-3"), "{why}");
        assert_eq!(**limit.present(), mask("0-3"));
    }
}
