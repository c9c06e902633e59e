//! Several figures over the same places: one for each quantity of a measurement.

use crate::contenders::Contender;
use crate::published;
use crate::report::{Better, Figure, Form, Role, Series, Value};
use crate::say;
use std::io;
use varve_testkit::Server;

/// A figure for each quantity, filled place by place.
pub(crate) struct Grid<const N: usize> {
    pub(crate) figures: Vec<Figure>,
}

/// Title, unit and better direction of a quantity.
pub(crate) type Quantity = (&'static str, &'static str, Better);

impl<const N: usize> Grid<N> {
    pub(crate) fn new(quantities: &[Quantity; N]) -> Grid<N> {
        let figure = |&(title, unit, better): &Quantity| Figure::new(title, unit, better, Form::Dots);
        Grid { figures: quantities.iter().map(figure).collect() }
    }

    /// Measures one place on all contenders in turns.
    pub(crate) fn measure(
        &mut self,
        place: String,
        contenders: &[Contender],
        turns: u64,
        of: &mut dyn FnMut(&Server, u64) -> io::Result<[f64; N]>,
    ) -> io::Result<()> {
        let mut runs: Vec<Vec<[f64; N]>> = contenders.iter().map(|_| Vec::new()).collect();
        for turn in 0..turns {
            for (one, runs) in contenders.iter().zip(&mut runs) {
                runs.push(of(&one.server, turn)?);
            }
        }
        let first: Vec<f64> =
            runs.iter().map(|runs| Value::of(runs.iter().map(|run| run[0]).collect()).median).collect();
        say!("{place}: {first:.1?}");
        for (quantity, figure) in self.figures.iter_mut().enumerate() {
            let at = figure.places.len();
            figure.places.push(place.clone());
            if at == 0 {
                figure.series = contenders.iter().map(|one| Series::new(one.name.as_str(), one.role)).collect();
            }
            for (series, runs) in figure.series.iter_mut().zip(&runs) {
                series.push(at, Value::of(runs.iter().map(|run| run[quantity]).collect()));
            }
        }
        Ok(())
    }

    /// Adds the paper's two servers to a figure, at the places that it has numbers for.
    pub(crate) fn publish(&mut self, figure: usize, of: impl Fn(&str) -> Option<[f64; 2]>) {
        let figure = &mut self.figures[figure];
        for (number, name) in published::PAPER.into_iter().enumerate() {
            let mut series = Series::new(name, Role::Published);
            for (at, place) in figure.places.iter().enumerate() {
                if let Some(values) = of(place) {
                    series.push(at, values[number]);
                }
            }
            figure.series.push(series);
        }
    }
}
