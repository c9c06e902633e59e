//! The live screen.
//!
//! ```text
//!   thread "looks"    connects, asks what the wanted view needs, each interval ──▶ Message ──▶ model
//!                              ▲ the wanted view, a nudge                                      │
//!   this thread       keys ────┘                                                               ▼
//!                                                                                      draws what has changed
//! ```
//! A server that does not answer holds up the looks alone: keys are obeyed meanwhile. The connection is made again after two
//! seconds. The first connection has to succeed, so that a wrong address or password is said at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::connection::Connection;
use crate::model::{Look, Model};
use crate::options::Options;
use crate::questions::look;
use crate::view::{Shown, View, draw};

/// How long a key or a look may wait for being noticed.
const TICK: Duration = Duration::from_millis(50);
/// Time between two attempts to connect.
const AGAIN: Duration = Duration::from_secs(2);
/// Rows of a page up or down.
const PAGE: usize = 10;

/// The wish that the other thread follows from now on.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    view: View,
    is_paused: bool,
}

/// A look, or why there was none.
type Message = Result<Look, String>;

/// Shows the server until the user ends it.
///
/// # Errors
/// The server does not answer at the beginning, or there is no terminal.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let connection = Connection::open(options)?;
    let ends = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ends)).map_err(|error| error.to_string())?;
    }
    let (wanted, wants) = channel();
    let (messages, looks) = channel();
    let mut terminal = ratatui::try_init().map_err(|error| format!("no terminal: {error}; --once prints a view"))?;
    // Nobody waits for this thread: its server may be silent when the user ends the program.
    let for_looks = options.clone();
    std::thread::spawn(move || ask(&for_looks, connection, &wants, &messages));
    let shown = Screen::new(options, wanted).show(&mut terminal, &looks, &ends);
    ratatui::restore();
    shown.map_err(|error| error.to_string())
}

/// Looks at the server each interval, and at once when another view is wanted. Ends when nobody wants anything any more.
fn ask(options: &Options, first: Connection, wants: &Receiver<Wanted>, messages: &Sender<Message>) {
    let (mut connection, mut wanted) = (Some(first), Wanted { view: options.view, is_paused: false });
    loop {
        let mut pause = Duration::from_secs_f64(options.interval);
        if !wanted.is_paused {
            let message = match connection.as_mut() {
                Some(open) => look(open, wanted.view),
                None => Connection::open(options).and_then(|open| look(connection.insert(open), wanted.view)),
            };
            if message.is_err() {
                (connection, pause) = (None, AGAIN);
            }
            if messages.send(message).is_err() {
                return;
            }
        }
        match wants.recv_timeout(pause) {
            // Of several keys in a row, the last one counts.
            Ok(newer) => wanted = wants.try_iter().last().unwrap_or(newer),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// The state of the screen. Dropped, it ends the other thread.
struct Screen {
    server: String,
    model: Model,
    view: View,
    scroll: usize,
    is_paused: bool,
    wanted: Sender<Wanted>,
}

/// The effect of a key.
#[derive(Debug, PartialEq, Eq)]
enum Effect {
    End,
    /// The screen is drawn anew.
    Redraw,
    Nothing,
}

impl Screen {
    fn new(options: &Options, wanted: Sender<Wanted>) -> Screen {
        let (model, server) = (Model::default(), options.to_string());
        Screen { server, model, view: options.view, scroll: 0, is_paused: false, wanted }
    }

    fn show(
        mut self,
        terminal: &mut DefaultTerminal,
        looks: &Receiver<Message>,
        ends: &AtomicBool,
    ) -> std::io::Result<()> {
        let mut is_stale = true;
        while !ends.load(Ordering::Relaxed) {
            for message in looks.try_iter() {
                match message {
                    Ok(look) => self.model.add(look),
                    Err(reason) => self.model.lose(reason),
                }
                is_stale = true;
            }
            if is_stale {
                terminal.draw(|frame| draw(frame, &self.model, self.shown()))?;
                is_stale = false;
            }
            if event::poll(TICK)? {
                match event::read()? {
                    Event::Key(key) => match self.press(key) {
                        Effect::End => return Ok(()),
                        Effect::Redraw => is_stale = true,
                        Effect::Nothing => {}
                    },
                    Event::Resize(..) => is_stale = true,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn shown(&self) -> Shown<'_> {
        Shown { server: &self.server, view: self.view, scroll: self.scroll, is_paused: self.is_paused }
    }

    fn press(&mut self, key: KeyEvent) -> Effect {
        if key.kind == KeyEventKind::Release {
            return Effect::Nothing;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Effect::End,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Effect::End,
            KeyCode::Char(digit @ '1'..='7') => self.go(View::ALL[digit as usize - '1' as usize]),
            KeyCode::Tab | KeyCode::Right => self.go(self.view.step(1)),
            KeyCode::BackTab | KeyCode::Left => self.go(self.view.step(-1)),
            KeyCode::Down => self.scroll += 1,
            KeyCode::Up => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll += PAGE,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(PAGE),
            KeyCode::Home => self.scroll = 0,
            KeyCode::Char(' ') => {
                self.is_paused = !self.is_paused;
                self.want();
            }
            _ => return Effect::Nothing,
        }
        Effect::Redraw
    }

    fn go(&mut self, view: View) {
        (self.view, self.scroll) = (view, 0);
        self.want();
    }

    /// Says so to the other thread. If that has ended, the screen's last figures stay.
    fn want(&self) {
        let _ = self.wanted.send(Wanted { view: self.view, is_paused: self.is_paused });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn keys_change_the_view_and_the_other_thread_learns_of_it() {
        let options = Options::try_parse_from(["varve-top"]).expect("no option is needed");
        let (wanted, wants) = channel();
        let mut screen = Screen::new(&options, wanted);
        let mut press = |code: KeyCode| screen.press(KeyEvent::from(code));
        assert_eq!(press(KeyCode::Char('4')), Effect::Redraw);
        assert_eq!(wants.try_recv().expect("a view is wanted").view, View::Keys);
        assert_eq!(press(KeyCode::Down), Effect::Redraw);
        assert_eq!(press(KeyCode::Tab), Effect::Redraw);
        assert_eq!(wants.try_recv().expect("a view is wanted").view, View::Clients);
        assert_eq!(press(KeyCode::Char(' ')), Effect::Redraw);
        assert!(wants.try_recv().expect("it is said").is_paused);
        assert_eq!(press(KeyCode::Char('z')), Effect::Nothing);
        assert_eq!(press(KeyCode::Char('q')), Effect::End);
        assert_eq!((screen.view, screen.scroll), (View::Clients, 0), "another view begins at its top");
    }
}
