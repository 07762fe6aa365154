//! Planted leaks, and what follows from finding them or not.
//!
//! A planted leak of level `x` puts `sqrt(1 - x^2) z + x y` in the place of what was read, `z` and `y`
//! being what was read and the vector it might be of, both at a root mean square of one: each number
//! then has a correlation of `x` with the true one. Leaks are planted into the first reading alone. Rows
//! that changed are the exception ([`planted_changes`](super::attacks::planted_changes)). The detection
//! limit of an attack is the lowest level that it finds, of levels tried from one downwards.

use anyhow::Result;

use crate::finding::{DETECTED_FROM, Finding, Plot, Section, Series, Verdict};
use crate::subject::Subject;
use crate::tools::evidence::{ALARM, of_area, of_hits};
use crate::tools::matrix::Matrix;
use crate::tools::statistics::{area_interval, area_under_curve, interval_of_hits, mean};

/// Levels at which leaks are planted, falling.
pub const LEVELS: [f64; 7] = [1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01];

/// Lines of the plot of planted leaks.
const MOST_LINES: usize = 4;

/// Repetitions of a bootstrap.
const REPETITIONS: usize = 200;

/// One attack, judged.
#[derive(Clone, PartialEq, Debug)]
pub struct Try {
    /// What was done: `attack=ols,pairs=64`.
    pub setting: String,
    /// What was measured.
    pub metric: &'static str,
    /// Its value.
    pub value: f64,
    /// Its interval of 95 %.
    pub interval: [f64; 2],
    /// The value that guessing gives.
    pub chance: f64,
    /// Digits of evidence that it is above chance.
    pub evidence: f64,
}

impl Try {
    /// A share of trials that are one for a hit and zero otherwise, at a chance each.
    pub fn of_hits(setting: impl Into<String>, hits: &[f64], chance: f64) -> Self {
        Self {
            setting: setting.into(),
            metric: "recall_at_1",
            value: mean(hits),
            interval: interval_of_hits(hits),
            chance,
            evidence: of_hits(hits.iter().sum(), chance * hits.len() as f64),
        }
    }

    /// How well a score tells two kinds apart.
    pub fn of_area(setting: impl Into<String>, same: &[f64], different: &[f64], seed: u64) -> Self {
        let area = area_under_curve(same, different);
        Self {
            setting: setting.into(),
            metric: "auc",
            value: area,
            interval: area_interval(same, different, REPETITIONS, seed),
            chance: 0.5,
            evidence: of_area(area, same.len(), different.len()),
        }
    }

    fn is_alarm(&self) -> bool {
        self.evidence >= ALARM
    }

    /// Open or reduced where there is evidence, else closed.
    fn verdict(&self, finding: &Finding) -> Verdict {
        match Verdict::of(finding, 1.0) {
            _ if !self.is_alarm() => Verdict::Closed,
            Verdict::Open => Verdict::Open,
            _ => Verdict::Reduced,
        }
    }
}

/// `sqrt(1 - x^2) z + x y`, each divided by its root mean square. Signals of another width are cut, or
/// end in zeros.
pub fn mixed(noise: &Matrix, signal: &Matrix, level: f64) -> Matrix {
    let size = |matrix: &Matrix| {
        let squares: Vec<f64> = matrix.values().iter().map(|x| x * x).collect();
        mean(&squares).sqrt().max(f64::MIN_POSITIVE)
    };
    let (noise_size, signal_size) = (size(noise), size(signal));
    let rest = (1.0 - level * level).sqrt();
    let mut out = noise.clone();
    for (row, signal) in (0..noise.rows()).zip(signal.iter()) {
        for (at, value) in out.row_mut(row).iter_mut().enumerate() {
            let signal = signal.get(at).copied().unwrap_or(0.0);
            *value = rest * *value / noise_size + level * signal / signal_size;
        }
    }
    out
}

/// A subject whose rows leak, in every release.
pub fn planted(subject: &Subject, level: f64) -> Subject {
    let mut leaking = subject.clone();
    for release in &mut leaking.view.releases {
        release.rows = mixed(&release.rows, &subject.coordinates, level);
    }
    leaking
}

/// Puts what was tried on the real readings into a section, finds the detection limit by `plant`, which
/// tries the same on a leak of a level, and concludes. `leak` says what is planted, and ends where the level
/// follows: "the vectors are mixed in at a correlation".
///
/// # Errors
/// Those of `plant`.
pub fn judge(
    section: &mut Section,
    tried: &[(&'static str, Vec<Try>)],
    (seed, rows): (u64, usize),
    leak: &str,
    mut plant: impl FnMut(f64) -> Result<Vec<Try>>,
) -> Result<()> {
    let name = section.name.clone();
    let all: Vec<&Try> = tried.iter().flat_map(|(_, tries)| tries).collect();
    for (reading, tries) in tried {
        for one in tries {
            let setting = format!("reading={reading},{}", one.setting);
            let finding = Finding::new(&name, setting, one.metric, one.value);
            section.findings.push(finding.ci95(one.interval).chance(one.chance).on(seed, rows));
        }
    }
    let Some(worst) =
        (0..all.len()).rev().max_by(|&a, &b| all[a].evidence.total_cmp(&all[b].evidence))
    else {
        section.notes.push("Not measured: too few documents or queries to attack.".to_owned());
        return Ok(());
    };
    let (limit, plot) = limit(&name, &mut plant)?;
    section.plots.push(plot);
    section.headline = Some(worst);
    if all[worst].is_alarm() {
        section.verdict = Some(all[worst].verdict(&section.findings[worst]));
        section.notes.push(format!(
            "This should not be: an attack does better than guessing, and chance alone does so well less \
             than once in 10^{:.0} times. Do not rely on this collection, and report it.",
            all[worst].evidence.floor()
        ));
    }
    match limit {
        Some(level) => {
            section.findings.push(detected_from(&name, "planted=correlation", level, seed, rows));
            if section.verdict.is_none() {
                section.verdict = Some(Verdict::Closed);
                section.notes.push(format!(
                    "No attack does better than guessing ({} tried). What one of them would have found was \
                     tried too: where {leak} of {level} or more, it is found. A weaker leak, one of another \
                     kind, or one that only another reading has, could pass.",
                    all.len()
                ));
            }
        }
        None => section.notes.push(
            "No verdict: these attacks do not find even the strongest leak that was planted, so that they \
             find nothing means nothing. There are too few documents, or they are all alike."
                .to_owned(),
        ),
    }
    Ok(())
}

/// A detection limit as a figure.
pub fn detected_from(channel: &str, setting: &str, level: f64, seed: u64, rows: usize) -> Finding {
    Finding::new(channel, setting, DETECTED_FROM, level).on(seed, rows)
}

/// The lowest of the levels that are found, going down until one is not; and the figures on the way.
fn limit(
    name: &str,
    plant: &mut impl FnMut(f64) -> Result<Vec<Try>>,
) -> Result<(Option<f64>, Plot)> {
    let mut series: Vec<Series> = Vec::new();
    let mut found = None;
    for level in LEVELS {
        let tries = plant(level)?;
        for one in &tries {
            let point = (level, one.value, Some(one.interval));
            let line = crate::report::figure::setting(&one.setting);
            match series.iter_mut().find(|series| series.name == line) {
                Some(series) => series.points.insert(0, point),
                None => series.push(Series { name: line, points: vec![point] }),
            }
        }
        if !tries.iter().any(Try::is_alarm) {
            break;
        }
        found = Some(level);
    }
    // The attacks that find most, as many as a plot can show.
    let found_in_all = |line: &Series| -> f64 { line.points.iter().map(|point| point.1).sum() };
    series.sort_by(|a, b| found_in_all(b).total_cmp(&found_in_all(a)));
    series.truncate(MOST_LINES);
    let plot = Plot {
        name: format!("{name}-planted"),
        title: "What the best of these attacks find of a planted leak".into(),
        x_label: "correlation that was planted".into(),
        y_label: "figure".into(),
        logarithmic: true,
        series,
    };
    Ok((found, plot))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::statistics::generator;

    fn noise(seed: u64) -> Matrix {
        Matrix::normal(400, 16, &mut generator(seed, 0))
    }

    #[test]
    fn a_planted_leak_has_the_correlation_of_its_level() {
        let (noise, signal) = (noise(1), noise(2));
        for level in [0.0, 0.3, 1.0] {
            let mut scaled = signal.clone();
            scaled.values_mut().iter_mut().for_each(|x| *x *= 40.0);
            let mixed = mixed(&noise, &scaled, level);
            let product: f64 = mixed.values().iter().zip(signal.values()).map(|(a, b)| a * b).sum();
            assert!((product / 6_400.0 - level).abs() < 0.05, "{level}: {product}");
        }
        assert_eq!(mixed(&noise, &noise.columns(0..4), 1.0).row(0)[4..], [0.0; 12]);
    }

    fn tries(hits: usize) -> Vec<Try> {
        let trials: Vec<f64> = (0..200).map(|at| f64::from(u8::from(at < hits))).collect();
        vec![Try::of_hits("attack=made-up", &trials, 0.005)]
    }

    fn judged(hits: usize, plant: impl Fn(f64) -> usize) -> Section {
        let mut section = Section::new("c", "C");
        let plant = |level| Ok(tries(plant(level)));
        judge(&mut section, &[("words", tries(hits))], (1, 200), "a correlation", plant).unwrap();
        section
    }

    #[test]
    fn verdicts_need_evidence_and_a_limit() {
        let strong = |level: f64| (200.0 * level) as usize;
        let closed = judged(3, strong);
        assert_eq!(closed.verdict, Some(Verdict::Closed));
        assert!(closed.notes[0].contains("a correlation of 0.1 or more"), "{:?}", closed.notes);
        // Ten hits of 200 where one is chance are no accident; four are.
        let limit = closed.findings.iter().find(|finding| finding.metric == DETECTED_FROM).unwrap();
        assert_eq!(limit.value, 0.1);
        assert_eq!(
            closed.plots[0].series[0].points.len(),
            5,
            "down to the first that is not found"
        );
        assert_eq!(judged(60, strong).verdict, Some(Verdict::Reduced));
        assert_eq!(judged(200, strong).verdict, Some(Verdict::Open));
        // What would find nothing says nothing.
        let blunt = judged(1, |_| 1);
        assert!(blunt.verdict.is_none() && blunt.notes[0].starts_with("No verdict"));
        let mut empty = Section::new("c", "C");
        judge(&mut empty, &[], (1, 200), "a correlation", |_| Ok(Vec::new())).unwrap();
        assert!(empty.verdict.is_none() && empty.headline.is_none());
    }
}
