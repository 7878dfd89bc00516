//! The daemon's state: read back by the types that wrote it, or refused.

use pinfold_core::{Activity, Children, Excess, LeftAlone, MoveReason, OutcomeCode, PlacedBy, Reason, StayCode};
use pinfold_runtime::daemon::state::{
    DaemonTotals, Intervals, LastMove, Moves, Present, Settings, State, Task, Thresholds, Totals,
};
use std::collections::BTreeMap;

fn task() -> Task {
    Task {
        process: 40,
        thread: 41,
        name: "solver".to_owned(),
        pu: Some(3),
        pinned: None,
        allowed: "0-3".to_owned(),
        left_alone: Some(LeftAlone::RealTime),
        busy: Some(1.0 / 3.0),
        rates: BTreeMap::from([(Activity::RemoteDram, Some(0.25)), (Activity::MemoryBandwidth, None)]),
        last_move: Some(LastMove {
            at: 85.0,
            from: 0,
            to: 2,
            reason: MoveReason::Bandwidth,
            makes_room: false,
            excess: Some(Excess {
                activity: Activity::MemoryBandwidth,
                value: 1.0,
                threshold: 0.25,
            }),
            outcome: OutcomeCode::Refused,
            refused: Some(Reason::new(StayCode::RealTime, "it has real-time priority")),
        }),
        container: None,
        scheduled: None,
    }
}

fn state() -> State {
    State {
        version: State::VERSION,
        pinfold: "1.2.3".to_owned(),
        settings: Settings {
            with: PlacedBy::Masks,
            children: Children::AtBirth,
            thresholds: Thresholds {
                remote: 0.5,
                ..Thresholds::default()
            },
            ..Settings::default()
        },
        tasks: vec![task()],
        totals: Totals {
            present: Present {
                left_alone: BTreeMap::from([(LeftAlone::RealTime, 1)]),
                ..Present::default()
            },
            moves: vec![Moves {
                reason: MoveReason::Coherence,
                outcome: OutcomeCode::Made,
                count: u64::MAX,
            }],
            intervals: Intervals {
                intervals: 9,
                intervals_skipped: 1,
                work_seconds: 0.1,
            },
            daemon: DaemonTotals {
                log_lines_lost: 2,
                ..DaemonTotals::default()
            },
            ..Totals::default()
        },
        ..State::default()
    }
}

#[test]
fn a_state_is_read_back_by_the_types_that_wrote_it() {
    let text = serde_json::to_string(&state()).unwrap();
    assert_eq!(State::read(&text).unwrap(), state());
    assert!(text.starts_with(r#"{"version":1,"#), "{text}");
}

#[test]
fn reasons_are_codes_and_groups_have_no_key() {
    let json = serde_json::to_value(state()).unwrap();
    assert_eq!(json["children"], "at_birth");
    assert_eq!(json["totals"]["left_alone"]["real_time"], 1);
    assert_eq!(json["totals"]["log_lines_lost"], 2);
    assert_eq!(json["tasks"][0]["last_move"]["refused"]["code"], "real_time");
}

#[test]
fn a_state_of_another_version_is_refused_with_the_pinfold_that_reads_it() {
    let text = serde_json::to_string(&state()).unwrap();
    let later = text.replace(r#""version":1"#, r#""version":2"#);
    let refused = State::read(&later).unwrap_err().to_string();
    for words in ["version 2 of the format", "reads version 1", "pinfold 1.2.3"] {
        assert!(refused.contains(words), "{refused}");
    }
    let older = text.replace(r#""version":1,"#, "");
    let refused = State::read(&older).unwrap_err().to_string();
    assert!(refused.contains("no version"), "{refused}");
}

#[test]
fn what_is_no_state_is_refused() {
    for (text, words) in [
        ("{", "no JSON"),
        ("[1]", "no version"),
        (r#"{"version": 1}"#, "damaged"),
    ] {
        let refused = State::read(text).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
}
