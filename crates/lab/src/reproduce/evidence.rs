//! Figures of tables that were made before, from their files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::tables::TABLES;

/// A figure as a file has it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Figure {
    pub setting: String,
    pub metric: String,
    /// No number where there was none to write.
    pub value: Option<f64>,
    pub ci95: Option<[f64; 2]>,
    pub chance: Option<f64>,
    pub rows: usize,
}

impl Figure {
    /// The value of a key of the setting: `cells` of `attack=ols,cells=64`.
    pub fn key(&self, name: &str) -> Option<&str> {
        self.setting.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
    }

    /// A key's value that is a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.key(name)?.parse().ok()
    }
}

#[derive(Deserialize)]
struct Document {
    findings: Vec<Figure>,
}

/// All figures at hand, by table.
#[derive(Default)]
pub struct Evidence {
    tables: BTreeMap<String, Vec<Figure>>,
}

impl Evidence {
    /// Reads the files of a directory; a table whose file is not there has no figures.
    pub fn read(directory: &Path) -> Result<Self> {
        let mut evidence = Self::default();
        for (table, _) in TABLES {
            let path = directory.join(table).with_extension("json");
            if !path.is_file() {
                continue;
            }
            let read =
                || -> Result<Document> { Ok(serde_json::from_str(&fs::read_to_string(&path)?)?) };
            let document = read().with_context(|| path.display().to_string())?;
            evidence.tables.insert((*table).to_owned(), document.findings);
        }
        Ok(evidence)
    }

    /// Rows of the largest collection that any figure was measured on.
    pub fn rows(&self) -> usize {
        self.tables.values().flatten().map(|figure| figure.rows).max().unwrap_or(0)
    }

    /// Figures of a table with this metric and all of these settings: `key=value`.
    pub fn figures<'a>(
        &'a self,
        table: &str,
        metric: &'a str,
        settings: &'a [&'a str],
    ) -> impl Iterator<Item = (&'a Figure, f64)> {
        let figures = self.tables.get(table).map_or(&[][..], Vec::as_slice).iter();
        figures.filter_map(move |figure| {
            let parts: Vec<&str> = figure.setting.split(',').collect();
            let matches = figure.metric == metric && settings.iter().all(|s| parts.contains(s));
            matches.then_some((figure, figure.value?))
        })
    }

    /// The largest of such figures.
    pub fn most(&self, table: &str, metric: &str, settings: &[&str]) -> Option<f64> {
        self.figures(table, metric, settings).map(|(_, value)| value).max_by(f64::total_cmp)
    }

    /// The least of such figures.
    pub fn least(&self, table: &str, metric: &str, settings: &[&str]) -> Option<f64> {
        self.figures(table, metric, settings).map(|(_, value)| value).min_by(f64::total_cmp)
    }

    #[cfg(test)]
    pub fn of(figures: &[(&str, &str, &str, f64)]) -> Self {
        let mut evidence = Self::default();
        for &(table, setting, metric, value) in figures {
            evidence.add(table, setting, metric, value, None);
        }
        evidence
    }

    #[cfg(test)]
    pub fn add(
        &mut self,
        table: &str,
        setting: &str,
        metric: &str,
        value: f64,
        ci95: Option<[f64; 2]>,
    ) {
        let figure = Figure {
            setting: setting.to_owned(),
            metric: metric.to_owned(),
            value: Some(value),
            ci95,
            chance: None,
            rows: 0,
        };
        self.tables.entry(table.to_owned()).or_default().push(figure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_whole_settings() {
        let evidence = Evidence::of(&[
            ("alignment", "attack=ols,cells=6", "recall_at_1", 0.1),
            ("alignment", "attack=ols,cells=64", "recall_at_1", 0.9),
            ("alignment", "attack=ols,cells=64", "cosine", 0.5),
        ]);
        assert_eq!(evidence.most("alignment", "recall_at_1", &["cells=6"]), Some(0.1));
        assert_eq!(evidence.least("alignment", "recall_at_1", &["attack=ols"]), Some(0.1));
        assert_eq!(evidence.most("alignment", "recall_at_1", &["cells=16"]), None);
        assert_eq!(evidence.most("linkage", "recall_at_1", &[]), None);
        let (figure, _) = evidence.figures("alignment", "cosine", &[]).next().unwrap();
        assert_eq!((figure.key("attack"), figure.number("cells")), (Some("ols"), Some(64.0)));
        assert_eq!(figure.key("cell"), None);
    }
}
