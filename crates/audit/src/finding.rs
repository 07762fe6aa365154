//! What came out: figures with their settings, grouped into sections with plots.

use serde::Serialize;

/// One figure: a metric of a channel under a setting.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Finding {
    /// The channel or table, in kebab case: `partial-alignment`.
    pub channel: String,
    /// What was varied, as `key=value` by commas: `attack=ols,cells=64,pairs=2048`.
    pub setting: String,
    /// What was measured: `recall_at_1`.
    pub metric: String,
    /// Its value.
    pub value: f64,
    /// A 95 % interval, where there is something to resample.
    pub ci95: Option<[f64; 2]>,
    /// The value that knows nothing would have.
    pub chance: Option<f64>,
    /// The paper's figure for the same setting.
    pub paper: Option<f64>,
    /// The seed.
    pub seed: u64,
    /// Rows of the data it was measured on.
    pub rows: usize,
}

impl Finding {
    /// A figure with no interval, chance level or figure of the paper.
    pub fn new(channel: &str, setting: impl Into<String>, metric: &str, value: f64) -> Self {
        Self {
            channel: channel.to_owned(),
            setting: setting.into(),
            metric: metric.to_owned(),
            value,
            ci95: None,
            chance: None,
            paper: None,
            seed: 0,
            rows: 0,
        }
    }

    /// With the interval.
    pub fn ci95(self, interval: [f64; 2]) -> Self {
        Self { ci95: Some(interval), ..self }
    }

    /// With the level of chance.
    pub fn chance(self, chance: f64) -> Self {
        Self { chance: Some(chance), ..self }
    }

    /// With the paper's figure, if it has one.
    pub fn paper(self, paper: impl Into<Option<f64>>) -> Self {
        Self { paper: paper.into(), ..self }
    }

    /// With the seed and the number of rows.
    pub fn on(self, seed: u64, rows: usize) -> Self {
        Self { seed, rows, ..self }
    }
}

/// How much of a channel is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// At the level of chance, or not there at all.
    Closed,
    /// Above chance, and well below what unprotected vectors give away.
    Reduced,
    /// As good as unprotected.
    Open,
}

/// A channel of the audit, or a table of the paper.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Section {
    /// The channel's or the table's name, in kebab case.
    pub name: String,
    /// For people.
    pub title: String,
    /// What it means, and where our data or choices differ from the paper's, in sentences.
    pub notes: Vec<String>,
    /// Of channels.
    pub verdict: Option<Verdict>,
    /// The finding that the verdict rests on, by its place.
    pub headline: Option<usize>,
    /// All figures.
    pub findings: Vec<Finding>,
    /// Pictures of them.
    pub plots: Vec<Plot>,
}

impl Section {
    /// A section with nothing in it yet.
    pub fn new(name: &str, title: &str) -> Self {
        Self {
            name: name.to_owned(),
            title: title.to_owned(),
            notes: Vec::new(),
            verdict: None,
            headline: None,
            findings: Vec::new(),
            plots: Vec::new(),
        }
    }
}

/// Lines over one axis.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Plot {
    /// File name without extension.
    pub name: String,
    /// Above it.
    pub title: String,
    /// Below it.
    pub x_label: String,
    /// Beside it.
    pub y_label: String,
    /// Whether x is logarithmic; zero is then drawn at the left edge.
    pub logarithmic: bool,
    /// The lines.
    pub series: Vec<Series>,
}

/// One line.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Series {
    /// In the legend.
    pub name: String,
    /// `(x, y, interval of y)`, by rising x.
    pub points: Vec<(f64, f64, Option<[f64; 2]>)>,
}
