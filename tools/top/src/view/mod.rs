//! The views, and the frame around them.
//!
//! ```text
//!   line 1     server, version, time since its start, "no answer" in red where it is lost
//!   line 2     the names of the views, the shown one marked
//!   lines      the view: one of overview, commands, segments, keys, clients, slow, files
//!   last line  the keys, and the commands by which redis-cli prints the same figures
//! ```
//! Everything is drawn from the model, so a view looks alike in a terminal, in a test and as the text of `--once`.

mod clients;
mod commands;
mod files;
mod keys;
mod overview;
mod rows;
mod segments;
mod slow;
mod words;

#[cfg(test)]
mod tests;

use clap::ValueEnum;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::model::Model;

/// A view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum View {
    /// Throughput, CPU, memory, work under way, the keys that are used most
    Overview,
    /// Commands by time, with a latency map of each
    Commands,
    /// The segment map
    Segments,
    /// Top keys, prefixes, large keys, expiries
    Keys,
    /// Clients, and what they wait for
    Clients,
    /// Slow commands
    Slow,
    /// Files, work under way, replication
    Files,
}

impl View {
    /// All of them, in the order of their digits.
    pub(crate) const ALL: [View; 7] =
        [View::Overview, View::Commands, View::Segments, View::Keys, View::Clients, View::Slow, View::Files];

    fn name(self) -> &'static str {
        match self {
            View::Overview => "Overview",
            View::Commands => "Commands",
            View::Segments => "Segments",
            View::Keys => "Keys",
            View::Clients => "Clients",
            View::Slow => "Slow",
            View::Files => "Files",
        }
    }

    /// The commands that print the same figures in redis-cli.
    fn by(self) -> &'static str {
        match self {
            View::Overview => "INFO, HOTKEYS TOP",
            View::Commands => "INFO commandstats, LATENCY HISTOGRAM",
            View::Segments => "SEGMENTS, INFO background",
            View::Keys => "HOTKEYS TOP, MEMORY PREFIXES, LARGEST, EXPIRIES",
            View::Clients => "CLIENT LIST",
            View::Slow => "SLOWLOG GET",
            View::Files => "INFO persistence, INFO replication",
        }
    }

    /// The view that is `steps` further; behind the last one stands the first.
    pub(crate) fn step(self, steps: isize) -> View {
        let at = View::ALL.iter().position(|view| *view == self).unwrap_or(0);
        View::ALL[(at as isize + steps).rem_euclid(View::ALL.len() as isize) as usize]
    }
}

/// All that is drawn beside the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown<'s> {
    /// The server, as the user has named it.
    pub(crate) server: &'s str,
    pub(crate) view: View,
    /// Rows of a long table that are passed over.
    pub(crate) scroll: usize,
    /// Looks are not made at present.
    pub(crate) is_paused: bool,
}

/// Draws it all.
pub(crate) fn draw(frame: &mut Frame<'_>, model: &Model, shown: Shown<'_>) {
    let parts = [Constraint::Length(1), Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)];
    let [head, tabs, body, foot] = Layout::vertical(parts).areas(frame.area());
    frame.render_widget(Paragraph::new(head_line(model, shown)), head);
    frame.render_widget(Paragraph::new(tab_line(shown.view)), tabs);
    frame.render_widget(Paragraph::new(foot_line(shown.view)).style(soft()), foot);
    match model.info() {
        Err(reason) => frame.render_widget(Paragraph::new(reason.to_owned()), body),
        Ok(_) => draw_view(frame, body, model, shown),
    }
}

fn draw_view(frame: &mut Frame<'_>, area: Rect, model: &Model, shown: Shown<'_>) {
    match shown.view {
        View::Overview => overview::draw(frame, area, model),
        View::Commands => commands::draw(frame, area, model, shown.scroll),
        View::Segments => segments::draw(frame, area, model, shown.scroll),
        View::Keys => keys::draw(frame, area, model, shown.scroll),
        View::Clients => clients::draw(frame, area, model, shown.scroll),
        View::Slow => slow::draw(frame, area, model, shown.scroll),
        View::Files => files::draw(frame, area, model),
    }
}

fn head_line(model: &Model, shown: Shown<'_>) -> Line<'static> {
    let mut parts = vec![Span::styled("varve-top ", bold()), Span::raw(shown.server.to_owned())];
    if let Ok(info) = model.info() {
        let name = if info.text("varve_version").is_empty() { "Redis" } else { "Varve" };
        let version =
            [info.text("varve_version"), info.text("redis_version")].into_iter().find(|text| !text.is_empty());
        let up = words::time(info.number("uptime_in_seconds"));
        parts.push(Span::raw(format!("  {name} {}, up {up}", version.unwrap_or_default())));
    }
    if shown.is_paused {
        parts.push(Span::styled("  paused", bold()));
    }
    if let Some(reason) = &model.lost {
        parts.push(Span::styled(format!("  no answer, old figures: {reason}"), Style::new().fg(Color::Red)));
    }
    Line::from(parts)
}

fn tab_line(shown: View) -> Line<'static> {
    let name = |(at, view): (usize, &View)| {
        let style = if *view == shown { bold().add_modifier(Modifier::REVERSED) } else { Style::new() };
        [Span::styled(format!("{} {}", at + 1, view.name()), style), Span::raw("  ")]
    };
    View::ALL.iter().enumerate().flat_map(name).collect()
}

fn foot_line(view: View) -> String {
    format!("q ends, 1-7 views | redis-cli: {}", view.by())
}

/// Captions.
fn soft() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

/// Heads.
fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}
