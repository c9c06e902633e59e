//! Slow commands, the newest first.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};

use super::rows::{self, Column, absence};
use super::words;
use crate::model::Model;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, scroll: usize) {
    let Some(look) = &model.now else { return };
    let entries = look.slow.as_ref().and_then(|answer| answer.as_deref().ok()).unwrap_or_default();
    let rows = entries.iter().map(|one| {
        vec![words::clock(one.at_s), words::micros(one.micros as f64), one.command.clone(), one.client.clone()]
    });
    let columns = [
        Column::Text("when", Constraint::Length(12)),
        Column::Figure("took", 8),
        Column::Text("command", Constraint::Min(20)),
        Column::Text("client", Constraint::Max(24)),
    ];
    let none = absence(&look.slow).unwrap_or_else(|| "none".into());
    rows::draw(frame, area, "Slow commands", &columns, (rows.collect(), scroll), &none);
}
