//! Properties of caches that the processor reports, but not the kernel.

use std::arch::x86_64::__cpuid_count;

/// Whether the unified or data cache of `level` is inclusive of the caches nearer to the core; `None` where the
/// processor does not report it. (Leaf 4 of CPUID for Intel, leaf 0x8000001d for AMD, which have the same layout.)
pub(super) fn inclusive(level: u32) -> Option<bool> {
    [0x4, 0x8000_001d].into_iter().find_map(|leaf| {
        let highest = __cpuid_count(leaf & 0x8000_0000, 0).eax;
        if highest < leaf {
            return None;
        }
        (0..16)
            .map(|index| __cpuid_count(leaf, index))
            .take_while(|cache| cache.eax & 0x1f != 0)
            // Type 2 is an instruction cache.
            .find(|cache| cache.eax & 0x1f != 2 && cache.eax >> 5 & 0x7 == level)
            .map(|cache| cache.edx & 0b10 != 0)
    })
}
