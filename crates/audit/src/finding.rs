//! Results: figures with their settings, grouped into sections with plots.

use serde::Serialize;

use crate::tools::statistics::{binomial_tail, deviations, interval_of_hits, mean, tail};

/// The metric of how weak a leak would have been seen.
pub const DETECTED_FROM: &str = "detected_from";

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
    /// Of a share of hits: how many there were, of how many trials.
    pub trials: Option<[usize; 2]>,
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
            trials: None,
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

    /// A share of hits, of which each is one and the others are zero, with Wilson's interval.
    pub fn share(channel: &str, setting: impl Into<String>, metric: &str, hits: &[f64]) -> Self {
        let count = hits.iter().filter(|&&hit| hit > 0.5).count();
        let finding = Self::new(channel, setting, metric, mean(hits)).ci95(interval_of_hits(hits));
        Self { trials: Some([count, hits.len()]), ..finding }
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

/// How much a channel leaks, in rising order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
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

/// The probability with which a figure at chance may count as above it.
const FALSE_ALARM: f64 = 0.025;

/// The probability with which a leak at the detection limit is seen.
const SEEN: f64 = 0.95;

impl Verdict {
    /// The verdict on a figure that unprotected vectors would have at `open`:
    /// - open when `value - chance >= 0.9 (open - chance)`, so also where chance is as good as no
    ///   protection;
    /// - closed when guessing does as well with a probability above 2.5 %, or when there is nothing to
    ///   tell that by and the value is within a hundredth of that way;
    /// - reduced otherwise.
    ///
    /// A figure without a level of chance has it at zero.
    pub fn of(finding: &Finding, open: f64) -> Self {
        Self::of_best(finding, open, 1)
    }

    /// The verdict on the best of several figures. The best of `tried` that are all at chance exceeds
    /// what one would: the probability is divided by their number.
    pub fn of_best(finding: &Finding, open: f64, tried: usize) -> Self {
        let chance = finding.chance.unwrap_or(0.0);
        let (above, way) = (finding.value - chance, open - chance);
        let at_chance = by_guessing(finding, way) > FALSE_ALARM / tried.max(1) as f64;
        match above {
            _ if above >= AS_GOOD * way && (way <= 0.0 || !at_chance) => Self::Open,
            _ if at_chance => Self::Closed,
            _ => Self::Reduced,
        }
    }
}

/// The probability with which guessing does as well: of a share of hits by the binomial law, of other
/// figures by how many deviations their interval is above chance. Without either, a figure within a
/// hundredth of the `way` to no protection is an accident for sure, and any other is none.
fn by_guessing(finding: &Finding, way: f64) -> f64 {
    let chance = finding.chance.unwrap_or(0.0);
    let above = finding.value - chance;
    match (finding.trials, finding.ci95) {
        (Some([hits, of]), _) if chance > 0.0 => binomial_tail(hits, of, chance),
        (_, Some(_)) if above <= 0.0 => 1.0,
        (_, Some([low, _])) => {
            let deviation = (finding.value - low) / deviations(FALSE_ALARM);
            tail(above / deviation)
        }
        (_, None) => f64::from(u8::from(above <= ACCIDENT * way)),
    }
}

/// How large a figure would have had to be, for the same trials, to be told from chance with a
/// probability of 95 %: the detection limit. `None` where there is nothing to tell it by.
///
/// Of a share of hits: the alarm is at the fewest hits `h` that guessing reaches with a probability of
/// at most 2.5 % by the number of figures; the limit is the rate that gives `h` hits or more with 95 %.
/// Of other figures: as many standard deviations above chance as the two probabilities take. An interval that is a
/// point has no deviation to tell.
fn detection_limit(finding: &Finding, tried: usize) -> Option<f64> {
    let chance = finding.chance.unwrap_or(0.0);
    let alarm = FALSE_ALARM / tried.max(1) as f64;
    if let Some([_, of]) = finding.trials.filter(|_| chance > 0.0) {
        let hits = (0..=of).find(|&hits| binomial_tail(hits, of, chance) <= alarm)?;
        let (mut low, mut high) = (chance, 1.0);
        for _ in 0..50 {
            let middle = (low + high) / 2.0;
            let seen = binomial_tail(hits, of, middle) >= SEEN;
            *(if seen { &mut high } else { &mut low }) = middle;
        }
        return Some(high);
    }
    let [low, high] = finding.ci95.filter(|[low, high]| low < high)?;
    let deviation = (high - low) / (2.0 * deviations(FALSE_ALARM));
    Some(chance + deviation * (deviations(alarm) + deviations(1.0 - SEEN)))
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
    /// [`FEW_PAIRS`]; else, of those that guessing does not explain, the one farthest above chance, which
    /// is then reduced at most; else the one that guessing explains least. Chance is that of the best of
    /// all that were picked, and a verdict of closed comes with the detection limit.
    pub fn rest_on(&mut self, open: f64, counts: impl Fn(&Finding) -> bool) {
        let judged = || self.findings.iter().enumerate().filter(|(_, finding)| counts(finding));
        let tried = judged().count();
        let verdict = |finding: &Finding| Verdict::of_best(finding, open, tried);
        let few = |finding: &Finding| finding.pairs() <= FEW_PAIRS;
        let above = |finding: &Finding| finding.value - finding.chance.unwrap_or(0.0);
        let guessed =
            |finding: &Finding| by_guessing(finding, open - finding.chance.unwrap_or(0.0));
        let cheapest = judged()
            .filter(|(_, f)| few(f) && verdict(f) == Verdict::Open)
            .min_by(|(_, a), (_, b)| a.pairs().cmp(&b.pairs()).then(b.value.total_cmp(&a.value)));
        let farthest = judged()
            .rev()
            .filter(|(_, f)| verdict(f) != Verdict::Closed)
            .max_by(|(_, a), (_, b)| above(a).total_cmp(&above(b)));
        let surest = judged().min_by(|(_, a), (_, b)| {
            guessed(a).total_cmp(&guessed(b)).then(above(b).total_cmp(&above(a)))
        });
        let found = [
            cheapest.map(|(at, _)| (at, Verdict::Open)),
            farthest.map(|(at, _)| (at, Verdict::Reduced)),
            surest.map(|(at, _)| (at, Verdict::Closed)),
        ];
        if let Some((at, verdict)) = found.into_iter().flatten().next() {
            (self.verdict, self.headline) = (Some(verdict), Some(at));
            self.add_detection_limit(tried);
        }
    }

    /// Adds how weak a leak the headline, the best of `tried` figures, would have shown, where the
    /// verdict is closed.
    pub(crate) fn add_detection_limit(&mut self, tried: usize) {
        let Some(finding) = self.headline.map(|at| &self.findings[at]) else { return };
        let closed = self.verdict == Some(Verdict::Closed);
        if let Some(limit) = detection_limit(finding, tried).filter(|_| closed) {
            let setting = finding.setting.clone();
            let limit = Finding::new(&self.name, setting, DETECTED_FROM, limit);
            let limit = Finding { chance: finding.chance, ..limit };
            self.findings.push(limit.on(finding.seed, finding.rows));
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

impl Series {
    /// A line through points in any order.
    pub fn through(name: &str, mut points: Vec<(f64, f64, Option<[f64; 2]>)>) -> Self {
        points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        Self { name: name.to_owned(), points }
    }
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
        assert_eq!(verdict(0.951, Some([0.6, 1.0])), Verdict::Open);
        assert_eq!(verdict(0.951, Some([0.4, 1.0])), Verdict::Closed, "as good by guessing");
        assert_eq!(verdict(0.94, Some([0.9, 1.0])), Verdict::Reduced);
        // A twentieth above chance for sure is not closed; twice as much by accident is.
        assert_eq!(verdict(0.525, Some([0.51, 0.54])), Verdict::Reduced);
        assert_eq!(verdict(0.55, Some([0.48, 0.62])), Verdict::Closed);
        assert_eq!(verdict(0.504, None), Verdict::Closed);
        assert_eq!(verdict(0.51, None), Verdict::Reduced);
        assert_eq!(verdict(0.3, None), Verdict::Closed);
    }

    /// Hits of 128 trials where one in a hundred is chance.
    fn share(hits: usize) -> Finding {
        let hits: Vec<f64> = (0..128).map(|at| f64::from(u8::from(at < hits))).collect();
        Finding::share("c", "", "recall_at_1", &hits).chance(0.01)
    }

    #[test]
    fn the_best_of_many_may_be_better_by_accident() {
        let verdict = |hits, tried| Verdict::of_best(&share(hits), 1.0, tried);
        // Five of 128 come about by guessing once in a hundred times.
        assert_eq!((verdict(4, 1), verdict(5, 1)), (Verdict::Closed, Verdict::Reduced));
        assert_eq!((verdict(5, 20), verdict(8, 20)), (Verdict::Closed, Verdict::Reduced));
        let area = finding(0, 0.53, Some([0.505, 0.555]));
        assert_eq!(Verdict::of_best(&area, 1.0, 1), Verdict::Reduced);
        assert_eq!(Verdict::of_best(&area, 1.0, 20), Verdict::Closed);
    }

    #[test]
    fn closed_comes_with_what_would_have_been_seen() {
        let mut section = Section::new("c", "C");
        section.findings = vec![share(1), share(2)];
        section.rest_on(1.0, |_| true);
        assert_eq!((section.verdict, section.headline), (Some(Verdict::Closed), Some(1)));
        let limit = section.findings.last().expect("a limit");
        assert_eq!(limit.metric, DETECTED_FROM);
        // At the limit the alarm goes off in 95 of 100 cases, and a little below in fewer.
        let alarm = (0..).find(|&hits| Verdict::of_best(&share(hits), 1.0, 2) != Verdict::Closed);
        let seen = |rate| binomial_tail(alarm.expect("an alarm"), 128, rate);
        assert!((seen(limit.value) - 0.95).abs() < 1e-6, "{}", limit.value);
        section.findings = vec![share(60)];
        section.rest_on(1.0, |_| true);
        assert_eq!((section.verdict, section.findings.len()), (Some(Verdict::Reduced), 1));
    }

    #[test]
    fn an_interval_that_is_a_point_has_no_detection_limit() {
        let limit = |interval| detection_limit(&finding(0, 0.5, Some(interval)), 1);
        assert!(limit([0.5, 0.5]).is_none());
        assert!(limit([0.48, 0.52]).is_some_and(|limit| limit > 0.53));
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
