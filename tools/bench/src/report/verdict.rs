//! One line on each figure: ahead, level or behind, in how many of its cases, and by how much.
//!
//! A figure stands where most of its cases stand, so that one case with a great ratio does not speak for the others. The line
//! counts the cases on each side, and names the worst one.

use super::{Better, Figure, Role, Target, Value, WIDE};

/// Two servers within this part of each other are level in a case; where their runs differ, within half of both ranges.
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

/// A case in which both servers have a value.
#[derive(Debug, Clone, Copy)]
struct Case {
    place: usize,
    /// By how much Varve is better; below 1 it is worse.
    ratio: f64,
    standing: Standing,
}

/// Numbers of the cases in which Varve is ahead, level and behind.
pub(crate) fn cases(figure: &Figure) -> [usize; 3] {
    compared(figure).map_or([0; 3], |(cases, _)| counts(&cases))
}

fn counts(cases: &[Case]) -> [usize; 3] {
    [Standing::Ahead, Standing::Level, Standing::Behind]
        .map(|wanted| cases.iter().filter(|case| case.standing == wanted).count())
}

/// The verdict on a figure, as a word and a sentence.
pub(crate) fn verdict(figure: &Figure) -> (Standing, String) {
    let Some((mut cases, peer)) = compared(figure) else {
        return (Standing::Alone, alone(figure));
    };
    let [ahead, level, behind] = counts(&cases);
    let standing = match cases.len() {
        all if ahead * 2 > all => Standing::Ahead,
        all if behind * 2 > all => Standing::Behind,
        _ => Standing::Level,
    };
    cases.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let (worst, best) = (cases[0], cases[cases.len() - 1]);
    let text = if cases.len() == 1 {
        match standing {
            Standing::Behind => format!("Behind {peer}: {peer} is {:.2} times as good", 1.0 / worst.ratio),
            Standing::Level => format!("Level with {peer}: {:.2} times as good", worst.ratio),
            _ => format!("Ahead of {peer}: {:.2} times as good", worst.ratio),
        }
    } else {
        let head = match standing {
            Standing::Behind => "Behind",
            Standing::Level => "Level with",
            _ => "Ahead of",
        };
        format!(
            "{head} {peer}: ahead in {ahead}, level in {level}, behind in {behind} of {} cases; {:.2} times as good in the \
             middle, least {:.2} ({}), most {:.2} ({})",
            cases.len(),
            cases[cases.len() / 2].ratio,
            worst.ratio,
            figure.places[worst.place],
            best.ratio,
            figure.places[best.place]
        )
    };
    (standing, format!("{text}.{}{}", targets(figure), trust(figure)))
}

/// The part by which two values have to differ so that the difference says something: half of the range of both. A value of
/// one run has no range that is known; it is taken for one whose runs differ as much as pale ones.
fn noise(ours: Value, theirs: Value) -> f64 {
    let half = |value: Value| if value.runs < 2 { WIDE / 2.0 } else { value.spread() / 2.0 };
    half(ours) + half(theirs)
}

/// The cases in which both servers have a value, and the peer's name.
fn compared(figure: &Figure) -> Option<(Vec<Case>, &str)> {
    let (varve, peer) = (figure.of(Role::Varve)?, figure.of(Role::Peer)?);
    let case = |place| {
        let (ours, theirs) = (varve.at(place)?, peer.at(place)?);
        let ratio = match figure.better {
            Better::Less => theirs.median / ours.median,
            Better::More => ours.median / theirs.median,
            Better::Neither => return None,
        };
        let level = 1.0 + LEVEL.max(noise(ours, theirs));
        let standing = match ratio {
            _ if ratio > level => Standing::Ahead,
            _ if ratio < 1.0 / level => Standing::Behind,
            _ => Standing::Level,
        };
        (ratio.is_finite() && ratio > 0.0).then_some(Case { place, ratio, standing })
    };
    let cases: Vec<Case> = (0..figure.places.len()).filter_map(case).collect();
    (!cases.is_empty()).then_some((cases, peer.name.as_str()))
}

fn alone(figure: &Figure) -> String {
    let why = match figure.better {
        Better::Neither => "Nothing here is better or worse.",
        _ => "No other server has the like.",
    };
    format!("{why}{}{}", targets(figure), trust(figure))
}

/// The aims that are met, and the cases that miss theirs. An aim beside the peer is none where the peer has no value.
fn targets(figure: &Figure) -> String {
    let (mut met, mut missed) = (0, Vec::new());
    for (place, target) in figure.targets.iter().enumerate() {
        let Some(target) = target else { continue };
        let value = |role| figure.of(role).and_then(|series| series.at(place)).map(|value| value.median);
        let Some(varve) = value(Role::Varve) else { continue };
        let (kept, text) = match target {
            Target::Ratio(ratio) => {
                let Some(peer) = value(Role::Peer) else { continue };
                (varve <= ratio * peer, format!("{ratio} of the peer's"))
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

/// The number of measured values of some figures; of those whose runs differ too much; of those of one run.
pub(crate) fn values<'f>(figures: impl IntoIterator<Item = &'f Figure>) -> [usize; 3] {
    let series = figures.into_iter().flat_map(|figure| &figure.series);
    let points = series.filter(|series| series.role != Role::Published).flat_map(|series| &series.points);
    points.fold([0; 3], |[all, wide, single], point| {
        let value = point.value;
        [all + 1, wide + usize::from(value.is_wide()), single + usize::from(value.runs < 2)]
    })
}

/// How many values have runs that differ too much, and how many are of one run.
fn trust(figure: &Figure) -> String {
    let [all, wide, single] = values([figure]);
    let mut text = String::new();
    if wide > 0 {
        text += &format!(" {wide} of {all} values are pale: their runs differ by more than 15%.");
    }
    if single > 0 {
        text += &format!(" {single} of {all} values are of one run: how far another would differ is not known.");
    }
    text
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
        assert_eq!(verdict(&figure(Better::More, &[1.0], &[1.1])).0, Standing::Level, "values of one run each");
        assert_eq!(verdict(&figure(Better::Neither, &[1.0], &[2.0])).0, Standing::Alone);
        assert_eq!(verdict(&figure(Better::Less, &[1.0], &[])).0, Standing::Alone);
        let (_, text) = verdict(&figure(Better::Less, &[1.0, 1.0], &[2.0, 8.0]));
        let told = "ahead in 2, level in 0, behind in 0 of 2 cases; 8.00 times as good in the middle, least 2.00 (c0), most 8.00 (c1)";
        assert!(text.contains(told), "{text}");
    }

    /// Has every value of a figure several runs that differ by this part of it.
    fn spread(figure: &mut Figure, by: f64) {
        for point in figure.series.iter_mut().flat_map(|series| &mut series.points) {
            let value = point.value.median;
            point.value = Value::of(vec![value * (1.0 - by), value, value * (1.0 + by)]);
        }
    }

    #[test]
    fn a_difference_within_the_noise_is_none() {
        let mut figure = figure(Better::Less, &[1.0], &[1.2]);
        assert_eq!(verdict(&figure).0, Standing::Ahead);
        spread(&mut figure, 0.3);
        assert_eq!(verdict(&figure).0, Standing::Level);
        spread(&mut figure, 0.09);
        assert_eq!(verdict(&figure).0, Standing::Ahead, "the ranges do not meet");
        spread(&mut figure, 0.11);
        assert_eq!(verdict(&figure).0, Standing::Level, "the ranges meet, though neither is as wide as the difference");
    }

    #[test]
    fn one_great_ratio_does_not_speak_for_the_others() {
        let mut figure = figure(Better::Less, &[2.0, 2.0, 1.0], &[1.0, 1.0, 1000.0]);
        spread(&mut figure, 0.01);
        let (standing, text) = verdict(&figure);
        assert_eq!(standing, Standing::Behind, "{text}");
        assert!(text.contains("ahead in 1, level in 0, behind in 2 of 3 cases"), "{text}");
        assert_eq!(cases(&figure), [1, 0, 2]);
    }

    #[test]
    fn aims_and_wide_ranges_are_named() {
        let mut figure = figure(Better::Less, &[1.0, 3.0, 1.0], &[2.0, 2.0]);
        figure.targets = vec![Some(Target::AtMost(1.5)), Some(Target::Ratio(0.5)), Some(Target::Ratio(0.5))];
        figure.series[0].points[0].value = Value::of(vec![0.8, 1.0, 1.2]);
        let (_, text) = verdict(&figure);
        assert!(text.contains("1 aims are met; missed: c1 (at most 0.5 of the peer's)."), "{text}");
        assert!(text.contains("1 of 5 values are pale") && text.contains("4 of 5 values are of one run"), "{text}");
    }
}
