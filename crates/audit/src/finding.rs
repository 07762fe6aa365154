//! Results: figures with their settings, grouped into sections with plots.

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
    /// The value that guessing gives.
    pub chance: Option<f64>,
    /// The paper's figure for the same setting.
    pub paper: Option<f64>,
    /// The seed.
    pub seed: u64,
    /// Rows of the data it was measured on.
    pub rows: usize,
    /// Whether it follows from how things are built, and nothing was attacked for it.
    pub constructed: bool,
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
            constructed: false,
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

    /// As a figure that follows from the construction.
    pub fn constructed(self) -> Self {
        Self { constructed: true, ..self }
    }

    /// The value of a key of the setting.
    pub fn part(&self, key: &str) -> Option<&str> {
        let mut parts = self.setting.split(',').filter_map(|part| part.split_once('='));
        parts.find_map(|(name, value)| (name == key).then_some(value))
    }

    /// Known pairs that the setting grants; none where it does not say.
    pub fn pairs(&self) -> usize {
        self.part("pairs").and_then(|pairs| pairs.parse().ok()).unwrap_or(0)
    }
}

/// How much a channel leaks.
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

/// The share of the way from chance to no protection from which on a figure is open.
const AS_GOOD: f64 = 0.9;

/// How far above chance, on that way, a figure without an interval may be by accident.
const ACCIDENT: f64 = 0.01;

/// The most known pairs in a row's own cell with which a success still makes a channel open.
pub const FEW_PAIRS: usize = 32;

impl Verdict {
    /// The verdict on a figure that unprotected vectors would have at `open`:
    /// - open when `value - chance >= 0.9 (open - chance)`, so also where chance is as good as no
    ///   protection;
    /// - closed when the lower end of its interval is not above chance, or when there is no interval
    ///   and the value is within a hundredth of that way;
    /// - reduced otherwise.
    ///
    /// A figure without a level of chance has it at zero.
    pub fn of(finding: &Finding, open: f64) -> Self {
        let chance = finding.chance.unwrap_or(0.0);
        let way = open - chance;
        let at_chance = match finding.ci95 {
            Some([low, _]) => low <= chance,
            None => finding.value - chance <= ACCIDENT * way,
        };
        match finding.value - chance {
            above if above >= AS_GOOD * way => Self::Open,
            _ if at_chance => Self::Closed,
            _ => Self::Reduced,
        }
    }
}

/// A channel of the audit, or a table of the paper.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Section {
    /// The channel's or the table's name, in kebab case.
    pub name: String,
    /// The heading, for people.
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

    /// Rests the verdict on the findings that `counts` picks, which unprotected vectors would have
    /// at `open`. The headline is the one that is open with the fewest known pairs, no more than
    /// [`FEW_PAIRS`]; else the one farthest above chance, which is then reduced at most. Of equals
    /// it is the first.
    pub fn rest_on(&mut self, open: f64, counts: impl Fn(&Finding) -> bool) {
        let judged = || self.findings.iter().enumerate().filter(|(_, finding)| counts(finding));
        let cheapest = judged()
            .filter(|(_, f)| f.pairs() <= FEW_PAIRS && Verdict::of(f, open) == Verdict::Open)
            .min_by_key(|(_, f)| f.pairs());
        let above = |finding: &Finding| finding.value - finding.chance.unwrap_or(0.0);
        let farthest = judged().rev().max_by(|a, b| above(a.1).total_cmp(&above(b.1)));
        if let Some((at, _)) = cheapest {
            (self.verdict, self.headline) = (Some(Verdict::Open), Some(at));
        } else if let Some((at, finding)) = farthest {
            let verdict = match Verdict::of(finding, open) {
                Verdict::Open => Verdict::Reduced,
                other => other,
            };
            (self.verdict, self.headline) = (Some(verdict), Some(at));
        }
    }
}

/// Lines over one axis.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Plot {
    /// File name without extension.
    pub name: String,
    /// The text above the plot.
    pub title: String,
    /// The name of the horizontal axis.
    pub x_label: String,
    /// The name of the vertical axis.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(pairs: usize, value: f64, interval: Option<[f64; 2]>) -> Finding {
        let setting = format!("attack=ols,pairs={pairs}");
        Finding { ci95: interval, ..Finding::new("c", setting, "auc", value).chance(0.5) }
    }

    #[test]
    fn nine_tenths_of_the_way_are_open_and_only_chance_is_closed() {
        let verdict = |value, interval| Verdict::of(&finding(0, value, interval), 1.0);
        assert_eq!(verdict(0.951, Some([0.5, 1.0])), Verdict::Open);
        assert_eq!(verdict(0.94, Some([0.9, 1.0])), Verdict::Reduced);
        // A twentieth above chance for sure is not closed; twice as much by accident is.
        assert_eq!(verdict(0.525, Some([0.51, 0.54])), Verdict::Reduced);
        assert_eq!(verdict(0.55, Some([0.48, 0.62])), Verdict::Closed);
        assert_eq!(verdict(0.504, None), Verdict::Closed);
        assert_eq!(verdict(0.51, None), Verdict::Reduced);
        assert_eq!(verdict(0.3, None), Verdict::Closed);
    }

    #[test]
    fn chance_that_is_as_good_as_no_protection_is_open() {
        let only_one = Finding::new("c", "", "recall_at_1", 1.0).chance(1.0).ci95([1.0, 1.0]);
        assert_eq!(Verdict::of(&only_one, 1.0), Verdict::Open);
    }

    #[test]
    fn the_fewest_pairs_that_open_make_the_headline_and_many_do_not_open() {
        let exact = |value| Some([value, value]);
        let rows = [(64, 1.0), (32, 0.99), (8, 0.96), (0, 0.6)];
        let mut section = Section::new("c", "C");
        section.findings = rows.map(|(pairs, value)| finding(pairs, value, exact(value))).into();
        section.rest_on(1.0, |_| true);
        assert_eq!((section.verdict, section.headline), (Some(Verdict::Open), Some(2)));
        section.rest_on(1.0, |f| f.pairs() > 32 || f.pairs() == 0);
        assert_eq!((section.verdict, section.headline), (Some(Verdict::Reduced), Some(0)));
        section.rest_on(1.0, |f| f.pairs() == 0);
        assert_eq!((section.verdict, section.headline), (Some(Verdict::Reduced), Some(3)));
    }

    #[test]
    fn parts_of_a_setting_are_whole() {
        let finding = Finding::new("c", "in_cell_pairs=3,pairs=64,axes=owner", "auc", 0.5);
        assert_eq!((finding.part("pairs"), finding.pairs()), (Some("64"), 64));
        assert_eq!((finding.part("axes"), finding.part("axe")), (Some("owner"), None));
    }
}
