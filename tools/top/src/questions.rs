//! The commands that are sent, and the views that need their replies.
//!
//! INFO is asked at each look, since the rates of the last minutes are made of it. The others are asked while a view is shown
//! that needs them: a list of ten thousand clients is no burden for a server whose clients nobody looks at.

use varve_testkit::RespValue;

use crate::connection::Connection;
use crate::model::{Answer, Look};
use crate::view::View;

/// A command and what it is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    Info,
    Histogram,
    HotKeys,
    Prefixes,
    Largest,
    Expiries,
    Clients,
    SlowLog,
    Segments,
}

impl Question {
    /// The words of the command. People type the same into redis-cli.
    pub(crate) fn words(self) -> &'static [&'static str] {
        match self {
            Question::Info => &["INFO", "everything"],
            Question::Histogram => &["LATENCY", "HISTOGRAM"],
            Question::HotKeys => &["HOTKEYS", "TOP", "COUNT", "40"],
            Question::Prefixes => &["MEMORY", "PREFIXES", "COUNT", "40"],
            Question::Largest => &["MEMORY", "LARGEST", "COUNT", "40"],
            Question::Expiries => &["MEMORY", "EXPIRIES"],
            Question::Clients => &["CLIENT", "LIST"],
            Question::SlowLog => &["SLOWLOG", "GET", "50"],
            Question::Segments => &["SEGMENTS"],
        }
    }

    /// The questions of a view.
    pub(crate) fn of(view: View) -> &'static [Question] {
        match view {
            View::Overview => &[Question::Info, Question::HotKeys],
            View::Commands => &[Question::Info, Question::Histogram],
            View::Segments => &[Question::Info, Question::Segments],
            View::Keys => {
                &[Question::Info, Question::HotKeys, Question::Prefixes, Question::Largest, Question::Expiries]
            }
            View::Clients => &[Question::Info, Question::Clients],
            View::Slow => &[Question::Info, Question::SlowLog],
            View::Files => &[Question::Info],
        }
    }
}

/// Asks for what a view needs.
///
/// # Errors
/// A line that says why the server does not answer. What it refuses is no error: the look has its reason.
pub(crate) fn look(connection: &mut Connection, view: View) -> Result<Look, String> {
    let questions = Question::of(view);
    let commands: Vec<&[&str]> = questions.iter().map(|question| question.words()).collect();
    let replies = connection.ask(&commands).map_err(|error| error.to_string())?;
    Ok(Look::of(questions.iter().copied().zip(replies.into_iter().map(answer))))
}

/// An error reply is the server's reason, for instance that the user may not ask that.
fn answer(reply: RespValue) -> Answer<RespValue> {
    if reply.is_error() { Err(reply.text()) } else { Ok(reply) }
}
