//! What `pinfold db` shows of whole runs.

use pinfold_core::text::one_line;
use pinfold_policy::whole_runs::{Area, PlacementSummary, WorkSummary};
use pinfold_store::{HistoryRow, RunRow, StoredProgram};
use std::fmt::Write as _;

/// The placements that whole runs are given, for the list of programs.
pub(crate) fn used(program: &StoredProgram) -> impl Iterator<Item = String> + '_ {
    let expected = program.histories.iter().filter_map(|history| history.works.first());
    expected.map(|work| format!("whole runs: {}", place(work.used)))
}

/// The number of measured whole runs.
pub(crate) fn number(program: &StoredProgram) -> u32 {
    let works = program.histories.iter().flat_map(|history| &history.works);
    works.flat_map(|work| &work.placements).map(|one| one.runs).sum()
}

/// Everything about the whole runs of a program.
pub(crate) fn show(program: &StoredProgram) -> String {
    let mut text = String::new();
    for history in &program.histories {
        text += &history_text(history);
    }
    for run in &program.runs {
        text += &run_text(run);
    }
    text
}

fn place(area: Option<Area>) -> String {
    area.map_or_else(|| "unpinned".to_owned(), |area| area.to_string())
}

fn history_text(history: &HistoryRow) -> String {
    let mut text = format!("  whole runs in {}\n", one_line(&history.context));
    let _ = writeln!(
        text,
        "      next: {}\n      all runs took {:.3} s, and trials lost {:.3} s of that",
        one_line(&history.why),
        history.total,
        history.lost
    );
    for work in &history.works {
        text += &work_text(work);
    }
    text
}

fn work_text(work: &WorkSummary) -> String {
    let cpu = work
        .cpu
        .map_or_else(|| "an unknown".to_owned(), |cpu| format!("about {cpu:.3} s of"));
    let mut text = format!("      runs with {cpu} CPU time: {}\n", place(work.used));
    for one in &work.placements {
        let _ = writeln!(text, "        {}", placement_text(one));
    }
    text
}

fn placement_text(one: &PlacementSummary) -> String {
    let deviation = one
        .deviation
        .map_or_else(String::new, |deviation| format!(" ± {deviation:.3}"));
    let gain = one.gain.map_or_else(String::new, |(times, error)| {
        format!(", {times:.3} ± {error:.3} times as fast as unpinned")
    });
    let state = match one.state {
        Some("open") => ", compared now",
        Some("not_faster") => ", not faster",
        Some("not_known") => ", the noise is larger than the difference",
        Some("stopped") => ", so slow that the run was unpinned before its end",
        _ => "",
    };
    let runs = if one.runs == 1 { "run" } else { "runs" };
    format!(
        "{:<12} {:>4} {runs}, {:.3}{deviation} s, {:.3} s of CPU time{gain}{state}",
        place(one.area),
        one.runs,
        one.wall,
        one.cpu
    )
}

fn run_text(run: &RunRow) -> String {
    let pus = if run.pus.is_empty() {
        String::new()
    } else {
        format!(" on {}", one_line(&run.pus))
    };
    let how = match run.how.as_str() {
        "whole" => "",
        "stopped" => ", unpinned before its end because it took too long",
        "overlapped" => ", beside another run of the program: not compared",
        "searched" => ", placed while it ran: not compared",
        _ => ", failed: not compared",
    };
    format!(
        "  run: {}{pus}, {:.3} s, {:.3} s of CPU time{how}\n",
        place(run.area),
        run.wall,
        run.cpu
    )
}
