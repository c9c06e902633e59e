//! The figures as views need them, made of the server's replies.
//!
//! ```text
//!   replies ──▶ Look (of one moment) ──▶ Model: the newest look, the one before, the last minutes
//!                                            │
//!          commands, hot keys, clients, work: rows that are made when a view is drawn
//! ```
//! A figure of a second is the difference of two looks. What the server refused has its reason in the place of its figures.

pub(crate) mod clients;
pub(crate) mod commands;
pub(crate) mod history;
pub(crate) mod info;
pub(crate) mod keys;
pub(crate) mod replicas;
pub(crate) mod reply;
pub(crate) mod segments;
pub(crate) mod slow;
pub(crate) mod work;

#[cfg(test)]
pub(crate) mod recorded;

use std::time::Instant;

use varve_testkit::RespValue;

use crate::questions::Question;
use clients::Client;
use commands::Histogram;
use history::History;
use info::Info;
use keys::{Due, HotKeys, Large, Prefix};
use segments::Segment;
use slow::Slow;

/// The server's answer, or why it refused.
pub(crate) type Answer<T> = Result<T, String>;

/// An answer that a view may not have asked for: then None.
pub(crate) type Asked<T> = Option<Answer<T>>;

/// The answers of one moment.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) at: Instant,
    pub(crate) info: Answer<Info>,
    pub(crate) histograms: Asked<Vec<Histogram>>,
    pub(crate) hot: Asked<HotKeys>,
    pub(crate) prefixes: Asked<Vec<Prefix>>,
    pub(crate) largest: Asked<Vec<Large>>,
    pub(crate) expiries: Asked<Vec<Due>>,
    pub(crate) clients: Asked<Vec<Client>>,
    pub(crate) slow: Asked<Vec<Slow>>,
    pub(crate) segments: Asked<Vec<Segment>>,
}

impl Look {
    /// The answers to some questions, made now.
    pub(crate) fn of(answers: impl IntoIterator<Item = (Question, Answer<RespValue>)>) -> Look {
        let info = Err("not asked".to_owned());
        let mut look = Look {
            at: Instant::now(),
            info,
            histograms: None,
            hot: None,
            prefixes: None,
            largest: None,
            expiries: None,
            clients: None,
            slow: None,
            segments: None,
        };
        for (question, answer) in answers {
            look.take(question, answer);
        }
        look
    }

    fn take(&mut self, question: Question, answer: Answer<RespValue>) {
        match question {
            Question::Info => self.info = answer.map(|reply| Info::parse(&reply.text())),
            Question::Histogram => self.histograms = Some(answer.map(|reply| commands::histograms(&reply))),
            Question::HotKeys => self.hot = Some(answer.map(|reply| keys::hot_keys(&reply))),
            Question::Prefixes => self.prefixes = Some(answer.map(|reply| keys::prefixes(&reply))),
            Question::Largest => self.largest = Some(answer.map(|reply| keys::largest(&reply))),
            Question::Expiries => self.expiries = Some(answer.map(|reply| keys::expiries(&reply))),
            Question::Clients => self.clients = Some(answer.map(|reply| clients::clients(&reply.text()))),
            Question::SlowLog => self.slow = Some(answer.map(|reply| slow::entries(&reply))),
            Question::Segments => self.segments = Some(answer.map(|reply| segments::segments(&reply))),
        }
    }
}

/// All that is known of the server.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) now: Option<Look>,
    pub(crate) before: Option<Look>,
    pub(crate) history: History,
    /// Why there is no newer look; None while the server answers.
    pub(crate) lost: Option<String>,
}

impl Model {
    /// A look was made.
    pub(crate) fn add(&mut self, look: Look) {
        let is_gap = self.lost.take().is_some();
        if let Ok(info) = &look.info {
            self.history.add(look.at, info);
        }
        // A server that comes back may be another one: no rate is made over the gap.
        self.before = self.now.replace(look).filter(|_| !is_gap);
    }

    /// No look was possible. The figures of the last one stay.
    pub(crate) fn lose(&mut self, reason: String) {
        self.lost = Some(reason);
        self.before = None;
        self.history.interrupt();
    }

    /// INFO of the last look, or why there is none.
    pub(crate) fn info(&self) -> Result<&Info, &str> {
        match &self.now {
            Some(look) => look.info.as_ref().map_err(String::as_str),
            None => Err("no figures yet"),
        }
    }

    /// Seconds between the last two looks; None with fewer than two.
    pub(crate) fn seconds(&self) -> Option<f64> {
        let (now, before) = (self.now.as_ref()?, self.before.as_ref()?);
        Some(now.at.duration_since(before.at).as_secs_f64().max(0.001))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_has_its_reason_and_the_rest_its_figures() {
        let refused = Err("NOPERM no right".to_owned());
        let look = Look::of([(Question::Info, Ok(recorded::info(1))), (Question::Clients, refused)]);
        assert_eq!(look.info.expect("it was answered").number("connected_clients"), 3.0);
        assert_eq!(look.clients.expect("it was asked").expect_err("it was refused"), "NOPERM no right");
        assert!(look.slow.is_none(), "nobody asked");
    }

    #[test]
    fn no_rate_is_made_over_a_gap() {
        let mut model = Model::default();
        model.add(Look::of([(Question::Info, Ok(recorded::info(1)))]));
        model.add(Look::of([(Question::Info, Ok(recorded::info(2)))]));
        assert!(model.seconds().is_some());
        model.lose("gone".into());
        assert!(model.seconds().is_none() && model.info().is_ok(), "the last figures stay");
        model.add(Look::of([(Question::Info, Ok(recorded::info(3)))]));
        assert!(model.seconds().is_none() && model.lost.is_none());
    }
}
