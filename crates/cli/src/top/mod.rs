//! `pinfold top`: shows the tasks of the daemon, their CPUs and the reasons, and refreshes the screen.
//!
//! It requests the daemon's state (`client`) and draws it (`pinfold_view`), again and again until the user ends it.
//! `--once` and `--batch` print the same frame as text.

mod client;

use crate::console;
use crate::daemon::usual_socket;
use crate::run::{duration, number};
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use client::ask;
use pinfold_runtime::daemon::state::State;
use pinfold_view::daemon::{Order, View, draw, height, plain};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Show which tasks the daemon watches: where each runs, what it does, and why it was moved.
///
/// Keys: q quits, p pauses, s changes the order, up and down or k and j scroll.
#[derive(Args)]
#[command(after_long_help = "\
Examples:
  pinfold top
      until you press q
  pinfold top --once
      one frame, for a script")]
pub(crate) struct Arguments {
    /// Show one frame as text and end.
    #[arg(long, conflicts_with = "batch")]
    once: bool,

    /// Print frames as text, one below the other, until a signal arrives or the reader ends.
    #[arg(long)]
    batch: bool,

    /// Print the state as JSON and end.
    #[arg(long, conflicts_with_all = ["once", "batch"])]
    json: bool,

    /// Ask the daemon this often.
    #[arg(long, default_value = "1s", value_parser = duration::parse_probe, value_name = "TIME")]
    interval: Duration,

    /// What tasks are ordered by.
    #[arg(short, long, value_enum, default_value_t = Sort::Busy, value_name = "ORDER")]
    sort: Sort,

    /// How many columns the text of --once and --batch has [default: the terminal's, else 100].
    #[arg(long, value_name = "N", value_parser = number::within(40u16, 400))]
    width: Option<u16>,

    /// The daemon's socket [default: daemon.sock beside the journals].
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    #[command(flatten)]
    journals: crate::journals::Arguments,
}

/// What tasks are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sort {
    /// The busiest first.
    Busy,
    /// By PU.
    Pu,
    /// By process and thread number.
    Process,
    /// The last moved first.
    Moved,
}

impl From<Sort> for Order {
    fn from(sort: Sort) -> Self {
        match sort {
            Sort::Busy => Self::Busy,
            Sort::Pu => Self::Pu,
            Sort::Process => Self::Process,
            Sort::Moved => Self::Moved,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let usual = || usual_socket(&arguments.journals);
    let socket = arguments.socket.clone().unwrap_or_else(usual);
    if arguments.json {
        console::print(&client::ask_text(&socket)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.once || arguments.batch {
        return as_text(arguments, &socket);
    }
    // Before the screen is cleared, so that an error stays readable.
    let state = ask(&socket)?;
    let mut terminal = ratatui::try_init().context("there is no terminal to draw in; --once prints a frame as text")?;
    let ended = live(arguments, &socket, &mut terminal, state);
    ratatui::restore();
    ended?;
    Ok(ExitCode::SUCCESS)
}

fn as_text(arguments: &Arguments, socket: &Path) -> Result<ExitCode> {
    let terminal = || {
        terminal::size()
            .ok()
            .map(|(columns, _)| columns)
            .filter(|&columns| columns >= 40)
    };
    let width = arguments.width.or_else(terminal).unwrap_or(100);
    let view = View {
        order: arguments.sort.into(),
        ..View::default()
    };
    loop {
        let state = ask(socket)?;
        let text = plain(&state, &view, width, height(&state, width));
        if arguments.once {
            console::print(&text)?;
            return Ok(ExitCode::SUCCESS);
        }
        if !console::stream(|out| writeln!(out, "{text}"))? {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(arguments.interval);
    }
}

/// Draws until the user ends it.
fn live(arguments: &Arguments, socket: &Path, terminal: &mut ratatui::DefaultTerminal, mut state: State) -> Result<()> {
    let mut view = View {
        order: arguments.sort.into(),
        keys: true,
        ..View::default()
    };
    let mut asked = Instant::now();
    loop {
        terminal.draw(|frame| draw(&state, &view, frame.area(), frame.buffer_mut()))?;
        let left = arguments.interval.saturating_sub(asked.elapsed());
        if event::poll(left)? {
            if let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
                && !take(&mut view, key.code, key.modifiers)
            {
                return Ok(());
            }
            continue;
        }
        asked = Instant::now();
        if view.paused {
            continue;
        }
        match ask(socket) {
            Ok(new) => {
                state = new;
                view.trouble = None;
            }
            // The daemon may be restarted: the last state stays on the screen, with the error.
            Err(error) => view.trouble = Some(console::whole(&error)),
        }
    }
}

/// Handles a key; false if it ends the display.
fn take(view: &mut View, key: KeyCode, modifiers: KeyModifiers) -> bool {
    match key {
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => return false,
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Char('p' | ' ') => view.paused = !view.paused,
        KeyCode::Char('s') => view.order = view.order.next(),
        KeyCode::Down | KeyCode::Char('j') => view.scroll = view.scroll.saturating_add(1),
        KeyCode::Up | KeyCode::Char('k') => view.scroll = view.scroll.saturating_sub(1),
        KeyCode::PageDown => view.scroll = view.scroll.saturating_add(10),
        KeyCode::PageUp => view.scroll = view.scroll.saturating_sub(10),
        KeyCode::Home => view.scroll = 0,
        _ => {}
    }
    true
}
