//! One line on each figure: ahead, level or behind, and by how much.

use super::{Better, Figure, Role, Target, Value};

/// Two servers within this part of each other are level; where the runs differ more, within half of their range.
const LEVEL: f64 = 0.05;

/// How Varve stands beside the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Ahead,
    Level,
    Behind,
    /// Nothing to compare with, or no better direction.
    Alone,
}

impl Standing {
    /// A word for it, also the class that the page colours.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Standing::Ahead => "ahead",
            Standing::Level => "level",
            Standing::Behind => "behind",
            Standing::Alone => "alone",
        }
    }
}

/// The verdict on a figure, as a word and a sentence.
pub(crate) fn verdict(figure: &Figure) -> (Standing, String) {
    let Some((mut ratios, peer)) = ratios(figure) else {
        return (Standing::Alone, alone(figure));
    };
    let mean = (ratios.iter().map(|(ratio, _)| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let level = 1.0 + LEVEL.max(noise(figure));
    let standing = match mean {
        _ if mean > level => Standing::Ahead,
        _ if mean < 1.0 / level => Standing::Behind,
        _ => Standing::Level,
    };
    let mut text = match standing {
        Standing::Level => format!("Level with {peer}: {mean:.2} times as good"),
        Standing::Behind => format!("Behind {peer}: {peer} is {:.2} times as good", 1.0 / mean),
        _ => format!("Ahead of {peer}: {mean:.2} times as good"),
    };
    let (worst, best) = (&ratios[0], &ratios[ratios.len() - 1]);
    if ratios.len() > 1 {
        let places = figure.places.len();
        text += &format!(
            " on average of {} of {places} cases; least {:.2} ({}), most {:.2} ({})",
            ratios.len(),
            worst.0,
            figure.places[worst.1],
            best.0,
            figure.places[best.1]
        );
    }
    (standing, format!("{text}.{}{}", targets(figure), wide(figure)))
}

/// Half of the range that the two servers' runs usually have, as a part of the value: a smaller difference says nothing.
fn noise(figure: &Figure) -> f64 {
    let both = [figure.of(Role::Varve), figure.of(Role::Peer)].into_iter().flatten();
    let spreads = both.flat_map(|series| &series.points).map(|point| point.value.spread() / 2.0);
    Value::of(spreads.collect()).median.max(0.0)
}

/// By how much Varve is better at each place where both have a value, with the place; and the peer's name.
fn ratios(figure: &Figure) -> Option<(Vec<(f64, usize)>, &str)> {
    let (varve, peer) = (figure.of(Role::Varve)?, figure.of(Role::Peer)?);
    let ratio = |place| {
        let (ours, theirs) = (varve.at(place)?.median, peer.at(place)?.median);
        let ratio = match figure.better {
            Better::Less => theirs / ours,
            Better::More => ours / theirs,
            Better::Neither => return None,
        };
        (ratio.is_finite() && ratio > 0.0).then_some((ratio, place))
    };
    let ratios: Vec<_> = (0..figure.places.len()).filter_map(ratio).collect();
    (!ratios.is_empty()).then_some((ratios, peer.name.as_str()))
}

fn alone(figure: &Figure) -> String {
    let why = match figure.better {
        Better::Neither => "Nothing here is better or worse.",
        _ => "No other server has the like.",
    };
    format!("{why}{}{}", targets(figure), wide(figure))
}

/// The aims that are met, and the cases that miss theirs.
fn targets(figure: &Figure) -> String {
    let (mut met, mut missed) = (0, Vec::new());
    for (place, target) in figure.targets.iter().enumerate() {
        let Some(target) = target else { continue };
        let value = |role| figure.of(role).and_then(|series| series.at(place)).map(|value| value.median);
        let Some(varve) = value(Role::Varve) else { continue };
        let (kept, text) = match target {
            Target::Ratio(ratio) => {
                (value(Role::Peer).is_none_or(|peer| varve <= ratio * peer), format!("{ratio} of the peer's"))
            }
            Target::AtMost(most) => (varve <= *most, format!("{most}")),
        };
        if kept {
            met += 1;
        } else {
            missed.push(format!("{} (at most {text})", figure.places[place]));
        }
    }
    match (met, missed.is_empty()) {
        (0, true) => String::new(),
        (_, true) => format!(" All {met} aims are met."),
        _ => format!(" {met} aims are met; missed: {}.", missed.join(", ")),
    }
}

/// How many values have runs that differ too much.
fn wide(figure: &Figure) -> String {
    let values = figure.series.iter().flat_map(|series| &series.points);
    let (all, wide) = values.fold((0, 0), |(all, wide), point| (all + 1, wide + usize::from(point.value.is_wide())));
    match wide {
        0 => String::new(),
        _ => format!(" {wide} of {all} values are pale: their runs differ by more than 15%."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Form, Series};

    fn figure(better: Better, varve: &[f64], peer: &[f64]) -> Figure {
        let mut figure = Figure::new("t", "us", better, Form::Dots).over("", (0..varve.len()).map(|n| format!("c{n}")));
        for (name, role, values) in [("Varve", Role::Varve, varve), ("redis-server", Role::Peer, peer)] {
            let mut series = Series::new(name, role);
            values.iter().enumerate().for_each(|(place, &value)| series.push(place, value));
            figure.series.push(series);
        }
        figure
    }

    #[test]
    fn the_better_direction_decides() {
        assert_eq!(verdict(&figure(Better::Less, &[1.0, 1.0], &[2.0, 8.0])).0, Standing::Ahead);
        assert_eq!(verdict(&figure(Better::More, &[1.0], &[2.0])).0, Standing::Behind);
        assert_eq!(verdict(&figure(Better::More, &[1.0], &[1.04])).0, Standing::Level);
        assert_eq!(verdict(&figure(Better::Neither, &[1.0], &[2.0])).0, Standing::Alone);
        assert_eq!(verdict(&figure(Better::Less, &[1.0], &[])).0, Standing::Alone);
        let (_, text) = verdict(&figure(Better::Less, &[1.0, 1.0], &[2.0, 8.0]));
        assert!(text.contains("4.00 times") && text.contains("least 2.00 (c0)") && text.contains("most 8.00 (c1)"));
    }

    #[test]
    fn a_difference_within_the_noise_is_none() {
        let mut figure = figure(Better::Less, &[1.0], &[1.2]);
        assert_eq!(verdict(&figure).0, Standing::Ahead);
        for series in &mut figure.series {
            let value = series.points[0].value.median;
            series.points[0].value = Value::of(vec![value * 0.7, value, value * 1.3]);
        }
        assert_eq!(verdict(&figure).0, Standing::Level);
    }

    #[test]
    fn aims_and_wide_ranges_are_named() {
        let mut figure = figure(Better::Less, &[1.0, 3.0], &[2.0, 2.0]);
        figure.targets = vec![Some(Target::AtMost(1.5)), Some(Target::Ratio(0.5))];
        figure.series[0].points[0].value = Value::of(vec![0.8, 1.0, 1.2]);
        let (_, text) = verdict(&figure);
        assert!(text.contains("1 aims are met; missed: c1 (at most 0.5 of the peer's)"), "{text}");
        assert!(text.contains("1 of 4 values are pale"), "{text}");
    }
}
