//! Several figures over the same places: one for each quantity of a measurement.

use crate::contenders::{self, Contender};
use crate::kept;
use crate::published;
use crate::report::{Better, Figure, Form, Role, Series, Value};
use crate::say;
use std::io;
use varve_testkit::Server;

/// A figure for each quantity, filled place by place.
pub(crate) struct Grid<const N: usize> {
    pub(crate) figures: Vec<Figure>,
}

/// The floor under a place: the number of the quantity that is CPU, and what measures that of the floor, in microseconds.
pub(crate) struct Below<'f> {
    pub(crate) quantity: usize,
    pub(crate) cpu_us: &'f mut dyn FnMut() -> io::Result<f64>,
}

/// Title, unit and better direction of a quantity.
pub(crate) type Quantity = (&'static str, &'static str, Better);

impl<const N: usize> Grid<N> {
    pub(crate) fn new(quantities: &[Quantity; N]) -> Grid<N> {
        let figure = |&(title, unit, better): &Quantity| Figure::new(title, unit, better, Form::Dots);
        Grid { figures: quantities.iter().map(figure).collect() }
    }

    /// Measures one place on all contenders in turns, as one case; with a floor also that, for its quantity.
    pub(crate) fn measure(
        &mut self,
        place: String,
        contenders: &[Contender],
        turns: u64,
        of: &mut dyn FnMut(&Server, u64) -> io::Result<[f64; N]>,
        floor: Option<Below<'_>>,
    ) -> io::Result<()> {
        let (cpu, mut floor) = floor.map_or((0, None), |below| (below.quantity, Some(below.cpu_us)));
        let measured = kept::case(&place, || {
            let mut runs: Vec<Vec<Vec<f64>>> = contenders.iter().map(|_| Vec::new()).collect();
            let mut floors = Vec::new();
            for turn in 0..turns {
                for (one, runs) in contenders.iter().zip(&mut runs) {
                    let found = contenders::spared(&one.name, one.role, of(&one.server, turn))?;
                    runs.extend(found.map(Vec::from));
                }
                if let Some(floor) = floor.as_mut() {
                    floors.push(floor()?);
                }
            }
            Ok((runs, floors))
        });
        let (runs, floors): (Vec<Vec<Vec<f64>>>, Vec<f64>) = measured?;
        let first: Vec<f64> =
            runs.iter().map(|runs| Value::of(runs.iter().map(|run| run[0]).collect()).median).collect();
        say!("{place}: {first:.1?}");
        for (quantity, figure) in self.figures.iter_mut().enumerate() {
            let at = figure.places.len();
            figure.places.push(place.clone());
            if at == 0 {
                figure.series = contenders.iter().map(|one| Series::new(one.name.as_str(), one.role)).collect();
                let floor = (quantity == cpu && !floors.is_empty()).then(|| Series::new("floor", Role::Floor));
                figure.series.extend(floor);
            }
            let of = |runs: &Vec<Vec<f64>>| runs.iter().map(|run| run[quantity]).collect();
            let all = runs.iter().map(of).chain([floors.clone()]);
            figure.series.iter_mut().zip(all).for_each(|(series, runs)| series.push(at, Value::of(runs)));
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
