//! How a vault's documents have moved away from its model, for people and programs.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};
use shard::{Balance, Figures, ModelDrift};

use crate::output::{self, Output, grouped, printable};

/// Says what makes a refit due, if anything does, and how to do it.
pub fn say_when_due(output: &Output<'_>, drift: &ModelDrift, vault: &Path) -> Result<()> {
    let reasons = drift.refit_due();
    for reason in &reasons {
        output.line(format!("refit due: {reason}"))?;
    }
    if !reasons.is_empty() {
        let vault = printable(&vault.display().to_string());
        output.line(format!("next: shard refit {vault}"))?;
    }
    Ok(())
}

/// The reasons for a refit, for a program.
pub fn reasons(drift: &ModelDrift) -> Vec<String> {
    drift.refit_due().iter().map(ToString::to_string).collect()
}

/// The figures of the fit beside those of now, for a program.
pub fn report(drift: &ModelDrift) -> Value {
    json!({
        "since_fit": drift.late(),
        "since_recall": drift.changes(),
        "fitted": drift.fitted(),
        "now": drift.now(),
    })
}

/// The figures of the fit beside those of now, for a person.
pub fn table(drift: &ModelDrift) -> String {
    let (fitted, now) = (drift.fitted(), drift.now());
    let percent = |part: f64| format!("{:.2} %", 100.0 * part);
    let row = |name: &str, figure: &dyn Fn(&Figures) -> String| {
        vec![name.to_owned(), figure(fitted), figure(now)]
    };
    let of_cells = |figures: &Figures, figure: &dyn Fn(Balance) -> String| {
        figures.cells.map_or("-".to_owned(), figure)
    };
    let rows = [
        row("true top 10 in the shortlist", &|figures| percent(figures.recall)),
        row("energy outside the prefix", &|figures| percent(figures.outside_prefix)),
        row("energy outside the basis", &|figures| percent(figures.outside_basis)),
        row("largest cell, of the mean", &|figures| {
            of_cells(figures, &|cells| format!("{:.2}", cells.imbalance))
        }),
        row("cells in effect", &|figures| of_cells(figures, &|cells| percent(cells.effective))),
    ];
    let table = output::table(&["", "at the fit", "now"], &rows);
    let (late, ago) = (grouped(drift.late()), grouped(drift.changes()));
    format!(
        "since fit    {late} documents came or changed\n\
         top 10       measured {ago} changes ago\n{table}"
    )
}
