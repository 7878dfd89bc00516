//! Data sets as files: what is written is read again, and what is no data set is refused.

use parquet::file::reader::{FileReader, SerializedFileReader};
use pinfold_core::MetricColumn;
use pinfold_dataset::{
    ConfigurationColumns, DataSet, JoinedColumns, Layout, MachineState, MeasuredColumns, ProgramColumns, Row,
    SamplingColumns, TimeUnit, TrafficColumns, WindowColumns,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;

fn simulated() -> Row {
    Row {
        program: ProgramColumns {
            machine: "e5-4650x4".to_owned(),
            program: "stream".to_owned(),
            region: Some("0x401000".to_owned()),
            simulated: true,
            command: "stream --threads 8".to_owned(),
            recording: Some("ab".to_owned()),
        },
        configuration: ConfigurationColumns {
            num_threads: 8,
            layout: Some(Layout {
                num_nodes: 2,
                threads_per_core: Some(1),
                thread_map: Some("scatter".to_owned()),
            }),
            page_map: "locality".to_owned(),
            prefetch: "0010".to_owned(),
            pinning: Some("0-7".to_owned()),
        },
        time: 0.1,
        window: WindowColumns {
            window_bytes: Some(64),
            footprint_bytes: None,
            llc_bytes: Some(1 << 30),
            covers: Some(false),
            unrecorded_wait_share: Some(0.25),
        },
        sampling: SamplingColumns {
            time_error: Some(0.0),
            simulated_share: Some(1.0),
        },
        measured: None,
        traffic: TrafficColumns {
            node_bytes: Some(vec![1, 2, 1 << 40]),
            link_bytes: Some(vec![]),
        },
        joined: None,
        metrics: vec![Some(1.5), None],
    }
}

/// A measured row of the unpinned program, on a machine that says little of its state.
fn measured() -> Row {
    let row = simulated();
    Row {
        program: ProgramColumns {
            machine: "here".to_owned(),
            region: None,
            simulated: false,
            recording: None,
            ..row.program
        },
        configuration: ConfigurationColumns {
            layout: None,
            pinning: None,
            ..row.configuration
        },
        window: WindowColumns::default(),
        sampling: SamplingColumns {
            time_error: Some(0.01),
            simulated_share: None,
        },
        measured: Some(MeasuredColumns {
            runs: Some(7),
            spread: Some(0.02),
            state: MachineState {
                load_of_others: Some(0.5),
                throttled: Some(true),
                free_memory_bytes: Some(vec![4096, 8192]),
                ..MachineState::default()
            },
        }),
        traffic: TrafficColumns::default(),
        ..row
    }
}

fn data_set(rows: Vec<Row>) -> DataSet {
    let metric = |name: &str| MetricColumn {
        name: name.to_owned(),
        unit: "1".to_owned(),
    };
    DataSet {
        schema: "sweep".to_owned(),
        metrics: vec![metric("ipc"), metric("event:cycles")],
        models: BTreeMap::from([("e5-4650x4".to_owned(), "0f".to_owned())]),
        topologies: BTreeMap::from([(
            "here".to_owned(),
            serde_json::json!({"synthetic": "pack:2 core:4 pu:2"}),
        )]),
        time_unit: TimeUnit::Seconds,
        rows,
    }
}

fn bytes(data_set: &DataSet) -> Vec<u8> {
    let mut written = vec![];
    data_set.write(&mut written).unwrap();
    written
}

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    file
}

fn columns(bytes: &[u8]) -> Vec<String> {
    let reader = SerializedFileReader::new(file(bytes)).unwrap();
    let schema = reader.metadata().file_metadata().schema();
    schema
        .get_fields()
        .iter()
        .map(|field| field.name().to_owned())
        .collect()
}

#[test]
fn what_is_written_is_read_again() {
    let joined = JoinedColumns {
        command: "stream --threads {threads}".to_owned(),
        region_object: Some("stream".to_owned()),
        region_offset: None,
        region_complete: true,
        baseline: false,
    };
    let of_run = Row {
        joined: Some(joined),
        ..simulated()
    };
    for rows in [
        vec![],
        vec![simulated()],
        vec![simulated(), measured(), simulated()],
        vec![of_run; 3],
    ] {
        let made = data_set(rows);
        assert_eq!(DataSet::read(file(&bytes(&made))).unwrap(), made);
        assert_eq!(bytes(&made), bytes(&made.clone()));
    }
}

#[test]
fn columns_of_measured_rows_exist_only_where_a_row_is_measured() {
    let of_measured = ["runs", "spread", "throttled", "free_memory_bytes"].map(str::to_owned);
    let simulated_only = columns(&bytes(&data_set(vec![simulated()])));
    assert!(of_measured.iter().all(|name| !simulated_only.contains(name)));
    let both = columns(&bytes(&data_set(vec![simulated(), measured()])));
    assert!(of_measured.iter().all(|name| both.contains(name)));
}

#[test]
fn a_time_without_a_unit_is_in_a_column_of_its_own() {
    let made = DataSet {
        time_unit: TimeUnit::Unknown,
        ..data_set(vec![measured()])
    };
    let names = columns(&bytes(&made));
    assert!(names.contains(&"time".to_owned()) && !names.contains(&"time_s".to_owned()));
    assert_eq!(DataSet::read(file(&bytes(&made))).unwrap(), made);
}

#[test]
fn a_data_set_of_version_2_that_arrow_wrote_is_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../applications/data/judged.parquet");
    let found = DataSet::read(File::open(path).unwrap()).unwrap();
    assert_eq!(found.rows.len(), 440);
    assert_eq!(found.time_unit, TimeUnit::Seconds);
    let row = &found.rows[0];
    assert!(row.program.simulated && row.measured.is_none() && row.time > 0.0);
    let layout = row.configuration.layout.as_ref().unwrap();
    assert_eq!(layout.threads_per_core, None);
    assert_eq!(row.metrics.len(), found.metrics.len());
}

/// The bytes of a data set with another text of the same length, in all places.
fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut changed = bytes.to_vec();
    for at in 0..=bytes.len() - from.len() {
        if bytes[at..].starts_with(from) {
            changed[at..at + to.len()].copy_from_slice(to);
        }
    }
    assert_ne!(changed, bytes);
    changed
}

fn refused(bytes: &[u8]) -> String {
    DataSet::read(file(bytes)).unwrap_err().to_string()
}

#[test]
fn what_is_no_data_set_is_refused_with_the_reason() {
    let made = bytes(&data_set(vec![simulated()]));
    let of = |from: &[u8], to: &[u8]| refused(&replaced(&made, from, to));
    assert!(of(b"pinfold.dataset", b"another.dataset").contains("not a data set of `pinfold sweep`"));
    assert!(of(b"PAR1", b"PARX").contains("`pinfold sweep -o` writes a data set"));
    assert!(of(b"\"name\":\"ipc\"", b"\"nama\":\"ipc\"").contains("its metadata `pinfold.metrics` are damaged"));
    assert!(of(b"page_map", b"page_mad").contains("no column `page_map`"));
    let negative = data_set(vec![Row {
        time: -1.0,
        ..simulated()
    }]);
    let error = refused(&bytes(&negative));
    assert!(error.contains("row 1 has no valid `time_s`"), "{error}");
    let none = data_set(vec![Row {
        configuration: ConfigurationColumns {
            num_threads: 0,
            ..simulated().configuration
        },
        ..simulated()
    }]);
    let error = refused(&bytes(&none));
    assert!(error.contains("row 1 has no valid `num_threads`"), "{error}");
}

proptest! {
    #[test]
    fn a_damaged_file_is_read_or_refused(places in proptest::collection::vec((0.0..1.0f64, any::<u8>()), 1..4), cut in 0.0..1.0f64) {
        let whole = bytes(&data_set(vec![simulated(), measured()]));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a short file")]
        let at = |share: f64| (whole.len() as f64 * share) as usize;
        let mut damaged = whole.clone();
        for (place, value) in places {
            damaged[at(place)] = value;
        }
        let _ = DataSet::read(file(&damaged));
        let _ = DataSet::read(file(&whole[..at(cut)]));
    }
}
