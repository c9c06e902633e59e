//! Files, work under way, and replication.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::widgets::{LineGauge, Paragraph};

use super::rows::{self, Column};
use super::{bold, soft, words};
use crate::model::Model;
use crate::model::info::Info;
use crate::model::replicas;
use crate::model::work::{self, Work};

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let Ok(info) = model.info() else { return };
    let under_way = work::work(info);
    let lines = files(info);
    let height = |len: usize| Constraint::Length(u16::try_from(len).unwrap_or(u16::MAX));
    let parts = [height(1), height(lines.len()), height(under_way.len().max(1)), height(2), Constraint::Min(0)];
    let [head, at, bars, primary, table] = Layout::vertical(parts).areas(area);
    frame.render_widget(Paragraph::new("Files").style(bold()), head);
    frame.render_widget(Paragraph::new(lines.join("\n")), at);
    if under_way.is_empty() {
        frame.render_widget(Paragraph::new("no long work is under way").style(soft()), bars);
    }
    work(frame, bars, &under_way);
    let offset = info.text("master_repl_offset");
    let text = format!("Replication\nThis server {}; its offset is {offset}", replicas::primary(info));
    frame.render_widget(Paragraph::new(text), primary);
    let rows = replicas::replicas(info).into_iter();
    let rows = rows.map(|one| vec![one.address, one.state, words::bytes(one.behind), words::time(one.lag_s)]);
    let columns = [
        Column::Text("replica", Constraint::Min(20)),
        Column::Text("state", Constraint::Length(14)),
        Column::Figure("behind", 9),
        Column::Figure("heard", 10),
    ];
    rows::draw(frame, table, "Replicas", &columns, (rows.collect(), 0), "no replicas");
}

fn files(info: &Info) -> Vec<String> {
    let ended = |field: &str| if info.text(field) == "ok" { "well" } else { "badly" };
    let changes = words::number(info.number("rdb_changes_since_last_save"));
    let saved = words::clock(info.number("rdb_last_save_time") as u64);
    let mut lines =
        vec![format!("last save at {saved}, ended {}; {changes} changes since", ended("rdb_last_bgsave_status"))];
    lines.push(if info.number("aof_enabled") > 0.0 {
        let bytes = words::bytes(info.number("aof_current_size"));
        let state = ended("aof_last_bgrewrite_status");
        format!("append-only file: {bytes}; the last rewrite ended {state}")
    } else {
        "append-only file: off".into()
    });
    lines
}

/// A bar for each piece of work.
pub(super) fn work(frame: &mut Frame<'_>, area: Rect, under_way: &[Work]) {
    for (line, work) in (0_u16..).zip(under_way) {
        let place = Rect { y: area.y + line, height: 1, ..area }.intersection(area);
        let show = if work.is_bytes { words::bytes } else { words::number };
        let unit = if work.is_bytes { "" } else { " keys" };
        let left = work.left_s.map(|left| format!(", {} left", words::time(left))).unwrap_or_default();
        let label = format!("{}: {} of {}{unit}{left}", work.name, show(work.done), show(work.total));
        let bar = LineGauge::default().ratio(work.share()).label(label).filled_style(Style::new().fg(Color::Cyan));
        frame.render_widget(bar, place);
    }
}
