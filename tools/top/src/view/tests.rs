//! Views drawn into a buffer of a terminal's usual sizes.

use super::{Shown, View, draw};
use crate::model::{Look, Model, recorded};
use crate::once::text;
use crate::questions::Question;

/// The lines of a view of this size.
fn lines(model: &Model, view: View, (width, height): (u16, u16)) -> Vec<String> {
    let shown = Shown { server: "127.0.0.1:6379", view, scroll: 0, is_paused: false };
    let text = text(width, height, |frame| draw(frame, model, shown)).expect("a buffer takes everything");
    text.lines().map(str::to_owned).collect()
}

/// Words that each view has to show of the recorded replies.
const SHOWN: [(View, &[&str]); 7] = [
    (
        View::Overview,
        &["commands/s   1.00 k", "100.0 %", "4.91 k", "saving: 1.00 k of 4.00 k keys, 12 s left", "myzset"],
    ),
    (View::Commands, &["zadd", "get", "0.99 us", "80.0 %"]),
    (View::Segments, &["3 segments, 8.00 MB written", "o0d"]),
    (View::Keys, &["myzset", "9.95 k", "user:", "190 KB", "big", "list", "an hour"]),
    (View::Clients, &["worker [::1]", "blpop", "50 s", "keys", "EXEC"]),
    (View::Slow, &["12.3 ms", "sort a\\x1b[31m by nosort", "UTC"]),
    (View::Files, &["12 changes since", "follows nobody", "10.0.0.2:7000", "online", "100 B"]),
];

#[test]
fn each_view_shows_its_figures_in_small_and_large_terminals() {
    let model = recorded::model();
    for size in [(80, 24), (120, 40)] {
        for (view, expected) in SHOWN {
            let lines = lines(&model, view, size);
            let text = lines.join("\n");
            expected.iter().for_each(|word| assert!(text.contains(word), "{view:?} {size:?}: {word}\n{text}"));
            assert_eq!(lines.len(), usize::from(size.1));
            assert!(lines.iter().all(|line| line.chars().count() <= usize::from(size.0)), "{text}");
            assert!(lines[0].contains("Varve 0.1.0, up 2 s") && lines[1].contains("7 Files"), "{text}");
            assert!(lines.last().expect("lines").ends_with(view.by()), "the whole of it fits: {text}");
        }
    }
}

#[test]
fn any_size_is_drawn() {
    let mut model = recorded::model();
    for (width, height) in [(1, 1), (20, 4), (40, 10), (300, 100)] {
        for view in View::ALL {
            assert_eq!(lines(&model, view, (width, height)).len(), usize::from(height));
        }
    }
    model.lose("gone".into());
    assert!(lines(&model, View::Overview, (120, 40))[0].contains("no answer, old figures: gone"));
}

#[test]
fn a_refusal_stands_in_the_place_of_figures() {
    let mut model = Model::default();
    assert!(lines(&model, View::Keys, (80, 24)).join("\n").contains("no figures yet"));
    let refused = || Err("NOPERM this user has no right".to_owned());
    model.add(Look::of([(Question::Info, Ok(recorded::info(1))), (Question::Clients, refused())]));
    assert!(lines(&model, View::Clients, (80, 24)).join("\n").contains("the server refuses: NOPERM"));
    assert!(lines(&model, View::Slow, (80, 24)).join("\n").contains("asked with the next look"));
    model.add(Look::of([(Question::Info, refused())]));
    assert!(lines(&model, View::Overview, (80, 24)).join("\n").contains("NOPERM"));
}

#[test]
fn a_long_table_is_scrolled_to_its_end_and_no_further() {
    let list: String =
        (0..100).map(|id| format!("id={id} addr=10.0.0.1:{id} flags=N tot-mem={}\n", 1000 - id)).collect();
    let mut model = Model::default();
    let clients = Ok(varve_testkit::RespValue::Bulk(list.into_bytes()));
    model.add(Look::of([(Question::Info, Ok(recorded::info(1))), (Question::Clients, clients)]));
    let shown = |scroll| {
        let shown = Shown { server: "s", view: View::Clients, scroll, is_paused: false };
        text(80, 24, |frame| draw(frame, &model, shown)).expect("a buffer takes everything")
    };
    assert!(shown(0).contains("(1 to 19 of 100)") && shown(0).contains("10.0.0.1:0 "));
    assert!(shown(5).contains("(6 to 24 of 100)") && !shown(5).contains("10.0.0.1:4 "));
    assert!(shown(1000).contains("(82 to 100 of 100)") && shown(1000).contains("10.0.0.1:99"));
}

#[test]
fn views_follow_each_other_in_a_ring() {
    assert_eq!((View::Files.step(1), View::Overview.step(-1)), (View::Overview, View::Files));
}
