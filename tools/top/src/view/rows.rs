//! Tables of the views: a head, rows from where the user has scrolled to, and a line in the place of rows that are not there.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::text::Text;
use ratatui::widgets::{Cell, Paragraph, Row, Table};

use super::{bold, soft};
use crate::model::Asked;

/// A column: its head and its width. Texts stand on the left, figures on the right.
#[derive(Clone, Copy, Debug)]
pub(super) enum Column {
    Text(&'static str, Constraint),
    Figure(&'static str, u16),
}

/// Draws a table with a title, where `scroll` rows are passed over; `none` where there are no rows.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    columns: &[Column],
    (rows, scroll): (Vec<Vec<String>>, usize),
    none: &str,
) {
    if area.height == 0 {
        return;
    }
    let [head, below] = super::Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let room = usize::from(below.height.saturating_sub(1)).max(1);
    // The last row is not scrolled away.
    let first = scroll.min(rows.len().saturating_sub(room));
    let place = match rows.len() {
        len if len > room => format!("{title} ({} to {} of {len})", first + 1, (first + room).min(len)),
        _ => title.to_owned(),
    };
    frame.render_widget(Paragraph::new(place).style(bold()), head);
    if rows.is_empty() {
        frame.render_widget(Paragraph::new(none.to_owned()).style(soft()), below);
        return;
    }
    let cell = |(text, column): (String, &Column)| match column {
        Column::Text(..) => Cell::new(text),
        Column::Figure(..) => Cell::new(Text::from(text).alignment(Alignment::Right)),
    };
    let names = columns.iter().map(|column| match column {
        Column::Text(name, _) | Column::Figure(name, _) => (*name).to_owned(),
    });
    let widths = columns.iter().map(|column| match column {
        Column::Text(_, width) => *width,
        Column::Figure(_, width) => Constraint::Length(*width),
    });
    let names: Row<'_> = names.zip(columns).map(cell).collect();
    let shown = rows.into_iter().skip(first).take(room);
    let table = Table::new(shown.map(|row| row.into_iter().zip(columns).map(cell).collect::<Row<'_>>()), widths);
    frame.render_widget(table.header(names.style(soft())), below);
}

/// The line in the place of a table whose reply is not there; None if it is.
pub(super) fn absence<T>(asked: &Asked<T>) -> Option<String> {
    match asked {
        None => Some("asked with the next look".into()),
        Some(Err(reason)) => Some(format!("the server refuses: {reason}")),
        Some(Ok(_)) => None,
    }
}
