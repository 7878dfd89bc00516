use super::*;
use pinfold_core::NodeId;
use pinfold_core::memory::AreaKind;
use std::sync::atomic::{AtomicBool, Ordering};

/// This process.
struct Us;

impl Target for Us {
    fn process(&self) -> i32 {
        std::process::id().cast_signed()
    }

    fn held(&self, act: &mut dyn FnMut(i32)) -> Result<(), Halt> {
        act(self.process());
        Ok(())
    }

    fn pause(&self, duration: Duration) -> Result<(), Halt> {
        std::thread::sleep(duration);
        Ok(())
    }
}

/// A process that has ended.
struct Gone;

impl Target for Gone {
    fn process(&self) -> i32 {
        i32::MAX
    }

    fn held(&self, _act: &mut dyn FnMut(i32)) -> Result<(), Halt> {
        Err(Halt::Ended)
    }

    fn pause(&self, _duration: Duration) -> Result<(), Halt> {
        Err(Halt::Ended)
    }
}

fn area(start: u64, end: u64, page_size: u64, huge: u64) -> MemoryArea {
    MemoryArea {
        start,
        end,
        kind: AreaKind::Anonymous,
        policy: "default".to_owned(),
        page_size,
        huge,
        resident: [(NodeId(0), end - start)].into(),
        stack: false,
    }
}

#[test]
fn pages_are_as_large_as_what_would_be_moved() {
    let areas = [
        area(0x1000, 0x3000, 4096, 0),
        area(0x1f_f000, 0x60_1000, 4096, 2 << 20),
        area(0x4000_0000, 0x8000_0000, 1 << 30, 0),
    ];
    let us = Us;
    let sampler = Sampler::new(&us, &areas, Path::new("/proc"), 4096, &[Seen::NumaHints]).unwrap();
    assert_eq!(sampler.page(0x2fff), (0x2000, 4096));
    assert_eq!(sampler.page(0x3000), (0x3000, 4096));
    assert_eq!(sampler.page(0x20_0000), (0x20_0000, 2 << 20));
    assert_eq!(sampler.page(0x3f_ffff), (0x20_0000, 2 << 20));
    // Huge pages that would not lie within the area are none.
    assert_eq!(sampler.page(0x1f_f123), (0x1f_f000, 4096));
    assert_eq!(sampler.page(0x60_0123), (0x60_0000, 4096));
    assert_eq!(sampler.page(0x7000_0000), (0x4000_0000, 1 << 30));
}

#[test]
fn rounds_are_of_different_lengths_and_of_the_period_on_average() {
    let lengths: Vec<f64> = (0..1000).map(jitter).collect();
    assert!(lengths.iter().all(|length| (0.75..1.25).contains(length)));
    assert!((lengths.iter().sum::<f64>() / 1000.0 - 1.0).abs() < 0.01);
}

#[test]
fn a_process_that_has_ended_is_said_to_have() {
    let sampling = Sampling {
        period: Duration::from_millis(1),
        lasts: Duration::from_millis(5),
    };
    let result = sample(&[(&Gone, &[])], Path::new("/proc"), 4096, sampling);
    match result.into_iter().next().unwrap() {
        Err(SamplingError::Halted(Halt::Ended) | SamplingError::NoWay) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_machine_on_which_nothing_is_protected_says_how_to_change_that() {
    let empty = tempfile::tempdir().unwrap();
    let result = sample(&[(&Us, &[])], empty.path(), 4096, Sampling::default());
    let error = result.into_iter().next().unwrap().unwrap_err().to_string();
    assert!(error.contains("kernel.numa_balancing=1"), "{error}");
}

/// A thread that maps new memory again and again: its faults are there however pages are protected.
#[test]
fn faults_of_other_threads_are_samples_of_theirs() {
    let stop = AtomicBool::new(false);
    let sampling = Sampling {
        period: Duration::from_millis(10),
        lasts: Duration::from_millis(60),
    };
    let accesses = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::hint::black_box(vec![1u8; 1 << 20]);
            }
        });
        let us = Us;
        let mut sampler = Sampler::new(&us, &[], Path::new("/proc"), 4096, &[Seen::NumaHints]).unwrap();
        let begun = sampler.begin_round(Path::new("/proc"));
        us.pause(sampling.lasts).unwrap();
        stop.store(true, Ordering::Relaxed);
        begun.map(|()| sampler.accesses(&[Seen::NumaHints], sampling.period, sampling.lasts))
    });
    match accesses {
        Err(error) => eprintln!("skipped: {error}"),
        Ok(accesses) => {
            assert!(accesses.sampled.samples > 0 && accesses.sampled.rounds == 1);
            assert!(accesses.sampled.overhead().unwrap() > 0.0);
            assert!(!accesses.last_pus.is_empty());
        }
    }
}
