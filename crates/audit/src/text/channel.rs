//! The channel of the audit: what of the owner's texts can be read out of what the server has.
//!
//! Half of the documents play the attacker's corpus and train the decoder. Of the other half, those
//! of the fullest cell are read: raw as a control, as the server has them, and with known pairs of
//! that cell. A view's lift is `(F1 - chance) / (raw F1 - chance)`. Where the server holds no prefixes,
//! known pairs tell the mean prefix of their cell before anything is done about its key; what views
//! with pairs have above that is `lift_above_cell_mean`, from there to raw.

use std::collections::HashSet;

use super::decoder::Decoder;
use super::scene::{CELL_MEAN, Estimate, PREFIX_IF_PUBLIC, RAW, Scene};
use super::tokens::{VocabularyLimits, Words, words};
use super::trial::{METRICS, Marks, TOKEN_F1, Trial, findings, means};
use super::views::{Attack, without_residual};
use crate::finding::{Finding, Plot, Section, Series, Verdict};
use crate::subject::Subject;
use crate::tools::matrix::Matrix;

/// The channel's name.
pub const NAME: &str = "text-inversion";

/// Most words of a text that are judged by.
const WORDS: usize = 192;

/// Text read out of the owner's protected vectors.
///
/// # Errors
/// When a decomposition does not converge; what is missing is said in the section's notes.
pub fn channel(subject: &Subject, progress: &dyn Fn(&str)) -> anyhow::Result<Section> {
    let mut section = Section::new(NAME, "Words read out of stored vectors");
    let Some(texts) = &subject.texts else {
        section.notes.push(
            "Not measured: it needs the documents' texts, to learn from and to judge by. Nothing \
             follows for or against the store."
                .into(),
        );
        return Ok(section);
    };
    let scene = match Scene::set(subject) {
        Ok(scene) => scene,
        Err(missing) => {
            section.notes.push(missing);
            return Ok(section);
        }
    };

    let words_of = |documents: &[usize]| -> Vec<Words> {
        documents.iter().map(|&document| words(&texts[document], WORDS)).collect()
    };
    progress("text: training a decoder on half of the texts");
    let corpus = subject.coordinates.select(&scene.corpus);
    let corpus_texts = words_of(&scene.corpus);
    let limits = VocabularyLimits::default();
    let train = |corpus: &Matrix| Decoder::train(corpus, &corpus_texts, limits, subject.seed);
    let decoder = match train(&corpus) {
        Ok(decoder) => decoder,
        Err(reason) => {
            section.notes.push(format!("Not measured: no decoder could be trained ({reason})."));
            return Ok(section);
        }
    };

    progress("text: reading the other half");
    let (frame, target_texts) = (scene.frame(subject)?, words_of(&scene.targets));
    let trial = Trial {
        decoder: &decoder,
        frame: &frame,
        coordinates: subject.coordinates.select(&scene.targets),
        texts: target_texts.iter().collect(),
    };
    let mut outcome = Outcome::of(&trial, &scene);
    // Prefixes all of zeros, as none are, teach nothing.
    if let Ok(decoder) = train(&without_residual(&corpus, subject.prefix_width)) {
        outcome.add_prefix_read_by(&trial.with(&decoder));
    }
    outcome.fill(&mut section, subject.seed);
    section.notes.extend(scene.notes);
    Ok(section)
}

/// The observer's estimates of the owner's vectors by view, to feed to other inverters, and under
/// `documents` which document each row is about. `raw` is the control.
///
/// # Errors
/// When there is too little to attack, or a decomposition does not converge.
pub fn export_views(subject: &Subject) -> anyhow::Result<Vec<(String, Matrix)>> {
    let scene = Scene::set(subject).map_err(anyhow::Error::msg)?;
    let documents = scene.targets.iter().map(|&document| document as f64).collect();
    let mut out = vec![("documents".to_owned(), Matrix::new(1, documents))];
    out.push(("raw".to_owned(), subject.vectors.select(&scene.targets)));
    let frame = scene.frame(subject)?;
    let views = scene.estimates(&subject.coordinates.select(&scene.targets));
    for view in views.into_iter().filter(|view| view.name != RAW) {
        let name = match view.pairs {
            0 => view.name.to_owned(),
            pairs => format!("{}-{pairs}", view.name),
        };
        out.push((name, frame.apply(&view.coordinates)));
    }
    Ok(out)
}

/// How every view was read.
struct Outcome {
    views: Vec<(Estimate, Vec<Marks>)>,
    chance: Marks,
}

impl Outcome {
    fn of(trial: &Trial<'_>, scene: &Scene) -> Self {
        let views = scene.estimates(&trial.coordinates).into_iter();
        let views = views.map(|view| {
            let marks = trial.marks(&view.coordinates);
            (view, marks)
        });
        Self { views: views.collect(), chance: trial.chance() }
    }

    /// The prefix again, read by a decoder that was trained for prefixes alone.
    fn add_prefix_read_by(&mut self, trial: &Trial<'_>) {
        let names = [Attack::PrefixOnly.name(), PREFIX_IF_PUBLIC];
        let prefix = self.views.iter().find(|(view, _)| names.contains(&view.name));
        if let Some(Estimate { attainable, coordinates, .. }) = prefix.map(|(view, _)| view) {
            let (attainable, coordinates) = (*attainable, coordinates.clone());
            let name = if attainable { "prefix-adapted" } else { "prefix-adapted-if-public" };
            let marks = trial.marks(&coordinates);
            self.views.push((Estimate { name, pairs: 0, attainable, coordinates }, marks));
        }
    }

    fn fill(&self, section: &mut Section, seed: u64) {
        // The token-F1 of every view, by its place among the findings.
        let mut places = Vec::new();
        for (view, marks) in &self.views {
            places.push(section.findings.len() + TOKEN_F1);
            let setting = format!("view={},pairs={}", view.name, view.pairs);
            let by_key = std::slice::from_ref(marks);
            section.findings.extend(findings(NAME, &setting, &METRICS, by_key, &self.chance, seed));
        }
        section.plots.push(self.plot(&section.findings, &places));

        let value = |place: usize| section.findings[place].value;
        let attainable = || {
            let views = self.views.iter().zip(&places).filter(|((view, _), _)| view.attainable);
            views.map(|((view, _), &place)| (view, place))
        };
        let best = |counts: &dyn Fn(&Estimate) -> bool| {
            let views = attainable().filter(|(view, _)| counts(view)).map(|(_, place)| place);
            views.max_by(|&a, &b| value(a).total_cmp(&value(b)))
        };
        let alone = best(&|view| view.pairs == 0);
        let helped = best(&|view| view.pairs > 0 && view.name != CELL_MEAN);
        let baseline = best(&|view| view.name == CELL_MEAN);
        let raw = &section.findings[places[0]];
        let unprotected = raw.value;
        let readable = Verdict::of(raw, f64::INFINITY) != Verdict::Closed;

        let mut notes = vec![format!(
            "A decoder that learnt from half of the texts reads raw vectors with token-F1 {:.3}; \
             emitting the most frequent words gives {:.3}.",
            raw.value, self.chance[TOKEN_F1]
        )];
        let describe = |who: &str, place: Option<usize>| {
            place.map(|place| {
                let finding = &section.findings[place];
                let share = 100.0 * self.lift(finding.value).max(0.0);
                format!(
                    "{who}: token-F1 {:.3} ({}), {share:.0} % of the way from chance to raw.",
                    finding.value, finding.setting
                )
            })
        };
        let mut above = Vec::new();
        if readable {
            notes.extend(describe("What the server has, with no known pair", alone));
            notes.extend(describe("With known pairs of the same cell, at best", helped));
            notes.extend(describe("Of that, by the mean prefix of the pairs alone", baseline));
            if let Some(baseline) = baseline.map(value) {
                let pairs = attainable().filter(|(v, _)| v.pairs > 0 && v.name != CELL_MEAN);
                above.extend(pairs.map(|(_, place)| {
                    let finding = &section.findings[place];
                    let lift = (finding.value - baseline) / (unprotected - baseline);
                    Finding::new(NAME, &finding.setting, "lift_above_cell_mean", lift)
                        .chance(0.0)
                        .on(seed, finding.rows)
                }));
            }
        } else {
            notes.push(
                "The decoder reads not even raw vectors better than chance, so that nothing follows \
                 for protected ones: give more texts, or longer ones."
                    .into(),
            );
        }
        let settings: HashSet<String> =
            attainable().map(|(_, place)| section.findings[place].setting.clone()).collect();
        if readable {
            section.rest_on(unprotected, |f| {
                f.metric == METRICS[TOKEN_F1] && settings.contains(&f.setting)
            });
        } else {
            section.headline = Some(places[0]);
        }
        section.findings.extend(above);
        notes.push(
            "The observer is granted the basis and the mean, which a server does not have: this is \
             the stronger attacker. The decoder is linear and emits a set of words; a generative \
             one may read more (the views can be exported for it). The best view is chosen by the \
             same targets that it is judged on, and its interval is not widened for that choice."
                .into(),
        );
        section.notes.extend(notes);
    }

    fn lift(&self, f1: f64) -> f64 {
        let raw = means(std::slice::from_ref(&self.views[0].1))[TOKEN_F1];
        (f1 - self.chance[TOKEN_F1]) / (raw - self.chance[TOKEN_F1])
    }

    /// Token-F1 over known pairs by the published attacks; no pair is the unknown key.
    fn plot(&self, findings: &[Finding], places: &[usize]) -> Plot {
        let point = |at: usize| {
            let finding = &findings[places[at]];
            (self.views[at].0.pairs as f64, finding.value, finding.ci95)
        };
        let named = |name: &str| -> Vec<usize> {
            (0..self.views.len()).filter(|&at| self.views[at].0.name == name).collect()
        };
        let unknown = named(Attack::UnknownKey.name());
        let line = |attack: Attack| {
            let points = unknown.iter().chain(&named(attack.name())).map(|&at| point(at)).collect();
            Series { name: attack.name().to_owned(), points }
        };
        let attacks = [Attack::LeastSquares(0), Attack::Procrustes(0)];
        let mut series: Vec<Series> = attacks.map(line).into();
        let last = self.views.iter().map(|(view, _)| view.pairs).max().unwrap_or(0).max(1) as f64;
        let (_, raw, _) = point(0);
        for (name, level) in [("raw vectors", raw), ("chance", self.chance[TOKEN_F1])] {
            let points = vec![(0.0, level, None), (last, level, None)];
            series.push(Series { name: name.to_owned(), points });
        }
        Plot {
            name: "text-by-pairs".into(),
            title: "Words read out of stored vectors".into(),
            x_label: "known pairs in the victim's cell".into(),
            y_label: "token-F1".into(),
            logarithmic: false,
            series,
        }
    }
}

#[cfg(test)]
mod tests;
