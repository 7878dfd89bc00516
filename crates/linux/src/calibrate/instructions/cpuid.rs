//! Properties that the processor reports, but that the kernel does not report in one place.

use pinfold_core::measurement::Processor;
use std::arch::x86_64::__cpuid_count;

/// Whether the unified or data cache of `level` is inclusive of the caches nearer to the core. `None` if the processor
/// does not report it. (Leaf 4 of CPUID for Intel, leaf 0x8000001d for AMD; both have the same layout.)
pub(in crate::calibrate) fn inclusive(level: u32) -> Option<bool> {
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

/// Identifies the processor (leaves 0 and 1 of CPUID, which are the same for Intel and AMD).
#[expect(clippy::unnecessary_wraps, reason = "other processors have no such numbers")]
pub(in crate::calibrate) fn processor() -> Option<Processor> {
    let maker = __cpuid_count(0, 0);
    let bytes = [maker.ebx, maker.edx, maker.ecx].map(u32::to_le_bytes).concat();
    let signature = __cpuid_count(1, 0).eax;
    let part = |shift: u32, bits: u32| signature >> shift & ((1 << bits) - 1);
    let extended = part(8, 4) == 0xf;
    let family = part(8, 4) + if extended { part(20, 8) } else { 0 };
    Some(Processor {
        vendor: String::from_utf8_lossy(&bytes).into_owned(),
        family,
        model: part(4, 4) | if extended || family == 6 { part(16, 4) << 4 } else { 0 },
    })
}
