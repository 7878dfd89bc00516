//! One frame: a line about the daemon, the packages with their cores and the tasks on them, and a table of tasks.
//!
//! It is drawn into a buffer of cells. A terminal shows the buffer, and `plain` turns it into text, so both are the
//! same.

use pinfold_core::{Activity, LeftAlone, OutcomeCode, ProgressCode, size_text};
use pinfold_runtime::daemon::state::{Core, LastMove, Package, SchedulerState, State, Task, WakingPair};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Table, Widget};
use std::fmt::Write as _;

/// The order of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The busiest first.
    Busy,
    /// By PU.
    Pu,
    /// By process and thread number.
    Process,
    /// The last moved first.
    Moved,
}

impl Order {
    /// The next order, in a circle.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Busy => Self::Pu,
            Self::Pu => Self::Process,
            Self::Process => Self::Moved,
            Self::Moved => Self::Busy,
        }
    }
}

/// The settings of a frame.
#[derive(Clone, Debug)]
pub struct View {
    /// The order of tasks.
    pub order: Order,
    /// The number of tasks above the visible part of the table.
    pub scroll: usize,
    /// Whether the shown state is frozen.
    pub paused: bool,
    /// Whether keys are accepted. Then the frame lists them.
    pub keys: bool,
    /// Why the daemon does not answer.
    pub trouble: Option<String>,
}

impl Default for View {
    fn default() -> Self {
        Self {
            order: Order::Busy,
            scroll: 0,
            paused: false,
            keys: false,
            trouble: None,
        }
    }
}

/// The least number of columns of a package.
const PACKAGE_WIDTH: u16 = 24;

/// Lines of the header.
fn head_height(state: &State) -> u16 {
    3 + u16::from(state.scheduler.is_some())
}

/// The number of lines for a complete frame.
pub fn height(state: &State, width: u16) -> u16 {
    let tasks = u16::try_from(state.tasks.len()).unwrap_or(u16::MAX - 1000);
    head_height(state) + packages_height(state, width) + 1 + tasks.max(1)
}

/// The frame as text, without spaces at the ends of lines and empty lines at the end.
pub fn plain(state: &State, view: &View, width: u16, height: u16) -> String {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    draw(state, view, area, &mut buffer);
    let mut text = String::new();
    for row in 0..height {
        let line: String = (0..width).map(|column| buffer[(column, row)].symbol()).collect();
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// Draws a frame.
pub fn draw(state: &State, view: &View, area: Rect, buffer: &mut Buffer) {
    let head = head_height(state);
    let wanted = packages_height(state, area.width).min(area.height.saturating_sub(head + 3));
    let [head, packages, tasks] =
        Layout::vertical([Constraint::Length(head), Constraint::Length(wanted), Constraint::Min(0)]).areas(area);
    draw_head(state, view, head, buffer);
    draw_packages(state, packages, buffer);
    draw_tasks(state, view, tasks, buffer);
}

fn draw_head(state: &State, view: &View, area: Rect, buffer: &mut Buffer) {
    let totals = &state.totals;
    let made: u64 = state
        .totals
        .moves
        .iter()
        .filter(|moves| moves.outcome == OutcomeCode::Made)
        .map(|moves| moves.count)
        .sum();
    let by_reason: Vec<String> = reasons(state)
        .into_iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    let by_reason = if by_reason.is_empty() {
        String::new()
    } else {
        format!(" ({})", by_reason.join(", "))
    };
    let assumed = if state.settings.assumed {
        ", assumed and not measured"
    } else {
        ""
    };
    let dry = if state.settings.dry_run {
        ", no task is moved"
    } else {
        ""
    };
    let first = format!(
        "pinfold daemon {}, {} up: every {} by {}{assumed}{dry}",
        state.process,
        span(state.at),
        span(state.settings.interval),
        state.settings.metric
    );
    let left_alone: u64 = totals.present.left_alone.values().sum();
    let second = format!(
        "{} tasks watched, {} work, {} pinned, {left_alone} left alone; {made} moves{by_reason}{}{}",
        totals.present.watched,
        totals.present.working,
        totals.present.pinned,
        pages(state),
        compared(state)
    );
    let third = match (&view.trouble, view.paused) {
        (Some(trouble), _) => Line::styled(trouble.clone(), Style::new().fg(Color::Red)),
        (None, true) => Line::styled("paused", Style::new().fg(Color::Yellow)),
        (None, false) if view.keys => Line::styled(keys(view.order), Style::new().fg(Color::DarkGray)),
        (None, false) => Line::raw(""),
    };
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let lines = [Line::styled(first, bold), Line::raw(second)];
    let scheduler = state.scheduler.as_ref().map(|one| Line::raw(scheduled(one)));
    let lines: Vec<Line<'_>> = lines.into_iter().chain(scheduler).chain([third]).collect();
    Paragraph::new(lines).render(area, buffer);
}

/// What the scheduler in the kernel did with the tasks that were placed.
fn scheduled(scheduler: &SchedulerState) -> String {
    let in_preferred = scheduler.preferred_share().map_or_else(
        || "no task has run with a preference".to_owned(),
        |share| format!("{:.1} % of run time in preferred caches", 100.0 * share),
    );
    let beside = match scheduler.waited_beside_idle {
        0 => String::new(),
        count => format!(", {count} waited beside idle CPUs"),
    };
    format!(
        "scheduler: {in_preferred}; {} waited, {} at most; {} taken elsewhere{beside}; {} pairs of tasks wake each other",
        span(scheduler.waited_seconds),
        span(scheduler.longest_wait),
        scheduler.taken_elsewhere,
        scheduler.pairs_found
    )
}

/// The last comparison of the moves with the unpinned machine.
fn compared(state: &State) -> String {
    let Some(last) = &state.comparison else {
        return String::new();
    };
    let least = last.comparison.slowest().map_or(0.0, |one| 100.0 * one.gain);
    match last.comparison.pause.filter(|_| state.withdrawn) {
        Some(pause) => format!("; withdrawn until {}: least gain {least:+.1} %", span(last.at + pause)),
        None => format!("; compared at {}: least gain {least:+.1} %", span(last.at)),
    }
}

/// The pages that were moved.
fn pages(state: &State) -> String {
    match state.totals.pages.bytes {
        0 => String::new(),
        bytes => format!(", {} of pages", size_text(bytes)),
    }
}

/// The list of keys.
fn keys(order: Order) -> String {
    let order = match order {
        Order::Busy => "busy",
        Order::Pu => "pu",
        Order::Process => "process",
        Order::Moved => "moved",
    };
    format!("q quit  p pause  s sort (by {order})  up/down scroll")
}

/// The number of moves, by reason.
fn reasons(state: &State) -> Vec<(String, u64)> {
    let made = state
        .totals
        .moves
        .iter()
        .filter(|moves| moves.outcome == OutcomeCode::Made);
    made.map(|moves| (moves.reason.name().replace('_', " "), moves.count))
        .collect()
}

/// The number of packages that are side by side.
fn columns(state: &State, width: u16) -> usize {
    let fitting = usize::from(width / PACKAGE_WIDTH).max(1);
    fitting.min(state.machine.packages.len().max(1))
}

/// Lines of the packages, with their frames.
fn packages_height(state: &State, width: u16) -> u16 {
    let columns = columns(state, width);
    let rows = state.machine.packages.chunks(columns).map(|row| {
        let lines = row.iter().map(|package| package.cores.len()).max().unwrap_or(0);
        u16::try_from(lines + 2).unwrap_or(u16::MAX)
    });
    rows.fold(0, u16::saturating_add)
}

fn draw_packages(state: &State, area: Rect, buffer: &mut Buffer) {
    let columns = columns(state, area.width);
    let mut top = area.y;
    for row in state.machine.packages.chunks(columns) {
        let lines = row.iter().map(|package| package.cores.len()).max().unwrap_or(0) + 2;
        let left = area.bottom().saturating_sub(top);
        let height = u16::try_from(lines).unwrap_or(u16::MAX).min(left);
        let line = Rect::new(area.x, top, area.width, height);
        let cells = Layout::horizontal(vec![Constraint::Fill(1); columns]).split(line);
        for (package, &cell) in row.iter().zip(cells.iter()) {
            draw_package(state, package, cell, buffer);
        }
        top += height;
    }
}

fn draw_package(state: &State, package: &Package, area: Rect, buffer: &mut Buffer) {
    let name = package
        .index
        .map_or_else(|| "machine".to_owned(), |index| format!("package {index}"));
    let nodes: Vec<String> = package.nodes.iter().map(ToString::to_string).collect();
    let title = match nodes.as_slice() {
        [] => format!(" {name} "),
        [one] => format!(" {name}, node {one} "),
        several => format!(" {name}, nodes {} ", several.join(",")),
    };
    let block = Block::bordered().title(title);
    let inner = block.inner(area);
    block.render(area, buffer);
    let lines: Vec<Line<'_>> = package.cores.iter().map(|core| core_line(state, core)).collect();
    Paragraph::new(lines).render(inner, buffer);
}

/// A core with its PUs and the tasks on each.
fn core_line<'a>(state: &'a State, core: &Core) -> Line<'a> {
    let grey = Style::new().fg(Color::DarkGray);
    let label = core.index.map_or_else(String::new, |index| format!("core {index}: "));
    let mut spans = vec![Span::styled(label, grey)];
    for (position, &pu) in core.pus.iter().enumerate() {
        let separator = if position == 0 { "" } else { " | " };
        spans.push(Span::styled(format!("{separator}{pu} "), grey));
        let there: Vec<&Task> = state.tasks.iter().filter(|task| task.pu == Some(pu)).collect();
        spans.push(match there.as_slice() {
            [] => Span::raw("·"),
            [one] => Span::styled(one.name.as_str(), task_style(one)),
            [first, others @ ..] => {
                Span::styled(format!("{} +{}", first.name, others.len()), Style::new().fg(Color::Red))
            }
        });
    }
    Line::from(spans)
}

fn task_style(task: &Task) -> Style {
    match (&task.left_alone, task.pinned) {
        (Some(_), _) => Style::new().fg(Color::DarkGray),
        (None, Some(_)) => Style::new().fg(Color::Green),
        (None, None) => Style::new(),
    }
}

fn draw_tasks(state: &State, view: &View, area: Rect, buffer: &mut Buffer) {
    let mut tasks: Vec<&Task> = state.tasks.iter().collect();
    match view.order {
        Order::Busy => tasks.sort_by(|one, other| busy(other).total_cmp(&busy(one))),
        Order::Pu => tasks.sort_by_key(|task| task.pu),
        Order::Process => tasks.sort_by_key(|task| (task.process, task.thread)),
        Order::Moved => tasks.sort_by(|one, other| moved(other).total_cmp(&moved(one))),
    }
    let last = tasks.len().saturating_sub(1);
    let shown = tasks.iter().skip(view.scroll.min(last));
    let columns = fitting(area.width, state);
    let rows =
        shown.map(|task| Row::new(columns.iter().map(|column| (column.cell)(task, state))).style(task_style(task)));
    let widths = columns.iter().map(|column| match column.title {
        "WHY" => Constraint::Min(column.width),
        _ => Constraint::Length(column.width),
    });
    let header = Row::new(columns.iter().map(|column| column.title));
    let header = header.style(Style::new().add_modifier(Modifier::REVERSED));
    Widget::render(Table::new(rows, widths).header(header), area, buffer);
}

/// A column of the table of tasks.
struct Column {
    title: &'static str,
    width: u16,
    /// A narrow terminal leaves out columns of low importance. 0 is the most important.
    importance: u8,
    /// Its text for a task.
    cell: fn(&Task, &State) -> String,
}

/// The columns. That of containers has a width only where tasks are in containers, that of progress only if the daemon had
/// to choose what measures it, and those of preferences and partners only with a scheduler in the kernel.
const COLUMNS: [Column; 14] = [
    column("PID", 7, 0, |task, _| task.process.to_string()),
    column("TID", 7, 4, |task, _| task.thread.to_string()),
    column("NAME", 15, 1, |task, _| task.name.clone()),
    column(CONTAINER, 0, 5, |task, _| container(task)),
    column("PU", 4, 2, |task, _| {
        let pin = if task.pinned.is_some() { "*" } else { "" };
        task.pu.map_or_else(|| "-".to_owned(), |pu| format!("{pu}{pin}"))
    }),
    column("%CPU", 4, 3, |task, _| {
        task.busy
            .map_or_else(|| "-".to_owned(), |busy| format!("{:.0}", busy * 100.0))
    }),
    column(PREFERRED, 0, 5, |task, _| preferred(task)),
    column("INTER", 7, 7, |task, _| rate(task, Activity::InterPackageCoherence)),
    column("INTRA", 7, 10, |task, _| rate(task, Activity::IntraPackageCoherence)),
    column("REMOTE", 7, 8, |task, _| rate(task, Activity::RemoteDram)),
    column("MEMORY", 7, 9, |task, _| rate(task, Activity::MemoryBandwidth)),
    column(PROGRESS, 0, 11, |task, state| progress(task.process, state)),
    column(PARTNER, 0, 12, partner),
    column("WHY", 18, 6, |task, state| why(task, state.at)),
];

/// The title of the column of containers.
const CONTAINER: &str = "CONTAINER";

/// The most characters of a container's name that are shown. A pod's name with a container's is longer.
const LONGEST_CONTAINER: usize = 32;

/// A task's container. A long name loses its start, because names of pods start alike.
fn container(task: &Task) -> String {
    let text = task.container.as_ref().map_or("-", |container| container.text.as_str());
    let length = text.chars().count();
    if length <= LONGEST_CONTAINER {
        return text.to_owned();
    }
    let end: String = text.chars().skip(length + 1 - LONGEST_CONTAINER).collect();
    format!("…{end}")
}

/// The width of the column of containers; `None` if no task is in a container.
fn container_width(state: &State) -> Option<u16> {
    let mut inside = state.tasks.iter().filter(|task| task.container.is_some()).peekable();
    inside.peek()?;
    let longest = inside.map(|task| container(task).chars().count()).max().unwrap_or(0);
    u16::try_from(longest.max(CONTAINER.len())).ok()
}

/// The title of the column of the share of its run time that a task ran where it prefers.
const PREFERRED: &str = "%PREF";

/// The share of its run time in the last second that a task ran in a cache that it prefers.
fn preferred(task: &Task) -> String {
    let share = task.scheduled.and_then(|times| times.preferred_share);
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.0}", share * 100.0))
}

/// The width of the column of preferences; `None` without a scheduler in the kernel.
fn preferred_width(state: &State) -> Option<u16> {
    state.scheduler.as_ref()?;
    u16::try_from(PREFERRED.len()).ok()
}

/// The title of the column of the thread with which a task has the most wake-ups, and how many in a second.
const PARTNER: &str = "PARTNER";

/// The thread with which a task has the most wake-ups, and how many in a second.
fn partner(task: &Task, state: &State) -> String {
    let pairs = state.scheduler.iter().flat_map(|scheduler| &scheduler.pairs);
    let own = |pair: &&WakingPair| [pair.threads.0, pair.threads.1].contains(&task.thread);
    let most = pairs
        .filter(own)
        .max_by(|one, other| one.per_second.total_cmp(&other.per_second));
    most.map_or_else(
        || "-".to_owned(),
        |pair| {
            let (one, other) = pair.threads;
            let thread = if one == task.thread { other } else { one };
            format!("{thread} {:.0}/s", pair.per_second)
        },
    )
}

/// The width of the column of partners; `None` if no two tasks wake each other.
fn partner_width(state: &State) -> Option<u16> {
    let has_pairs = state
        .scheduler
        .as_ref()
        .is_some_and(|scheduler| !scheduler.pairs.is_empty());
    let longest = state
        .tasks
        .iter()
        .map(|task| partner(task, state).chars().count())
        .max();
    let longest = longest.filter(|_| has_pairs)?;
    u16::try_from(longest.max(PARTNER.len())).ok()
}

/// The title of the column of what measures the progress of a task's process.
const PROGRESS: &str = "PROGRESS";

/// The most characters of a function's name that are shown.
const LONGEST_FUNCTION: usize = 24;

/// What measures the progress of a process: `bytes`, or a function. A long name loses its end.
fn progress(process: i32, state: &State) -> String {
    let Some(progress) = state.progress.iter().find(|one| one.process == process) else {
        return "-".to_owned();
    };
    match (progress.by, &progress.function) {
        (ProgressCode::Nothing, _) => "-".to_owned(),
        (_, Some(function)) if function.name.chars().count() > LONGEST_FUNCTION => {
            let start: String = function.name.chars().take(LONGEST_FUNCTION - 3).collect();
            format!("{start}…()")
        }
        (_, Some(function)) => format!("{}()", function.name),
        (by, None) => by.name().to_owned(),
    }
}

/// The width of the column of progress; `None` if that of no process is measured by the daemon's choice.
fn progress_width(state: &State) -> Option<u16> {
    let mut measured = state
        .progress
        .iter()
        .filter(|one| one.by != ProgressCode::Nothing)
        .peekable();
    measured.peek()?;
    let longest = measured
        .map(|one| progress(one.process, state).chars().count())
        .max()
        .unwrap_or(0);
    u16::try_from(longest.max(PROGRESS.len())).ok()
}

const fn column(title: &'static str, width: u16, importance: u8, cell: fn(&Task, &State) -> String) -> Column {
    Column {
        title,
        width,
        importance,
        cell,
    }
}

/// The most important columns that fit, with a space between them. No column is cut: a cut number would be another
/// number. Columns that say nothing of this state are left out.
fn fitting(width: u16, state: &State) -> Vec<Column> {
    let all = COLUMNS.into_iter().filter_map(|column| {
        let width = match column.title {
            CONTAINER => container_width(state),
            PROGRESS => progress_width(state),
            PREFERRED => preferred_width(state),
            PARTNER => partner_width(state),
            _ => Some(column.width),
        };
        width.map(|width| Column { width, ..column })
    });
    let mut ranked: Vec<Column> = all.collect();
    ranked.sort_by_key(|column| column.importance);
    let mut used = 0;
    let fits = ranked.into_iter().take_while(|column| {
        used += column.width + 1;
        used <= width + 1
    });
    let mut columns: Vec<Column> = fits.collect();
    columns.sort_by_key(|column| COLUMNS.iter().position(|other| other.title == column.title));
    columns
}

/// A task's rate of an activity.
fn rate(task: &Task, activity: Activity) -> String {
    figure(task.rates.get(&activity).copied().flatten())
}

fn busy(task: &Task) -> f64 {
    task.busy.unwrap_or(-1.0)
}

fn moved(task: &Task) -> f64 {
    task.last_move.as_ref().map_or(-1.0, |last| last.at)
}

/// A rate in few columns; `-` if it is missing.
fn figure(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(rate) if (0.01..1000.0).contains(&rate) => format!("{rate:.3}").chars().take(6).collect(),
        Some(rate) => format!("{rate:.1e}"),
    }
}

/// The reason for a task's place.
fn why(task: &Task, now: f64) -> String {
    match (task.left_alone, &task.last_move) {
        (Some(LeftAlone::OwnMask), _) => "left alone: its own mask".to_owned(),
        (Some(LeftAlone::Forbidden), _) => "left alone: not permitted".to_owned(),
        (Some(LeftAlone::OnePu), _) => "left alone: one PU only".to_owned(),
        (Some(LeftAlone::RealTime), _) => "left alone: real-time".to_owned(),
        (None, Some(last)) => move_text(last, now),
        (None, None) => String::new(),
    }
}

fn move_text(last: &LastMove, now: f64) -> String {
    let cause = if last.makes_room {
        "made room".to_owned()
    } else {
        let reason = last.reason.name().replace('_', " ");
        match last.excess {
            Some(excess) => format!(
                "{reason} {} > {}",
                figure(Some(excess.value)),
                figure(Some(excess.threshold))
            ),
            None => reason,
        }
    };
    let outcome = match last.outcome {
        OutcomeCode::Made => "",
        OutcomeCode::Shown => ", not made",
        OutcomeCode::Refused => ", refused",
        OutcomeCode::Gone | OutcomeCode::PartnerStays => ", not possible",
    };
    let ago = span((now - last.at).max(0.0));
    format!("{}→{} {ago} ago: {cause}{outcome}", last.from, last.to)
}

/// A duration in few columns.
fn span(seconds: f64) -> String {
    if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1000.0)
    } else if seconds < 120.0 {
        format!("{seconds:.0} s")
    } else if seconds < 7200.0 {
        format!("{:.0} min", seconds / 60.0)
    } else {
        format!("{:.0} h", seconds / 3600.0)
    }
}

#[cfg(test)]
mod tests;
