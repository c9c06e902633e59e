//! The segment map: a letter a segment, and how many segments have which live share.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::{bold, rows, soft, words};
use crate::model::Model;
use crate::model::segments::Segment;

/// The letter and the colour of a state other than `sealed`, whose letter is its live share in tenths.
const STATES: [(&str, char, Color); 5] = [
    ("open", 'o', Color::Green),
    ("draining", 'd', Color::Red),
    ("run", 'r', Color::Magenta),
    ("retired", 'x', Color::DarkGray),
    ("free", '.', Color::DarkGray),
];

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, scroll: usize) {
    let Some(look) = &model.now else { return };
    let parts = [Constraint::Length(1), Constraint::Length(2), Constraint::Min(0), Constraint::Length(2)];
    let [head, key, map, tenths] = Layout::vertical(parts).areas(area);
    if let Some(reason) = rows::absence(&look.segments) {
        frame.render_widget(Paragraph::new(reason).style(soft()), head);
        return;
    }
    let Some(Ok(segments)) = &look.segments else { return };
    let (used, live) =
        segments.iter().fold((0, 0), |(used, live), one| (used + one.used, live + one.live.min(one.used)));
    let share = if used > 0 { format!("{:.1} %", 100.0 * live as f64 / used as f64) } else { "nothing".into() };
    let count = words::number(segments.len() as f64);
    let title = format!("{count} segments, {} written, {share} of it lives", words::bytes(used as f64));
    frame.render_widget(Paragraph::new(title).style(bold()), head);
    let legend = "A letter is a segment. 0 to 9: sealed, the tenths of its bytes that live. o: open, d: draining, \
                  r: run, a large value, x: retired, being freed.";
    frame.render_widget(Paragraph::new(legend).style(soft()).wrap(Wrap { trim: true }), key);
    frame.render_widget(Paragraph::new(lines(segments, usize::from(map.width), scroll)), map);
    let by_share = model.info().map(|info| info.text("segments_utilisation").replace(',', " ")).unwrap_or_default();
    frame.render_widget(Paragraph::new(format!("Segments by live share, in tenths from 0 on: {by_share}")), tenths);
}

/// The map's lines, from the one that the user has scrolled to.
fn lines(segments: &[Segment], width: usize, scroll: usize) -> Vec<Line<'static>> {
    let all: Vec<&[Segment]> = segments.chunks(width.max(1)).collect();
    let first = scroll.min(all.len().saturating_sub(1));
    all[first..].iter().map(|line| line.iter().map(letter).collect()).collect()
}

fn letter(segment: &Segment) -> Span<'static> {
    match STATES.iter().find(|(state, ..)| *state == segment.state) {
        Some((_, letter, colour)) => Span::styled(letter.to_string(), Style::new().fg(*colour)),
        None => {
            let tenths = (segment.live_percent() / 10).min(9);
            Span::styled(tenths.to_string(), Style::new().fg(Color::Cyan))
        }
    }
}
