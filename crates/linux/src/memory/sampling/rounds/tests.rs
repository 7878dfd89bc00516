use super::super::targets::{Gone, Us};
use super::*;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn rounds_are_of_different_lengths_and_of_the_period_on_average() {
    let lengths: Vec<f64> = (0..1000).map(jitter).collect();
    assert!(lengths.iter().all(|length| (0.75..1.25).contains(length)));
    assert!((lengths.iter().sum::<f64>() / 1000.0 - 1.0).abs() < 0.01);
}

#[test]
fn a_process_that_has_ended_is_said_to_have() {
    let [period, lasts] = [1, 5].map(Duration::from_millis);
    let result = sample(&[(&Gone, &[])], &System::default(), 4096, period, lasts);
    match result.into_iter().next().unwrap() {
        Err(SamplingError::Stopped(StopReason::Ended) | SamplingError::NoMethod) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_machine_on_which_nothing_is_protected_says_how_to_change_that() {
    let empty = tempfile::tempdir().unwrap();
    let second = Duration::from_secs(1);
    let result = sample(
        &[(&Us, &[])],
        &System::new(empty.path(), empty.path()),
        4096,
        second,
        second,
    );
    let error = result.into_iter().next().unwrap().unwrap_err().to_string();
    assert!(error.contains("kernel.numa_balancing=1"), "{error}");
}

/// A thread that maps new memory repeatedly always has faults.
#[test]
fn faults_of_other_threads_are_samples_of_theirs() {
    let stop = AtomicBool::new(false);
    let [period, lasts] = [10, 60].map(Duration::from_millis);
    let accesses = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::hint::black_box(vec![1u8; 1 << 20]);
            }
        });
        let us = Us;
        let mut sampler = Sampler::new(&us, &[], Path::new("/proc"), 4096, &[Seen::NumaHints]).unwrap();
        let begun = sampler.begin_round(Path::new("/proc"));
        us.pause(lasts).unwrap();
        stop.store(true, Ordering::Relaxed);
        begun.map(|()| sampler.accesses(&[Seen::NumaHints], period, lasts))
    });
    match accesses {
        Err(error) => pinfold_testing::skip(&error),
        Ok(accesses) => {
            assert!(accesses.sampled.samples > 0 && accesses.sampled.faults.unwrap().rounds == 1);
            assert!(accesses.sampled.overhead().unwrap() > 0.0);
            assert!(!accesses.last_pus.is_empty());
        }
    }
}

#[test]
fn what_the_settings_of_another_root_say_decides_how_accesses_are_seen() {
    let root = tempfile::tempdir().unwrap();
    let settings = root.path().join("sys/kernel");
    std::fs::create_dir_all(&settings).unwrap();
    let system = System::new(root.path(), root.path());
    for (balancing, seen) in [("0", false), ("1", true)] {
        std::fs::write(settings.join("numa_balancing"), balancing).unwrap();
        assert_eq!(ways(&system, 4096).contains(&Seen::NumaHints), seen);
    }
}
