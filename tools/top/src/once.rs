//! `--once`: a view as plain text, for scripts and tests.

use std::thread::sleep;
use std::time::Duration;

use ratatui::backend::TestBackend;
use ratatui::{Frame, Terminal};

use crate::connection::Connection;
use crate::model::Model;
use crate::options::Options;
use crate::questions::look;
use crate::view::{Shown, draw};

/// Looks twice, since rates are differences, and prints the view.
///
/// # Errors
/// A line that says why there are no figures.
pub(crate) fn print(options: &Options) -> Result<(), String> {
    let named = |error: String| format!("{options}: {error}");
    let mut connection = Connection::open(options)?;
    let mut model = Model::default();
    model.add(look(&mut connection, options.view).map_err(named)?);
    sleep(Duration::from_secs_f64(options.interval));
    model.add(look(&mut connection, options.view).map_err(named)?);
    if let Err(reason) = model.info() {
        return Err(named(reason.to_owned()));
    }
    let server = options.to_string();
    let shown = Shown { server: &server, view: options.view, scroll: 0, is_paused: false };
    print!("{}", text(options.width, options.height, |frame| draw(frame, &model, shown))?);
    Ok(())
}

/// The picture in a terminal of this size, as lines without blanks at their ends.
///
/// # Errors
/// None that is known: the backend is memory.
pub(crate) fn text(width: u16, height: u16, draw: impl FnOnce(&mut Frame<'_>)) -> Result<String, String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).map_err(|error| error.to_string())?;
    terminal.draw(draw).map_err(|error| error.to_string())?;
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for y in 0..height {
        let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    Ok(text)
}
