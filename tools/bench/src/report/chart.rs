//! A figure as SVG: text that can be selected, colours that follow the page's light or dark theme.
//!
//! ```text
//!   Lines                                Dots
//!   legend                               legend
//!   value |      .--o                    case one |  o     x
//!         |  o--'                        case two |    o      x
//!         +------------ places                    +------------- value
//! ```
//! plotters draws in pixels; the colours that it writes are then replaced by variables of the style sheet, so that one SVG
//! serves both themes. A value whose runs differ too much is drawn pale; a range is a bar with two ends.

use super::{Figure, Form, Role, Value, axis, short};
use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Polygon, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, RGBColor, ShapeStyle, TextStyle};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Width of every chart, in pixels; the page scales it.
const WIDTH: i32 = 860;
/// Height of the plot of a chart of lines.
const PLOT_HEIGHT: i32 = 300;
/// Width of a letter of the labels, on average: plotters measures no text without a font.
const LETTER: f64 = 6.6;
/// Size of the letters: plotters divides by 1.24, which makes 12 pixels.
const LETTERS: i32 = 15;
const LEGEND_LINE: i32 = 20;
/// Values that are further apart than this factor have a logarithmic axis.
const LOG_FROM: f64 = 25.0;
/// Opacity of what is not sure.
const PALE: f64 = 0.35;

/// A colour of the light theme, its variable, and the colour that the dark theme gives it.
struct Ink(RGBColor, &'static str, &'static str);

const TEXT: Ink = Ink(RGBColor(0x22, 0x2b, 0x33), "ink", "#e4e9ee");
const GRID: Ink = Ink(RGBColor(0xd8, 0xde, 0xe3), "grid", "#37414b");
const FLOOR: Ink = Ink(RGBColor(0x7b, 0x86, 0x90), "floor", "#98a3ad");
const VARVE: Ink = Ink(RGBColor(0x00, 0x6d, 0x9c), "varve", "#4fbbe8");
const PEER: Ink = Ink(RGBColor(0xc4, 0x3d, 0x24), "peer", "#ff8a6e");
const PUBLISHED: [Ink; 3] = [
    Ink(RGBColor(0x7a, 0x4f, 0xb0), "published1", "#c3a1f2"),
    Ink(RGBColor(0xa8, 0x5d, 0x9c), "published2", "#eba4de"),
    Ink(RGBColor(0x5c, 0x5f, 0xc2), "published3", "#a4a8ff"),
];
const OTHERS: [Ink; 5] = [
    Ink(RGBColor(0x2e, 0x86, 0x55), "other1", "#67cf97"),
    Ink(RGBColor(0xa8, 0x77, 0x00), "other2", "#e8bb4a"),
    Ink(RGBColor(0x3f, 0x6f, 0xb5), "other3", "#8db8f5"),
    Ink(RGBColor(0xb0, 0x4a, 0x72), "other4", "#f29bbd"),
    Ink(RGBColor(0x5b, 0x7a, 0x1e), "other5", "#b0d263"),
];

fn inks() -> impl Iterator<Item = &'static Ink> {
    [&TEXT, &GRID, &FLOOR, &VARVE, &PEER].into_iter().chain(&PUBLISHED).chain(&OTHERS)
}

/// The style sheet's variables: light, and dark where the reader's system is.
pub(super) fn colours() -> String {
    let light: String = inks().map(|Ink(colour, name, _)| format!("--{name}:{};", hex(*colour))).collect();
    let dark: String = inks().map(|Ink(_, name, dark)| format!("--{name}:{dark};")).collect();
    format!(":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}")
}

fn hex(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

/// The SVG of a figure for a page that has [`colours`] in its style sheet.
pub(super) fn within(figure: &Figure) -> String {
    let mut text = String::new();
    let legend = legend(figure);
    let height = match figure.form {
        Form::Lines => legend.height + PLOT_HEIGHT + 56,
        Form::Dots => legend.height + rows_height(figure) + 50,
    };
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH as u32, height as u32)).into_drawing_area();
        let drawn = legend.draw(&area).and_then(|()| match figure.form {
            Form::Lines => lines(&area, figure, legend.height),
            Form::Dots => dots(&area, figure, legend.height),
        });
        drawn.and_then(|()| area.present().map_err(drop)).expect("a string takes every chart");
    }
    for Ink(colour, name, _) in inks() {
        text = text.replace(&format!("\"{}\"", hex(*colour)), &format!("\"var(--{name})\""));
    }
    let label = super::page::escaped(&figure.title);
    text.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{label}\" "), 1)
}

/// The SVG of a figure as a file of its own.
pub(super) fn alone(figure: &Figure) -> String {
    let style = format!("<style>{}svg{{background:var(--paper)}}:root{{--paper:#fff}}", colours());
    let dark = "@media screen and (prefers-color-scheme:dark){:root{--paper:#14191e}}</style>";
    let text = within(figure);
    let end = text.find('>').map_or(0, |end| end + 1);
    format!("{}\n{style}{dark}{}", &text[..end], &text[end..])
}

/// Colour and mark of each series, in their order.
fn styles(figure: &Figure) -> Vec<(RGBColor, usize)> {
    let (mut published, mut others) = (0, 0);
    let next = |count: &mut usize, inks: &[Ink]| {
        *count += 1;
        inks[(*count - 1) % inks.len()].0
    };
    let colour = |role: Role| match role {
        Role::Varve => VARVE.0,
        Role::Peer => PEER.0,
        Role::Floor => FLOOR.0,
        Role::Published => next(&mut published, &PUBLISHED),
        Role::Rival | Role::Other => next(&mut others, &OTHERS),
    };
    figure.series.iter().map(|series| series.role).map(colour).zip(0..).collect()
}

/// The names of the series with their marks, in lines that fit.
struct Legend {
    /// Left end and top of each entry.
    entries: Vec<(i32, i32, String, RGBColor, usize, bool)>,
    height: i32,
}

fn legend(figure: &Figure) -> Legend {
    let (mut x, mut y) = (12, 12);
    let mut entries = Vec::new();
    for (series, (colour, mark)) in figure.series.iter().zip(styles(figure)) {
        let width = 34 + letters(&series.name);
        if x + width > WIDTH && x > 12 {
            (x, y) = (12, y + LEGEND_LINE);
        }
        entries.push((x, y, series.name.clone(), colour, mark, series.role == Role::Published));
        x += width;
    }
    Legend { entries, height: y + LEGEND_LINE }
}

impl Legend {
    fn draw(&self, area: &Area<'_>) -> Result<(), ()> {
        for (x, y, name, colour, mark, dashed) in &self.entries {
            stroke(area, &[(*x, *y), (x + 18, *y)], *colour, 1.0, *dashed)?;
            dot(area, (x + 9, *y), *colour, *mark, 1.0)?;
            label(area, name, (x + 24, *y), HPos::Left)?;
        }
        Ok(())
    }
}

/// Values to pixels, linear from zero or logarithmic.
struct Scale {
    log: bool,
    low: f64,
    high: f64,
    /// Pixels of the low and of the high end.
    ends: (i32, i32),
}

impl Scale {
    fn of(figure: &Figure, ends: (i32, i32)) -> Scale {
        let values = || figure.series.iter().flat_map(|series| &series.points).map(|point| point.value);
        let high = values().map(|value| value.high).fold(0.0, f64::max).max(1e-9);
        let low = values().map(|value| value.low).fold(f64::INFINITY, f64::min).min(high);
        let log = low > 0.0 && high / low > LOG_FROM;
        match log {
            true => Scale { log, low: low / 1.25, high: high * 1.25, ends },
            false => Scale { log, low: low.min(0.0), high: high * 1.06, ends },
        }
    }

    fn pixel(&self, value: f64) -> i32 {
        let part = match self.log {
            true => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        self.ends.0 + (part * f64::from(self.ends.1 - self.ends.0)).round() as i32
    }

    /// Values with a line of the grid.
    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let steps: &[f64] = if self.high / self.low > 2000.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
            let powers = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
            let all = powers.flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)));
            return all.filter(|tick| (self.low..=self.high).contains(tick)).collect();
        }
        let rough = (self.high - self.low) / 5.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].iter().map(|step| step * power).find(|step| *step >= rough).unwrap_or(rough);
        let first = (self.low / step).ceil() as i64;
        (first..first + 8).map(|n| n as f64 * step).filter(|tick| *tick <= self.high).collect()
    }
}

fn lines(area: &Area<'_>, figure: &Figure, top: i32) -> Result<(), ()> {
    let (left, right, bottom) = (72, WIDTH - 16, top + PLOT_HEIGHT);
    let scale = Scale::of(figure, (bottom, top + 16));
    label(area, &axis_text(figure, &scale), (12, top + 4), HPos::Left)?;
    for tick in scale.ticks() {
        let y = scale.pixel(tick);
        stroke(area, &[(left, y), (right, y)], GRID.0, 1.0, false)?;
        label(area, &short(tick), (left - 8, y), HPos::Right)?;
    }
    let count = figure.places.len().max(1) as i32;
    let x = |place: usize| left + (right - left) * (2 * place as i32 + 1) / (2 * count);
    let widest = figure.places.iter().map(|place| letters(place)).max().unwrap_or(0) + 8;
    let every = (widest * count / (right - left) + 1) as usize;
    for (place, name) in figure.places.iter().enumerate().step_by(every) {
        stroke(area, &[(x(place), bottom), (x(place), bottom + 4)], FLOOR.0, 1.0, false)?;
        label(area, name, (x(place), bottom + 16), HPos::Center)?;
    }
    label(area, &figure.axis, ((left + right) / 2, bottom + 38), HPos::Center)?;
    for (series, (colour, mark)) in figure.series.iter().zip(styles(figure)) {
        let at = |value: f64, place: usize| (x(place), scale.pixel(value));
        let path: Vec<_> = series.points.iter().map(|point| at(point.value.median, point.place)).collect();
        stroke(area, &path, colour, 1.0, series.role == Role::Published)?;
        for point in &series.points {
            let ends = [at(point.value.low, point.place), at(point.value.high, point.place)];
            range(area, ends, (3, 0), colour, &point.value)?;
            dot(area, at(point.value.median, point.place), colour, mark, opacity(&point.value))?;
        }
    }
    Ok(())
}

/// Height of a row of a chart of dots: one line of text, or the marks of its series below each other.
fn row_height(figure: &Figure) -> i32 {
    (7 * figure.series.len() as i32 + 6).max(18)
}

fn rows_height(figure: &Figure) -> i32 {
    row_height(figure) * figure.places.len() as i32
}

fn dots(area: &Area<'_>, figure: &Figure, top: i32) -> Result<(), ()> {
    let left = figure.places.iter().map(|place| letters(place)).max().unwrap_or(0).clamp(60, 380) + 20;
    let (right, bottom) = (WIDTH - 24, top + rows_height(figure));
    let scale = Scale::of(figure, (left, right));
    for tick in scale.ticks() {
        let x = scale.pixel(tick);
        stroke(area, &[(x, top), (x, bottom + 4)], GRID.0, 1.0, false)?;
        label(area, &short(tick), (x, bottom + 14), HPos::Center)?;
    }
    label(area, &axis_text(figure, &scale), ((left + right) / 2, bottom + 36), HPos::Center)?;
    let height = row_height(figure);
    let styles = styles(figure);
    for (place, name) in figure.places.iter().enumerate() {
        let middle = top + height * place as i32 + height / 2;
        stroke(area, &[(left, middle + height / 2), (right, middle + height / 2)], GRID.0, 0.5, false)?;
        label(area, name, (left - 8, middle), HPos::Right)?;
        let first = middle - 7 * (figure.series.len() as i32 - 1) / 2;
        for (number, (series, (colour, mark))) in figure.series.iter().zip(&styles).enumerate() {
            let Some(value) = series.at(place) else { continue };
            let y = first + 7 * number as i32;
            range(area, [value.low, value.high].map(|end| (scale.pixel(end), y)), (0, 3), *colour, &value)?;
            dot(area, (scale.pixel(value.median), y), *colour, *mark, opacity(&value))?;
        }
    }
    Ok(())
}

fn axis_text(figure: &Figure, scale: &Scale) -> String {
    format!("{}{}", axis::label(figure), if scale.log { ", logarithmic" } else { "" })
}

fn opacity(value: &Value) -> f64 {
    if value.is_wide() { PALE } else { 1.0 }
}

/// Estimated width of a label, in pixels.
fn letters(text: &str) -> i32 {
    (text.chars().count() as f64 * LETTER) as i32
}

/// The range of a value's runs, with an end of `half` pixels to both sides.
fn range(area: &Area<'_>, ends: [(i32, i32); 2], half: (i32, i32), colour: RGBColor, value: &Value) -> Result<(), ()> {
    if value.runs < 2 {
        return Ok(());
    }
    let draw = |path: Vec<(i32, i32)>| {
        area.draw(&PathElement::new(path, ShapeStyle::from(colour.mix(opacity(value))).stroke_width(1))).map_err(drop)
    };
    draw(ends.to_vec())?;
    ends.into_iter().try_for_each(|(x, y)| draw(vec![(x - half.0, y - half.1), (x + half.0, y + half.1)]))
}

/// A line; a dashed one in steps of seven pixels.
fn stroke(area: &Area<'_>, path: &[(i32, i32)], colour: RGBColor, opacity: f64, dashed: bool) -> Result<(), ()> {
    let style = ShapeStyle::from(colour.mix(opacity)).stroke_width(1);
    let draw = |path: Vec<(i32, i32)>| area.draw(&PathElement::new(path, style)).map_err(drop);
    if !dashed {
        return draw(path.to_vec());
    }
    for ends in path.windows(2) {
        let (dx, dy) = (f64::from(ends[1].0 - ends[0].0), f64::from(ends[1].1 - ends[0].1));
        let steps = (dx.hypot(dy) / 7.0).ceil().max(1.0) as i32;
        let at = |part: f64| (ends[0].0 + (dx * part).round() as i32, ends[0].1 + (dy * part).round() as i32);
        for step in 0..steps {
            let part = |more: f64| (f64::from(step) + more) / f64::from(steps);
            draw(vec![at(part(0.0)), at(part(0.6))])?;
        }
    }
    Ok(())
}

/// The mark of the series with this number: a shape tells series apart where colours do not.
fn dot(area: &Area<'_>, (x, y): (i32, i32), colour: RGBColor, mark: usize, opacity: f64) -> Result<(), ()> {
    let style = ShapeStyle::from(colour.mix(opacity)).filled();
    let shape = |corners: &[(i32, i32)]| {
        let corners: Vec<_> = corners.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
        area.draw(&Polygon::new(corners, style)).map_err(drop)
    };
    match mark % 4 {
        0 => area.draw(&Circle::new((x, y), 4, style)).map_err(drop),
        1 => shape(&[(-4, -4), (4, -4), (4, 4), (-4, 4)]),
        2 => shape(&[(0, -5), (5, 4), (-5, 4)]),
        _ => shape(&[(0, -5), (5, 0), (0, 5), (-5, 0)]),
    }
}

fn label(area: &Area<'_>, text: &str, at: (i32, i32), side: HPos) -> Result<(), ()> {
    let style = TextStyle::from(("sans-serif", LETTERS).into_font()).color(&TEXT.0).pos(Pos::new(side, VPos::Center));
    area.draw(&Text::new(text.to_string(), at, style)).map_err(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Better, Series};

    fn figure(form: Form, values: &[f64]) -> Figure {
        let mut figure = Figure::new("T & t", "requests a second", Better::More, form).over("fill", ["-2", "16", "64"]);
        for (name, role) in [("Varve", Role::Varve), ("published <1>", Role::Published)] {
            let mut series = Series::new(name, role);
            values.iter().enumerate().for_each(|(place, &value)| series.push(place, value));
            series.push(2, Value::of(vec![values[0], values[0] * 2.0]));
            figure.series.push(series);
        }
        figure
    }

    #[test]
    fn every_name_unit_and_mark_is_text_of_the_svg() {
        for form in [Form::Lines, Form::Dots] {
            let svg = within(&figure(form, &[10.0, 12.0]));
            for text in ["Varve", "published &lt;1&gt;", "-2", "16", "requests a second", "T &amp; t", "var(--varve)"] {
                assert!(svg.contains(text), "{form:?} lacks {text}: {svg}");
            }
            assert!(svg.contains("opacity=\"0.35\""), "what is not sure is pale");
            assert!(!svg.contains("#006D9C"), "colours are variables");
            assert!(alone(&figure(form, &[1.0, 2.0])).contains("prefers-color-scheme:dark"));
        }
    }

    #[test]
    fn values_far_apart_have_a_logarithmic_axis() {
        let scale = |values: &[f64]| Scale::of(&figure(Form::Lines, values), (300, 0));
        let (near, far) = (scale(&[10.0, 12.0]), scale(&[1.0, 1000.0]));
        assert!(!near.log && far.log);
        assert_eq!(near.pixel(0.0), 300);
        assert!(far.pixel(10.0) - far.pixel(100.0) - (far.pixel(100.0) - far.pixel(1000.0)) < 2);
        assert_eq!(near.ticks(), [0.0, 5.0, 10.0, 15.0, 20.0][..near.ticks().len()]);
        assert_eq!(far.ticks(), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
    }
}
