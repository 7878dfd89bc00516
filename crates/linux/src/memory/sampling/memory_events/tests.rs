use super::*;
use proptest::prelude::*;

/// A `/sys` with these files below `bus/event_source/devices`.
fn sysfs(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let file = root.path().join(DEVICES).join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("{text}\n")).unwrap();
    }
    root
}

/// The files of Skylake-SP: arch/x86/events/intel/core.c (`hsw_mem_events_attrs`, `skl_format_attr`),
/// arch/x86/events/core.c.
const SKYLAKE_SP: &[(&str, &str)] = &[
    ("cpu/type", "4"),
    ("cpu/caps/max_precise", "3"),
    ("cpu/caps/pmu_name", "skylake"),
    ("cpu/format/event", "config:0-7"),
    ("cpu/format/umask", "config:8-15"),
    ("cpu/format/inv", "config:23"),
    ("cpu/format/ldlat", "config1:0-15"),
    ("cpu/format/offcore_rsp", "config1:0-63"),
    ("cpu/format/frontend", "config1:0-23"),
    ("cpu/events/instructions", "event=0xc0"),
    ("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
    ("cpu/events/mem-stores", "event=0xd0,umask=0x82"),
    ("software/type", "1"),
];

/// The files of Sapphire Rapids (`spr_events_attrs`, later `glc_events_attrs`).
const SAPPHIRE_RAPIDS: &[(&str, &str)] = &[
    ("cpu/type", "4"),
    ("cpu/caps/max_precise", "3"),
    ("cpu/format/event", "config:0-7"),
    ("cpu/format/umask", "config:8-15"),
    ("cpu/format/ldlat", "config1:0-15"),
    ("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
    ("cpu/events/mem-stores", "event=0xcd,umask=0x2"),
    ("cpu/events/mem-loads-aux", "event=0x03,umask=0x82"),
];

/// Alder Lake: performance cores as above, efficient ones as Gracemont (`grt_mem_attrs`).
const ALDER_LAKE: &[(&str, &str)] = &[
    ("cpu_core/type", "4"),
    ("cpu_core/caps/max_precise", "3"),
    ("cpu_core/format/event", "config:0-7"),
    ("cpu_core/format/umask", "config:8-15"),
    ("cpu_core/format/ldlat", "config1:0-15"),
    ("cpu_core/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
    ("cpu_core/events/mem-stores", "event=0xcd,umask=0x2"),
    ("cpu_core/events/mem-loads-aux", "event=0x03,umask=0x82"),
    ("cpu_atom/type", "10"),
    ("cpu_atom/caps/max_precise", "3"),
    ("cpu_atom/format/event", "config:0-7"),
    ("cpu_atom/format/umask", "config:8-15"),
    ("cpu_atom/format/ldlat", "config1:0-15"),
    ("cpu_atom/events/mem-loads", "event=0xd0,umask=0x5,ldlat=3"),
    ("cpu_atom/events/mem-stores", "event=0xd0,umask=0x6"),
];

/// Zen 3: arch/x86/events/amd/ibs.c of Linux 6.1. The core's PMU has no memory events.
const ZEN_3: &[(&str, &str)] = &[
    ("cpu/type", "4"),
    ("cpu/format/event", "config:0-7,32-35"),
    ("cpu/events/instructions", "event=0xc0"),
    ("ibs_fetch/type", "9"),
    ("ibs_fetch/format/rand_en", "config:57"),
    ("ibs_op/type", "10"),
    ("ibs_op/format/cnt_ctl", "config:19"),
];

/// Zen 4 under a kernel since 6.14.
const ZEN_4: &[(&str, &str)] = &[
    ("ibs_op/type", "11"),
    ("ibs_op/format/cnt_ctl", "config:19"),
    ("ibs_op/format/l3missonly", "config:16"),
    ("ibs_op/format/swfilt", "config2:0"),
    ("ibs_op/caps/zen4_ibs_extensions", "1"),
];

fn encoding(kind: u32, config: [u64; 3]) -> Encoding {
    Encoding { kind, config }
}

fn events(files: &[(&str, &str)]) -> Vec<MemoryEvent> {
    read(sysfs(files).path()).unwrap()
}

#[test]
fn skylake_samples_loads_and_stores_precisely() {
    let event = |name: &str, config| MemoryEvent {
        name: name.to_owned(),
        encoding: encoding(4, config),
        leader: None,
        precise: 3,
        user_space: UserSpace::Exclusion,
        of_cpus: false,
        multiple: 1,
    };
    let expected = [
        event("cpu/mem-loads/", [0x1cd, 3, 0]),
        event("cpu/mem-stores/", [0x82d0, 0, 0]),
    ];
    assert_eq!(events(SKYLAKE_SP), expected);
}

#[test]
fn sapphire_rapids_loads_have_a_leader_and_its_stores_none() {
    let events = events(SAPPHIRE_RAPIDS);
    let leaders: Vec<_> = events.iter().map(|event| event.leader).collect();
    assert_eq!(leaders, [Some(encoding(4, [0x8203, 0, 0])), None]);
    assert_eq!(events[1].encoding, encoding(4, [0x2cd, 0, 0]));
}

#[test]
fn each_kind_of_core_has_its_events() {
    let events = events(ALDER_LAKE);
    let found: Vec<_> = events
        .iter()
        .map(|event| (event.name.as_str(), event.encoding.kind, event.leader.is_some()))
        .collect();
    assert_eq!(
        found,
        [
            ("cpu_atom/mem-loads/", 10, false),
            ("cpu_atom/mem-stores/", 10, false),
            ("cpu_core/mem-loads/", 4, true),
            ("cpu_core/mem-stores/", 4, false),
        ]
    );
}

#[test]
fn ibs_counts_operations_and_has_a_filter_for_user_space() {
    let [zen_3] = events(ZEN_3).try_into().unwrap();
    assert_eq!(
        (zen_3.name.as_str(), zen_3.encoding),
        ("ibs_op/cnt_ctl=1/", encoding(10, [1 << 19, 0, 0]))
    );
    assert_eq!((zen_3.user_space, zen_3.of_cpus), (UserSpace::Nothing, true));
    let [zen_4] = events(ZEN_4).try_into().unwrap();
    assert_eq!(zen_4.encoding, encoding(11, [1 << 19, 0, 0]));
    assert_eq!(zen_4.user_space, UserSpace::Filter(encoding(11, [1 << 19, 0, 1])));
    assert_eq!([1, 16, 100_003].map(|wanted| zen_4.period(wanted)), [16, 16, 100_000]);
}

#[test]
fn an_error_names_what_a_machine_lacks_and_spe() {
    let read = |files| read(sysfs(files).path()).unwrap_err().to_string();
    let none = read(&[("software/type", "1")]);
    assert!(none.contains("ibs_op") && !none.contains("SPE"), "{none}");
    assert!(read(&[("arm_spe_0/type", "8")]).contains("Arm's SPE exists but is not decoded"));
}

#[test]
fn a_description_that_is_not_understood_names_the_file() {
    for (event, format) in [
        ("event=0x1cd", "config:0-7"),
        ("event=loads", "config:0-7"),
        ("event=1", "config9:0-7"),
        ("event=1", "config:0-seven"),
        ("event=1", "config:70"),
        ("others=1", "config:0-7"),
    ] {
        let files = [
            ("cpu/type", "4"),
            ("cpu/format/event", format),
            ("cpu/events/mem-loads", event),
        ];
        let error = read(sysfs(&files).path()).unwrap_err().to_string();
        assert!(error.contains("cpu/events/mem-loads"), "{event} {format}: {error}");
    }
    let no_number = [("cpu/events/mem-loads", "config=1")];
    let error = read(sysfs(&no_number).path()).unwrap_err().to_string();
    assert!(error.contains("no file `type`"), "{error}");
}

proptest! {
    /// A value can be read back from the bits of its format, and no other bit is set.
    #[test]
    fn values_lie_in_the_bits_of_their_format(
        word in 0usize..3, low in 0u32..20, wide in 0u32..20, high in 45u32..63, value in any::<u64>(),
    ) {
        let format = format!("{}:{low}-{},{high}", ["config", "config1", "config2"][word], low + wide);
        let bits = wide + 2;
        let value = value & ((1 << bits) - 1);
        let mut config = [0; 3];
        prop_assert_eq!(put(&mut config, &format, value), Some(()));
        let read = config[word] >> low & ((1 << (wide + 1)) - 1) | (config[word] >> high & 1) << (wide + 1);
        prop_assert_eq!(read, value);
        prop_assert_eq!(config.iter().map(|word| word.count_ones()).sum::<u32>(), value.count_ones());
        prop_assert_eq!(put(&mut config, &format, 1 << bits), None);
    }

    #[test]
    fn any_description_is_read_or_refused(format in "[a-z0-9:,-]{0,20}", terms in "[a-z0-9=,x]{0,20}") {
        let files = [("cpu/type", "4"), ("cpu/format/event", format.as_str()), ("cpu/events/mem-loads", terms.as_str())];
        if let Ok(events) = read(sysfs(&files).path()) {
            prop_assert_eq!(events.len(), 1);
        }
    }
}
