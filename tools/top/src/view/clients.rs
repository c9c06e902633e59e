//! Clients, and what they wait for.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};

use super::rows::{self, Column, absence};
use super::words;
use crate::model::Model;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, scroll: usize) {
    let Some(look) = &model.now else { return };
    let clients = look.clients.as_ref().and_then(|answer| answer.as_deref().ok()).unwrap_or_default();
    let rows = clients.iter().map(|one| {
        let name = if one.name.is_empty() { one.address.clone() } else { format!("{} {}", one.name, one.address) };
        vec![
            one.id.to_string(),
            name,
            one.user.clone(),
            one.db.clone(),
            one.command.clone(),
            one.waits_for.to_owned(),
            words::greatest_unit(one.idle_s as f64),
            words::bytes(one.bytes as f64),
        ]
    });
    let columns = [
        Column::Figure("id", 6),
        Column::Text("client", Constraint::Min(17)),
        Column::Text("user", Constraint::Max(7)),
        Column::Figure("db", 2),
        Column::Text("command", Constraint::Max(10)),
        Column::Text("waits for", Constraint::Max(18)),
        Column::Figure("idle", 6),
        Column::Figure("bytes", 7),
    ];
    let title = "Clients: those that wait, then those that take most memory";
    let none = absence(&look.clients).unwrap_or_else(|| "none".into());
    rows::draw(frame, area, title, &columns, (rows.collect(), scroll), &none);
}
