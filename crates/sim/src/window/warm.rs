//! Fetching ahead into the host's caches. The engine's own speed is bound by the latency of its tables, of which a miss
//! touches half a dozen at random; what will be needed is known some events before.

/// Has the host fetch what `place` is in; nothing waits for it.
#[inline]
pub(crate) fn warm<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    safe_arch::prefetch_t0(place);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
