//! One line on each figure: ahead, level or behind, in how many of its cases, and by how much.
//!
//! A figure stands where most of its cases stand, so that one case with a great ratio does not speak for the others. The line
//! counts the cases on each side, and names the worst one. Behind it a short sentence counts the cases beside each rival.

use super::{Better, Figure, Role, Series, Target, Value, WIDE, short};

/// Two servers within this part of each other are level in a case; where their runs differ, those whose ranges meet are too.
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
    beside_peer(figure).map_or([0; 3], |(cases, _)| counts(&cases))
}

fn counts(cases: &[Case]) -> [usize; 3] {
    [Standing::Ahead, Standing::Level, Standing::Behind]
        .map(|wanted| cases.iter().filter(|case| case.standing == wanted).count())
}

/// The verdict on a figure, as a word and a sentence.
pub(crate) fn verdict(figure: &Figure) -> (Standing, String) {
    let Some((mut cases, peer)) = beside_peer(figure) else {
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
            Standing::Behind => format!("Behind {peer}: {peer} is {} times as good", times(1.0 / worst.ratio)),
            Standing::Level => format!("Level with {peer}: {} times as good", times(worst.ratio)),
            _ => format!("Ahead of {peer}: {} times as good", times(worst.ratio)),
        }
    } else {
        let head = match standing {
            Standing::Behind => "Behind",
            Standing::Level => "Level with",
            _ => "Ahead of",
        };
        format!(
            "{head} {peer}: ahead in {ahead}, level in {level}, behind in {behind} of {} cases; {} times as good in the \
             middle, least {} ({}), most {} ({})",
            cases.len(),
            times(cases[cases.len() / 2].ratio),
            times(worst.ratio),
            figure.places[worst.place],
            times(best.ratio),
            figure.places[best.place]
        )
    };
    (standing, format!("{text}.{}{}{}", rivals(figure), targets(figure), trust(figure)))
}

/// A ratio for people: two decimals, fewer digits for a great one, and for a small one as many decimals as leave two digits that count.
fn times(ratio: f64) -> String {
    let decimals = match ratio {
        _ if ratio >= 1000.0 => 0,
        _ if ratio >= 0.1 || ratio <= 0.0 => 2,
        _ => 1 - ratio.log10().floor() as i32,
    };
    let text = format!("{ratio:.*}", decimals.unsigned_abs() as usize);
    match text.strip_suffix('0') {
        Some(shorter) if decimals > 2 => shorter.to_string(),
        _ => text,
    }
}

/// True if no run of one is as good as a run of the other. A value of one run has no range that is known; it is taken for one
/// whose runs differ as much as those that are just not pale.
fn are_apart(ours: Value, theirs: Value) -> bool {
    let range = |value: Value| match value.runs {
        0 | 1 => (value.median * (1.0 - WIDE / 2.0), value.median * (1.0 + WIDE / 2.0)),
        _ => (value.low, value.high),
    };
    let (ours, theirs) = (range(ours), range(theirs));
    ours.1 < theirs.0 || theirs.1 < ours.0
}

/// The cases in which Varve and the peer have a value, and the peer's name.
fn beside_peer(figure: &Figure) -> Option<(Vec<Case>, &str)> {
    let peer = figure.of(Role::Peer)?;
    Some((compared(figure, peer)?, peer.name.as_str()))
}

/// A sentence for each rival that has values beside Varve's.
fn rivals(figure: &Figure) -> String {
    let sentence = |rival: &Series| {
        let cases = compared(figure, rival)?;
        let ([ahead, level, behind], all) = (counts(&cases), cases.len());
        let cases = if all == 1 { "case" } else { "cases" };
        Some(format!(
            " Beside {}: ahead in {ahead}, level in {level}, behind in {behind} of {all} {cases}.",
            rival.name
        ))
    };
    figure.series.iter().filter(|series| series.role == Role::Rival).filter_map(sentence).collect()
}

/// The cases in which Varve and another server have a value; none at all where nothing is better.
fn compared(figure: &Figure, other: &Series) -> Option<Vec<Case>> {
    let varve = figure.of(Role::Varve)?;
    let case = |place| {
        let (ours, theirs) = (varve.at(place)?, other.at(place)?);
        let ratio = match figure.better {
            Better::Less => theirs.median / ours.median,
            Better::More => ours.median / theirs.median,
            Better::Neither => return None,
        };
        let standing = match ratio {
            _ if !are_apart(ours, theirs) => Standing::Level,
            _ if ratio > 1.0 + LEVEL => Standing::Ahead,
            _ if ratio < 1.0 / (1.0 + LEVEL) => Standing::Behind,
            _ => Standing::Level,
        };
        (ratio.is_finite() && ratio > 0.0).then_some(Case { place, ratio, standing })
    };
    let cases: Vec<Case> = (0..figure.places.len()).filter_map(case).collect();
    (!cases.is_empty()).then_some(cases)
}

fn alone(figure: &Figure) -> String {
    let rivals = rivals(figure);
    let why = match figure.better {
        Better::Neither => "Nothing here is better or worse.",
        _ if rivals.is_empty() => "No other server has the like.",
        _ => "redis-server has no value here.",
    };
    format!("{why}{rivals}{}{}", targets(figure), trust(figure))
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
                (varve <= ratio * peer, format!("{} of redis-server's", short(*ratio)))
            }
            Target::AtMost(most) => (varve <= *most, short(*most)),
        };
        if kept {
            met += 1;
        } else {
            missed.push(format!("{} (at most {text})", figure.places[place]));
        }
    }
    let names = missed.join(", ");
    match (met, missed.len()) {
        (0, 0) => String::new(),
        (1, 0) => " The aim is met.".into(),
        (2, 0) => " Both aims are met.".into(),
        (_, 0) => format!(" All {met} aims are met."),
        (0, 1) => format!(" The aim is missed: {names}."),
        (0, _) => format!(" No aim is met; missed: {names}."),
        (1, _) => format!(" 1 aim is met; missed: {names}."),
        _ => format!(" {met} aims are met; missed: {names}."),
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
    let be = |count: usize| if count == 1 { "is" } else { "are" };
    if wide > 0 {
        let whose = if wide == 1 { "its" } else { "their" };
        text += &format!(" {wide} of {all} values {} pale: {whose} runs differ by more than 15%.", be(wide));
    }
    if single > 0 {
        text +=
            &format!(" {single} of {all} values {} of one run: how far another would differ is not known.", be(single));
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
    fn ranges_that_meet_are_level_however_far_the_medians_are_apart() {
        let mut figure = figure(Better::More, &[3.0], &[2.0]);
        figure.series[0].points[0].value = Value::of(vec![1.9, 3.0, 3.1]);
        figure.series[1].points[0].value = Value::of(vec![1.95, 2.0, 2.05]);
        assert_eq!(verdict(&figure).0, Standing::Level, "one run of ours was slower than all of theirs");
        figure.series[0].points[0].value = Value::of(vec![2.06, 3.0, 3.1]);
        assert_eq!(verdict(&figure).0, Standing::Ahead);
        figure.series[0].points[0].value = Value::of(vec![2.06, 2.07, 2.08]);
        assert_eq!(verdict(&figure).0, Standing::Level, "apart, and within a twentieth of each other");
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
        assert!(text.contains(" 1 aim is met; missed: c1 (at most 0.5 of redis-server's)."), "{text}");
        assert!(
            text.contains("1 of 5 values is pale: its runs") && text.contains("4 of 5 values are of one run"),
            "{text}"
        );
    }

    #[test]
    fn aims_are_counted_in_words() {
        let of = |targets: &[f64]| {
            let ones = vec![1.0; targets.len()];
            let mut figure = figure(Better::Less, &ones, &ones);
            figure.targets = targets.iter().map(|&most| Some(Target::AtMost(most))).collect();
            super::targets(&figure)
        };
        assert_eq!(of(&[]), "");
        assert_eq!(of(&[2.0]), " The aim is met.");
        assert_eq!(of(&[2.0, 2.0]), " Both aims are met.");
        assert_eq!(of(&[2.0, 2.0, 2.0]), " All 3 aims are met.");
        assert_eq!(of(&[0.1234567]), " The aim is missed: c0 (at most 0.123).");
        assert_eq!(of(&[0.5, 0.5]), " No aim is met; missed: c0 (at most 0.5), c1 (at most 0.5).");
        assert_eq!(of(&[2.0, 0.5]), " 1 aim is met; missed: c1 (at most 0.5).");
    }

    #[test]
    fn a_ratio_has_the_digits_that_count() {
        let texts = [8.0, 0.95, 0.0004, 0.00412, 0.0996, 999.4, 1234.5].map(times);
        assert_eq!(texts, ["8.00", "0.95", "0.0004", "0.0041", "0.10", "999.40", "1234"]);
        let (_, text) = verdict(&figure(Better::Less, &[2000.0, 1.0], &[1.0, 5000.0]));
        assert!(text.contains("least 0.0005 (c0), most 5000 (c1)"), "{text}");
    }

    #[test]
    fn each_rival_has_a_sentence() {
        let mut figure = figure(Better::Less, &[1.0, 1.0, 1.0], &[2.0, 2.0, 2.0]);
        for (name, values) in [("valkey", [2.0, 1.0, 0.5]), ("other", [f64::NAN, f64::NAN, 3.0])] {
            let mut series = Series::new(name, Role::Rival);
            values.iter().enumerate().for_each(|(place, &value)| series.push(place, value));
            figure.series.push(series);
        }
        let (standing, text) = verdict(&figure);
        assert_eq!((standing, cases(&figure)), (Standing::Ahead, [3, 0, 0]), "rivals do not count beside the peer");
        assert!(text.contains(" Beside valkey: ahead in 1, level in 1, behind in 1 of 3 cases."), "{text}");
        assert!(text.contains(" Beside other: ahead in 1, level in 0, behind in 0 of 1 case."), "{text}");
        figure.series.retain(|series| series.role != Role::Peer);
        let (standing, text) = verdict(&figure);
        assert!(standing == Standing::Alone && text.starts_with("redis-server has no value here. Beside"), "{text}");
    }
}
