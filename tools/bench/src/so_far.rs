//! Figures of an experiment that was stopped, from the cases that it has measured ([`crate::kept`]).
//!
//! ```text
//!   NAME.cases --a figure that was whole----------> drawn as it is
//!              --a case with values of all servers-> a row of a figure "So far"
//!              --any other case------------------> counted, and drawn when all are measured
//! ```

use crate::report::{Figure, Findings, Row, figures};
use crate::turns::Beside;
use serde::Deserialize;

/// The values of cases that make a figure by themselves.
#[derive(Deserialize)]
#[serde(untagged)]
enum Drawable {
    Figure(Box<Figure>),
    Beside(Beside),
    Row(Row),
    Rows(Vec<Row>),
}

/// The findings of an experiment until now, marked as incomplete; none where nothing can be drawn.
pub(crate) fn findings(name: &str, title: &str, cases: Vec<(String, serde_json::Value)>) -> Option<Findings> {
    let (mut whole, mut rows) = (Vec::new(), Vec::new());
    for (case, value) in cases {
        match serde_json::from_value(value) {
            Ok(Drawable::Figure(figure)) => whole.push(*figure),
            Ok(Drawable::Beside(found)) => rows.extend(found.unshown_rows(&case, None)),
            Ok(Drawable::Row(row)) => rows.push(row),
            Ok(Drawable::Rows(several)) => rows.extend(several),
            Err(_) => {}
        }
    }
    whole.extend(figures("So far", &rows));
    let note = "This experiment is not complete. The figures here are those of the cases that were measured until now; the others \
                come when it goes on.";
    (!whole.is_empty()).then(|| Findings::new(name, &format!("{title} (incomplete)")).with(whole).note(note))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Better, Form, Role};
    use serde_json::json;

    #[test]
    fn what_can_be_drawn_is_drawn() {
        let case = |name: &str, value| (name.to_string(), value);
        let value = |us: f64| json!({"median": us, "low": us, "high": us, "runs": 1});
        let beside = json!({
            "sides": [["Varve", "Varve"], ["redis-server", "Peer"]],
            "per_s": [value(5.0), null], "cpu_us": [value(2.0), value(3.0)], "floor_us": value(1.0)
        });
        let row = Row::new("a handshake", "ms", [1.0, 2.0]);
        let whole = Figure::new("LPUSH", "requests a second", Better::More, Form::Lines);
        let cases = vec![
            case("figure LPUSH", serde_json::to_value(&whole).unwrap()),
            case("GET", beside.clone()),
            case("SET", beside),
            case("handshakes", serde_json::to_value([row]).unwrap()),
            case("bytes", json!([1.5, 2.5])),
        ];
        let found = findings("point", "Single keys", cases).unwrap();
        assert_eq!(found.title, "Single keys (incomplete)");
        let titles: Vec<&str> = found.figures.iter().map(|figure| figure.title.as_str()).collect();
        let cpu = "So far: microseconds of CPU per operation";
        let above = format!("{cpu}, above the floor");
        assert_eq!(titles, ["LPUSH", cpu, above.as_str(), "So far: operations a second", "So far: milliseconds"]);
        assert_eq!(found.figures[1].places, ["GET", "SET"]);
        assert_eq!(found.figures[1].of(Role::Peer).unwrap().points.len(), 2);
        assert!(findings("point", "", vec![case("bytes", json!([1.5, 2.5]))]).is_none());
    }
}
