//! The buffer that the kernel writes the samples of an event to: `perf_event_open(2)`, "MMAP layout".

use crate::pfm::sys;
use nix::errno::Errno;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes of a record's header: its type in the first four, its size with the header in the last two.
pub(crate) const HEADER: usize = 8;

/// The length in bytes of the longest record that can be read.
const LONGEST: usize = 64;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RingRecord {
    /// A sample with the fields of `FIELDS`.
    Sample(SampleRecord),
    /// This number of records were lost.
    Lost(u64),
    /// The kernel throttled the sampling, because samples came too fast.
    Throttled,
    /// A thread was created: in its creator's process, or as the first thread of another process.
    Fork { thread: i32, creator: i32 },
}

/// The fields of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SampleRecord {
    /// The event.
    pub(crate) event: u64,
    pub(crate) process: u32,
    pub(crate) thread: u32,
    /// Nanoseconds on the event's clock.
    pub(crate) time: u64,
    pub(crate) address: u64,
    pub(crate) pu: u32,
}

/// The fields that an event must sample for `RingRecord`, in the kernel's order.
pub(crate) const FIELDS: u32 = sys::PERF_SAMPLE_IDENTIFIER
    | sys::PERF_SAMPLE_TID
    | sys::PERF_SAMPLE_TIME
    | sys::PERF_SAMPLE_ADDR
    | sys::PERF_SAMPLE_CPU;

impl RingRecord {
    /// Parses a record with its header. `None` for an unknown kind, or a record that is too short.
    fn parse(record: &[u8]) -> Option<Self> {
        let word = |index: usize| -> Option<u64> {
            let bytes = record.get(HEADER + 8 * index..HEADER + 8 * index + 8)?;
            bytes.try_into().ok().map(u64::from_ne_bytes)
        };
        let half = |at: usize| -> Option<u32> { record.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes) };
        match half(0)? {
            sys::PERF_RECORD_SAMPLE => Some(Self::Sample(SampleRecord {
                event: word(0)?,
                process: half(HEADER + 8)?,
                thread: half(HEADER + 12)?,
                time: word(2)?,
                address: word(3)?,
                pu: half(HEADER + 32)?,
            })),
            sys::PERF_RECORD_LOST => Some(Self::Lost(word(1)?)),
            sys::PERF_RECORD_THROTTLE => Some(Self::Throttled),
            sys::PERF_RECORD_FORK => Some(Self::Fork {
                thread: half(HEADER + 8)?.cast_signed(),
                creator: half(HEADER + 12)?.cast_signed(),
            }),
            _ => None,
        }
    }
}

/// A mapped buffer.
pub(crate) struct Ring {
    mapped: NonNull<u8>,
    /// The size of the first page, which describes the buffer, and of the buffer behind it, a power of two. In bytes.
    page: usize,
    data: usize,
}

// SAFETY: the mapping belongs to this value, and memory that the kernel writes concurrently is accessed through
// atomics.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the buffer of an event with this number of bytes, or fewer if the limit of locked memory is lower.
    pub(crate) fn map(event: &impl AsFd, page: usize, bytes: usize) -> Result<Self, Errno> {
        let mut data = bytes.max(page).next_power_of_two();
        loop {
            // SAFETY: a new mapping at an address that the kernel chooses.
            let mapped = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    page + data,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_SHARED,
                    event.as_fd().as_raw_fd(),
                    0,
                )
            };
            match NonNull::new(mapped.cast()).filter(|_| mapped != libc::MAP_FAILED) {
                Some(mapped) => return Ok(Self { mapped, page, data }),
                None if data > page => data /= 2,
                None => return Err(Errno::last()),
            }
        }
    }

    /// A word of the first page.
    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the offset belongs to an aligned 64-bit field of `perf_event_mmap_page`, within the first page. That
        // page is mapped while `self` lives, and the kernel accesses the field atomically as well.
        unsafe { self.mapped.add(offset).cast::<AtomicU64>().as_ref() }
    }

    /// Removes all records from the buffer.
    pub(crate) fn drain(&mut self, mut take: impl FnMut(RingRecord)) {
        self.drain_bytes(&mut [0; LONGEST], |record| {
            if let Some(record) = RingRecord::parse(record) {
                take(record);
            }
        });
    }

    /// Removes all records from the buffer, each as its bytes with its header: as many as fit into `bytes`.
    pub(crate) fn drain_bytes(&mut self, bytes: &mut [u8], mut take: impl FnMut(&[u8])) {
        let head = self.word(std::mem::offset_of!(sys::perf_event_mmap_page, data_head));
        let tail = self.word(std::mem::offset_of!(sys::perf_event_mmap_page, data_tail));
        // The kernel writes all data before it moves the head. It overwrites no data before the tail moves.
        let (end, mut at) = (head.load(Ordering::Acquire), tail.load(Ordering::Relaxed));
        while at < end {
            self.copy(at, &mut bytes[..HEADER]);
            let [.., low, high] = bytes[..HEADER] else { break };
            let size = usize::from(u16::from_ne_bytes([low, high]));
            if size < HEADER || size as u64 > end - at {
                // The kernel never writes such a record, and the rest cannot be parsed.
                break;
            }
            let length = size.min(bytes.len());
            self.copy(at, &mut bytes[..length]);
            take(&bytes[..length]);
            at += size as u64;
        }
        tail.store(end, Ordering::Release);
    }

    /// Copies from the buffer, across its end if necessary.
    fn copy(&self, from: u64, into: &mut [u8]) {
        let start = usize::try_from(from % self.data as u64).unwrap_or(0);
        let first = into.len().min(self.data - start);
        // SAFETY: both parts are within the buffer, which is mapped behind the first page. The kernel writes nothing
        // there before the tail has passed them.
        unsafe {
            let data = self.mapped.add(self.page);
            std::ptr::copy_nonoverlapping(data.add(start).as_ptr(), into.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(data.as_ptr(), into.as_mut_ptr().add(first), into.len() - first);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size, and no reference into it is left.
        unsafe { libc::munmap(self.mapped.as_ptr().cast(), self.page + self.data) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let size = u16::try_from(HEADER + 8 * words.len()).unwrap();
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(size.to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    /// A word of two fields of 32 bits, the first at the lower address.
    fn halves(first: u32, second: u32) -> u64 {
        let bytes = [first.to_ne_bytes(), second.to_ne_bytes()].concat();
        u64::from_ne_bytes(bytes.try_into().unwrap())
    }

    #[test]
    fn a_sample_has_its_fields_in_the_kernels_order() {
        let bytes = record(
            sys::PERF_RECORD_SAMPLE,
            &[7, halves(100, 101), 5_000, 0xabc0, halves(3, 0)],
        );
        let expected = SampleRecord {
            event: 7,
            process: 100,
            thread: 101,
            time: 5_000,
            address: 0xabc0,
            pu: 3,
        };
        assert_eq!(RingRecord::parse(&bytes), Some(RingRecord::Sample(expected)));
        assert_eq!(RingRecord::parse(&bytes[..40]), None);
    }

    #[test]
    fn a_fork_names_the_new_thread_and_its_creator() {
        let bytes = record(sys::PERF_RECORD_FORK, &[halves(200, 100), halves(201, 101), 5_000]);
        let (thread, creator) = (201, 101);
        assert_eq!(RingRecord::parse(&bytes), Some(RingRecord::Fork { thread, creator }));
    }

    #[test]
    fn lost_records_are_counted_and_unknown_ones_are_skipped() {
        assert_eq!(
            RingRecord::parse(&record(sys::PERF_RECORD_LOST, &[7, 12])),
            Some(RingRecord::Lost(12))
        );
        assert_eq!(RingRecord::parse(&record(u32::MAX, &[1, 2, 3])), None);
    }

    impl Ring {
        /// A buffer without an event.
        fn blank(page: usize, data: usize) -> Self {
            // SAFETY: a new zeroed mapping at an address that the kernel chooses.
            let mapped = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    page + data,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    -1,
                    0,
                )
            };
            assert_ne!(mapped, libc::MAP_FAILED);
            let mapped = NonNull::new(mapped.cast()).unwrap();
            Self { mapped, page, data }
        }

        /// Writes a record like the kernel: after the last one, across the end if necessary. False if there is no room.
        fn put(&self, record: &[u8]) -> bool {
            let head = self.word(std::mem::offset_of!(sys::perf_event_mmap_page, data_head));
            let tail = self.word(std::mem::offset_of!(sys::perf_event_mmap_page, data_tail));
            let at = head.load(Ordering::Relaxed);
            if at + record.len() as u64 - tail.load(Ordering::Relaxed) > self.data as u64 {
                return false;
            }
            for (place, &byte) in (at..).zip(record) {
                let place = usize::try_from(place % self.data as u64).unwrap();
                // SAFETY: within the mapping, behind its first page.
                unsafe { self.mapped.add(self.page + place).write(byte) };
            }
            head.store(at + record.len() as u64, Ordering::Release);
            true
        }
    }

    fn sample(number: u64, words: usize) -> Vec<u8> {
        let mut fields = vec![7, halves(100, 101), number, 0x1000 * number, halves(3, 0)];
        fields.resize(words, 0xdead);
        record(sys::PERF_RECORD_SAMPLE, &fields)
    }

    proptest! {
        /// Records that are written between two reads are read once and in order, even across the end of the buffer.
        #[test]
        fn every_record_comes_out_once_and_in_order(
            looks in proptest::collection::vec(proptest::collection::vec((0u8..4, 5usize..12), 0..60), 1..40),
        ) {
            let mut ring = Ring::blank(4096, 4096);
            let mut number = 0;
            for records in looks {
                let mut expected = vec![];
                for (kind, words) in records {
                    number += 1;
                    let (bytes, comes) = match kind {
                        0 => (record(sys::PERF_RECORD_LOST, &[7, number]), Some(RingRecord::Lost(number))),
                        1 => (record(sys::PERF_RECORD_THROTTLE, &[number, 7, 7]), Some(RingRecord::Throttled)),
                        2 => (record(u32::MAX, &vec![number; words]), None),
                        // Other fields may follow the requested ones.
                        _ => (sample(number, words), Some(RingRecord::Sample(SampleRecord {
                            event: 7, process: 100, thread: 101, time: number, address: 0x1000 * number, pu: 3,
                        }))),
                    };
                    if ring.put(&bytes) {
                        expected.extend(comes);
                    }
                }
                let mut taken = vec![];
                ring.drain(|record| taken.push(record));
                prop_assert_eq!(taken, expected);
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..4096)) {
            let mut ring = Ring::blank(4096, 4096);
            ring.put(&bytes);
            let mut taken = 0;
            ring.drain(|_| taken += 1);
            prop_assert!(taken <= bytes.len() / HEADER);
        }
    }
}
