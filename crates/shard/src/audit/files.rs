//! What an audit leaves behind: the report, its plots, and the attacker's vectors.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use shard_audit::finding::Section;
use shard_audit::report::{Report, json, page, plot};
use shard_audit::text;
use shard_geometry::VectorSet;

use super::Audited;
use crate::Error;
use crate::input::write_npy;

/// Leaves `audit.json`, `audit.html` and `plots/` in a directory, which is made if need be.
///
/// # Errors
/// When a file cannot be written.
pub fn write_report(report: &Report, directory: &Path) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(&json::report(report)).map_err(Error::audit)?;
    write(&directory.join("audit.json"), &format!("{text}\n"))?;
    write(&directory.join("audit.html"), &page::html(report))?;
    write_plots(&report.sections, &directory.join("plots"))
}

/// Leaves every plot of some sections in a directory, which is made if need be.
///
/// # Errors
/// When a file cannot be written.
pub fn write_plots(sections: &[Section], directory: &Path) -> Result<(), Error> {
    for section in sections {
        for picture in &section.plots {
            let name = if picture.name.starts_with(&section.name) {
                picture.name.clone()
            } else {
                format!("{}-{}", section.name, picture.name)
            };
            write(&directory.join(name).with_extension("svg"), &plot::svg(picture))?;
        }
    }
    Ok(())
}

impl Audited {
    /// Writes the attacker's vectors as `.npy`, for other programs to invert; and beside
    /// `documents.npy`, which has places, the ids of the documents as `documents.json`.
    ///
    /// # Errors
    /// When the views cannot be made or a file cannot be written.
    pub fn export_views(&self, directory: &Path) -> Result<(), Error> {
        let views = text::export_views(self.subject.rows()).map_err(Error::audit)?;
        fs::create_dir_all(directory).map_err(Error::cannot_write(directory))?;
        for (name, rows) in views {
            if name == "documents" {
                let ids: Vec<&str> =
                    rows.values().iter().map(|&at| self.ids[at as usize].as_str()).collect();
                let ids = serde_json::to_string(&ids).map_err(Error::audit)?;
                write(&directory.join("documents.json"), &ids)?;
            }
            let values = rows.values().iter().map(|&x| x as f32).collect();
            let vectors = VectorSet::new(rows.width(), values)?;
            write_npy(&directory.join(name).with_extension("npy"), &vectors)?;
        }
        Ok(())
    }
}

/// Writes a file and the directories above it.
fn write(path: &Path, text: &str) -> Result<(), Error> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(path, text)).map_err(Error::cannot_write(path))
}

/// The date in UTC, as `2026-01-31`.
pub fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date(since.as_secs() / 86_400)
}

/// The date a number of days after 1 January 1970, counted from 1 March of the year 0 so that
/// the leap day is the last of a year (H. Hinnant's `civil_from_days`).
fn date(days: u64) -> String {
    const ERA: u64 = 146_097; // days in 400 years
    let days = days + 719_468;
    let of_era = days % ERA;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = 400 * (days / ERA) + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let cases = [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (20_453, "2025-12-31"),
            (20_454, "2026-01-01"),
        ];
        cases.iter().for_each(|(days, expected)| assert_eq!(date(*days), *expected));
    }
}
