//! Keys: those that are used most, prefixes, large keys, expiries. All of them are samples that the server takes always.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};

use super::rows::{self, Column, absence};
use super::words;
use crate::model::Model;
use crate::model::keys::HotKey;

/// Columns from which two tables stand side by side.
const WIDE: u16 = 110;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, scroll: usize) {
    if area.width >= WIDE {
        let half = [Constraint::Percentage(50), Constraint::Length(1), Constraint::Percentage(50)];
        let [top, bottom] = Layout::vertical([Constraint::Percentage(55), Constraint::Percentage(45)]).areas(area);
        let [left, _, right] = Layout::horizontal(half).areas(top);
        hot(frame, left, model, scroll);
        prefixes(frame, right, model, scroll);
        let [left, _, right] = Layout::horizontal(half).areas(bottom);
        large(frame, left, model, scroll);
        due(frame, right, model);
        return;
    }
    let parts = [Constraint::Percentage(40), Constraint::Percentage(30), Constraint::Min(0), Constraint::Length(2)];
    let [first, second, third, last] = Layout::vertical(parts).areas(area);
    hot(frame, first, model, scroll);
    prefixes(frame, second, model, scroll);
    large(frame, third, model, scroll);
    due_line(frame, last, model);
}

/// The keys that are used most.
pub(super) fn hot(frame: &mut Frame<'_>, area: Rect, model: &Model, scroll: usize) {
    let Some(look) = &model.now else { return };
    let keys = look.hot.as_ref().and_then(|answer| answer.as_ref().ok());
    let figure = |key: Option<&HotKey>, show: fn(&HotKey) -> String| key.map(show).unwrap_or_default();
    let rows = keys.map(|keys| keys.rows()).unwrap_or_default().into_iter().map(|row| {
        vec![
            row.name.to_owned(),
            row.db.to_string(),
            figure(row.calls, |key| words::number(key.a_second as f64)),
            figure(row.calls, |key| format!("{} %", key.percent)),
            figure(row.time, |key| format!("{} %", key.percent)),
            figure(row.bytes, |key| words::bytes(key.a_second as f64)),
        ]
    });
    let columns = [
        Column::Text("key", Constraint::Min(10)),
        Column::Figure("db", 3),
        Column::Figure("calls/s", 7),
        Column::Figure("calls", 5),
        Column::Figure("time", 5),
        Column::Figure("bytes/s", 8),
    ];
    let none = absence(&look.hot).unwrap_or_else(|| "no commands lately".into());
    rows::draw(frame, area, "Keys that are used most", &columns, (rows.collect(), scroll), &none);
}

fn prefixes(frame: &mut Frame<'_>, area: Rect, model: &Model, scroll: usize) {
    let Some(look) = &model.now else { return };
    let prefixes = look.prefixes.as_ref().and_then(|answer| answer.as_deref().ok()).unwrap_or_default();
    let all = prefixes.iter().map(|one| one.bytes).sum::<u64>().max(1) as f64;
    let rows = prefixes.iter().map(|one| {
        let share = format!("{:.1} %", 100.0 * one.bytes as f64 / all);
        vec![one.name.clone(), words::number(one.keys as f64), words::bytes(one.bytes as f64), share]
    });
    let columns = [
        Column::Text("prefix", Constraint::Min(10)),
        Column::Figure("keys", 7),
        Column::Figure("bytes", 8),
        Column::Figure("of all", 8),
    ];
    let none = absence(&look.prefixes).unwrap_or_else(|| "no keys".into());
    rows::draw(frame, area, "Bytes by prefix", &columns, (rows.collect(), scroll), &none);
}

fn large(frame: &mut Frame<'_>, area: Rect, model: &Model, scroll: usize) {
    let Some(look) = &model.now else { return };
    let keys = look.largest.as_ref().and_then(|answer| answer.as_deref().ok()).unwrap_or_default();
    let rows = keys.iter().map(|one| {
        let seen = format!("{} ago", words::time(one.seen_s as f64));
        vec![one.name.clone(), one.db.to_string(), one.kind.clone(), words::bytes(one.bytes as f64), seen]
    });
    let columns = [
        Column::Text("key", Constraint::Min(10)),
        Column::Figure("db", 3),
        Column::Text("type", Constraint::Length(7)),
        Column::Figure("bytes", 8),
        Column::Figure("seen", 12),
    ];
    let none = absence(&look.largest).unwrap_or_else(|| "no keys".into());
    rows::draw(frame, area, "Large keys", &columns, (rows.collect(), scroll), &none);
}

/// The spans of the forecast: each row has the keys that expire between the one before and this one.
fn expiries(model: &Model) -> (Vec<Vec<String>>, String) {
    let Some(look) = &model.now else { return (Vec::new(), String::new()) };
    let due = look.expiries.as_ref().and_then(|answer| answer.as_deref().ok()).unwrap_or_default();
    let rows = due.iter().map(|one| {
        let within = match one.within_s {
            60 => "a minute".to_owned(),
            3600 => "an hour".to_owned(),
            86_400 => "a day".to_owned(),
            604_800 => "a week".to_owned(),
            seconds => words::time(seconds as f64),
        };
        vec![within, words::number(one.keys as f64), words::bytes(one.bytes as f64)]
    });
    (rows.collect(), absence(&look.expiries).unwrap_or_else(|| "nothing expires".into()))
}

fn due(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let (rows, none) = expiries(model);
    let columns = [Column::Text("within", Constraint::Min(10)), Column::Figure("keys", 8), Column::Figure("bytes", 8)];
    rows::draw(frame, area, "What expires soon", &columns, (rows, 0), &none);
}

/// The forecast where there is room for two lines alone.
fn due_line(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let (rows, none) = expiries(model);
    let parts: Vec<String> = rows.iter().map(|row| format!("{} {} keys, {}", row[0], row[1], row[2])).collect();
    let text = if parts.is_empty() { none } else { format!("Expire within {}", parts.join("; ")) };
    frame.render_widget(ratatui::widgets::Paragraph::new(text).wrap(ratatui::widgets::Wrap { trim: true }), area);
}
