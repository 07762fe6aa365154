//! Where values go, and which of them are written beside the axis.

use std::ops::Range;

/// Gap between zero, at the edge, and the least other value of a logarithmic axis.
const ZERO_GAP: f64 = 26.0;
/// Ticks aimed for.
const TICKS: f64 = 5.0;

/// A scale from values to places. `places.start` is where the least value goes, and may be the
/// larger of the two.
pub(super) struct Axis {
    kind: Kind,
    places: Range<f64>,
}

enum Kind {
    /// From a least value to a largest, ticks this far apart.
    Linear { values: Range<f64>, step: f64 },
    /// Decimal logarithms from a least to a largest; zero is drawn at the edge if there is one.
    Logarithmic { exponents: Range<f64>, zero: bool },
}

impl Axis {
    /// A scale for these values. One that is to be logarithmic and has nothing above zero is not.
    pub(super) fn new(
        values: impl Iterator<Item = f64> + Clone,
        logarithmic: bool,
        places: Range<f64>,
    ) -> Self {
        let positive = || values.clone().filter(|&value| value > 0.0);
        if !logarithmic || positive().next().is_none() {
            let (low, high) = ends(values);
            let step = step(low, high);
            return Self { kind: Kind::Linear { values: low..high, step }, places };
        }
        let (low, high) = ends(positive().map(f64::log10));
        // One value only gets a decade to itself.
        let exponents = if high - low < 1e-9 { low - 0.5..low + 0.5 } else { low..high };
        let zero = values.clone().any(|value| value == 0.0);
        Self { kind: Kind::Logarithmic { exponents, zero }, places }
    }

    /// A linear scale that holds zero and ends at ticks.
    pub(super) fn from_zero(values: impl Iterator<Item = f64>, places: Range<f64>) -> Self {
        let (low, high) = ends(values.chain([0.0]));
        let high = if high == low { low + 1.0 } else { high };
        let step = step(low, high);
        // A hair below a tick belongs to it: 3 * 0.2 is a little more than 0.6.
        let low = (low / step + 1e-9).floor() * step;
        let high = (high / step - 1e-9).ceil() * step;
        Self { kind: Kind::Linear { values: low..high, step }, places }
    }

    /// The place of a value.
    pub(super) fn place(&self, value: f64) -> f64 {
        let Range { start, end } = self.places;
        match &self.kind {
            Kind::Linear { values, .. } => {
                let span = values.end - values.start;
                let part = if span > 0.0 { (value - values.start) / span } else { 0.5 };
                start + part * (end - start)
            }
            Kind::Logarithmic { zero: true, .. } if value <= 0.0 => start,
            Kind::Logarithmic { exponents, zero } => {
                let first = if *zero { start + ZERO_GAP * (end - start).signum() } else { start };
                let part = (value.log10() - exponents.start) / (exponents.end - exponents.start);
                first + part * (end - first)
            }
        }
    }

    /// Values to write beside the axis, with what is written.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        match &self.kind {
            Kind::Linear { values, step } => {
                let first = (values.start / step - 1e-9).ceil() as i64;
                let last = (values.end / step + 1e-9).floor() as i64;
                (first..=last).map(|at| at as f64 * step).map(|v| (v, label(v, *step))).collect()
            }
            Kind::Logarithmic { exponents, zero } => {
                let mut ticks: Vec<f64> = if *zero { vec![0.0] } else { Vec::new() };
                ticks.extend(logarithmic_ticks(exponents));
                ticks.into_iter().map(|value| (value, label(value, value))).collect()
            }
        }
    }
}

/// Powers of ten, every other one where there are many; with twos and fives where there are few.
fn logarithmic_ticks(exponents: &Range<f64>) -> Vec<f64> {
    let decades = exponents.end - exponents.start;
    let (digits, every): (&[f64], usize) = match decades {
        d if d < 1.2 => (&[1.0, 2.0, 3.0, 5.0, 7.0], 1),
        d if d < 2.2 => (&[1.0, 2.0, 5.0], 1),
        d if d < 6.0 => (&[1.0], 1),
        d => (&[1.0], (d / TICKS).ceil() as usize),
    };
    let powers = (exponents.start.floor() as i32..=exponents.end.ceil() as i32).step_by(every);
    let inside = |value: &f64| {
        let at = value.log10();
        at >= exponents.start - 1e-9 && at <= exponents.end + 1e-9
    };
    powers.flat_map(|p| digits.iter().map(move |d| d * 10_f64.powi(p))).filter(inside).collect()
}

/// The least and the largest; zero and one of nothing.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values
        .fold(None, |ends: Option<(f64, f64)>, value| {
            Some(ends.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
        })
        .unwrap_or((0.0, 1.0))
}

/// One, two or five times a power of ten, about a fifth of the way.
fn step(low: f64, high: f64) -> f64 {
    let rough = (high - low) / TICKS;
    if rough <= 0.0 || !rough.is_finite() {
        return 1.0;
    }
    let power = 10_f64.powf(rough.log10().floor());
    let digit = rough / power;
    power
        * if digit < 1.5 {
            1.0
        } else if digit < 3.5 {
            2.0
        } else if digit < 7.5 {
            5.0
        } else {
            10.0
        }
}

/// A value with the digits that tell neighbouring ticks apart; thousands as `k`.
fn label(value: f64, step: f64) -> String {
    let (value, step, unit) = match value.abs() {
        size if size >= 1e6 => (value / 1e6, step / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, step / 1e3, "k"),
        _ => (value, step, ""),
    };
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = (-step.abs().log10() - 1e-9).ceil().clamp(0.0, 9.0) as usize;
    // A step of 0.2 has one digit, a value of 0.25 thousand needs two.
    let digits = (digits..9).find(|&d| {
        let scale = 10_f64.powi(d as i32);
        ((value * scale).round() / scale - value).abs() < 1e-6 * value.abs()
    });
    format!("{value:.*}{unit}", digits.unwrap_or(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks().into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn linear_ticks_are_round_and_inside() {
        let axis = Axis::from_zero([0.93, 0.2].into_iter(), 0.0..100.0);
        assert_eq!(labels(&axis), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!((axis.place(0.0), axis.place(1.0)), (0.0, 100.0));
        let axis = Axis::from_zero([0.031].into_iter(), 0.0..100.0);
        assert_eq!(
            labels(&axis),
            ["0", "0.005", "0.010", "0.015", "0.020", "0.025", "0.030", "0.035"]
        );
        let axis = Axis::new([25.0, 50.0, 100.0].into_iter(), false, 0.0..1.0);
        assert_eq!(labels(&axis), ["40", "60", "80", "100"]);
    }

    #[test]
    fn zero_stands_at_the_edge_of_a_logarithmic_axis() {
        let axis = Axis::new([0.0, 1.0, 32.0, 1000.0].into_iter(), true, 10.0..310.0);
        assert_eq!(labels(&axis), ["0", "1", "10", "100", "1000"]);
        assert_eq!(axis.place(0.0), 10.0);
        assert_eq!(axis.place(1.0), 10.0 + ZERO_GAP);
        assert_eq!(axis.place(1000.0), 310.0);
    }

    #[test]
    fn every_axis_has_a_place_for_what_it_was_made_for() {
        let cases: [&[f64]; 5] = [&[], &[3.0], &[0.0], &[0.0, 7.0], &[5.0, 5.0]];
        for values in cases {
            for logarithmic in [false, true] {
                let axis = Axis::new(values.iter().copied(), logarithmic, 0.0..100.0);
                let inside = |v: &f64| (0.0..=100.0).contains(&axis.place(*v));
                assert!(values.iter().all(inside), "{values:?} {logarithmic}");
                assert!(axis.ticks().iter().all(|(v, _)| inside(v)), "{values:?} {logarithmic}");
            }
            let axis = Axis::from_zero(values.iter().copied(), 10.0..0.0);
            assert!(values.iter().all(|v| (0.0..=10.0).contains(&axis.place(*v))), "{values:?}");
        }
    }

    #[test]
    fn large_values_are_abbreviated() {
        assert_eq!((label(32768.0, 32768.0), label(1e6, 1e6)), ("32.768k".into(), "1M".into()));
        assert_eq!(label(10_000.0, 10_000.0), "10k");
        assert_eq!(label(0.001, 0.001), "0.001");
    }
}
