//! The overview: figures of now, throughput and CPU of the last minutes, work under way, the keys that are used most.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::widgets::{Paragraph, RenderDirection, Sparkline};

use super::{bold, files, keys, soft, words};
use crate::model::Model;
use crate::model::history::Sample;
use crate::model::info::Info;
use crate::model::work;

/// Columns of a figure with its name.
const FIGURE_WIDTH: u16 = 26;
/// Lines of a chart with its caption.
const CHART_HEIGHT: u16 = 5;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let Ok(info) = model.info() else { return };
    let figures = figures(model, info);
    let columns = (area.width / FIGURE_WIDTH).max(1);
    let lines = u16::try_from(figures.len()).unwrap_or(u16::MAX).div_ceil(columns);
    let under_way = work::work(info);
    let work_lines = u16::try_from(under_way.len()).unwrap_or(u16::MAX);
    let parts = [lines, CHART_HEIGHT, CHART_HEIGHT, work_lines].map(Constraint::Length);
    let [at, rate, cpu, work, below] = Layout::vertical(parts.into_iter().chain([Constraint::Min(0)])).areas(area);
    for (number, (name, value)) in (0_u16..).zip(&figures) {
        let (x, y) = (at.x + number % columns * FIGURE_WIDTH, at.y + number / columns);
        let place = Rect { x, y, width: FIGURE_WIDTH - 1, height: 1 };
        frame.render_widget(Paragraph::new(figure(name, value)), place.intersection(area));
    }
    chart(frame, rate, "commands a second", model, |sample| sample.commands, words::number);
    chart(frame, cpu, "CPU, percent of one core", model, |sample| sample.cpu, percent);
    files::work(frame, work, &under_way);
    keys::hot(frame, below, model, 0);
}

fn figure(name: &str, value: &str) -> ratatui::text::Line<'static> {
    let name = ratatui::text::Span::styled(format!("{name:<12} "), soft());
    ratatui::text::Line::from(vec![name, ratatui::text::Span::styled(value.to_owned(), bold())])
}

fn percent(value: f64) -> String {
    format!("{value:.1} %")
}

fn figures(model: &Model, info: &Info) -> Vec<(&'static str, String)> {
    let last = model.history.last();
    let rate =
        |figure: fn(&Sample) -> f64, show: fn(f64) -> String| last.as_ref().map_or("-".into(), |s| show(figure(s)));
    let (keys, volatile) = info
        .family("db")
        .filter(|(number, _)| number.parse::<u32>().is_ok())
        .fold((0.0, 0.0), |(keys, volatile), (_, list)| {
            (keys + list.number("keys"), volatile + list.number("expires"))
        });
    let limit = info.number("maxmemory");
    let hit_rate = last.map_or("-".into(), |sample| match sample.hits + sample.misses {
        0.0 => "no reads".to_owned(),
        all => percent(100.0 * sample.hits / all),
    });
    let a_command = last.filter(|sample| sample.commands >= 1.0);
    vec![
        ("commands/s", rate(|sample| sample.commands, words::number)),
        ("CPU", rate(|sample| sample.cpu, percent)),
        ("CPU/command", a_command.map_or("-".into(), |sample| words::micros(sample.cpu * 1e4 / sample.commands))),
        ("used memory", words::bytes(info.number("used_memory"))),
        ("of at most", if limit > 0.0 { words::bytes(limit) } else { "no limit".into() }),
        ("resident", words::bytes(info.number("used_memory_rss"))),
        ("keys", words::number(keys)),
        ("that expire", words::number(volatile)),
        ("hit rate", hit_rate),
        ("clients", words::number(info.number("connected_clients"))),
        ("blocked", words::number(info.number("blocked_clients"))),
        ("read/s", rate(|sample| sample.input_bytes, words::bytes)),
        ("written/s", rate(|sample| sample.output_bytes, words::bytes)),
        ("expired", words::number(info.number("expired_keys"))),
        ("evicted", words::number(info.number("evicted_keys"))),
    ]
}

/// A figure of the last minutes, the newest on the right.
fn chart(
    frame: &mut Frame<'_>,
    area: Rect,
    name: &str,
    model: &Model,
    figure: fn(&Sample) -> f64,
    show: fn(f64) -> String,
) {
    let values = model.history.newest_first(figure);
    let shown = &values[..values.len().min(usize::from(area.width))];
    let most = shown.iter().copied().fold(0.0, f64::max);
    let now = shown.first().copied().unwrap_or(0.0);
    let [head, below] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let caption = format!("{name}: now {}, at most {} in {} looks", show(now), show(most), shown.len());
    frame.render_widget(Paragraph::new(caption).style(soft()), head);
    // A chart has whole numbers: thousandths of the greatest.
    let heights: Vec<u64> = shown.iter().map(|value| (1000.0 * value / most.max(f64::MIN_POSITIVE)) as u64).collect();
    let line = Sparkline::default().data(&heights).max(1000).direction(RenderDirection::RightToLeft);
    frame.render_widget(line.style(Style::new().fg(Color::Cyan)), below);
}
