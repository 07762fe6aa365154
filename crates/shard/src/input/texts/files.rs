//! Markdown and plain text: a file is a document, and a folder has one for every such file.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::document::TextDocument;
use super::{Skipped, Texts};
use crate::input::error::{InputError, InputProblem};
use crate::input::lines::BYTE_ORDER_MARK;
use crate::input::{Format, open};

/// Longest text that is read.
const LONGEST: u64 = 1 << 30;

/// Folders inside each other at most.
const DEEPEST: usize = 64;

/// Reads a file as one document, called by the file's name.
pub(super) fn read_file(path: &Path) -> Result<TextDocument, InputError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let document = read(path, name)?;
    if document.text.trim().is_empty() {
        return Err(InputProblem::EmptyText.into());
    }
    Ok(document)
}

/// Reads all texts of a folder and of those inside it, by the order of their names.
pub(super) fn read_folder(folder: &Path) -> Result<Texts, InputError> {
    let mut texts = Texts::default();
    let mut found = Vec::new();
    walk(folder, "", 0, &mut found, &mut texts.skipped)?;
    found.sort();
    for (id, path) in found {
        let document = read(&path, id).map_err(|error| error.in_file(&path))?;
        if document.text.trim().is_empty() {
            texts.skipped.empty += 1;
        } else {
            texts.documents.push(document);
        }
    }
    Ok(texts)
}

/// Finds the texts of a folder, with the names that they have from where it began.
fn walk(
    folder: &Path,
    before: &str,
    depth: usize,
    found: &mut Vec<(String, PathBuf)>,
    skipped: &mut Skipped,
) -> Result<(), InputError> {
    let in_folder = |error: std::io::Error| InputError::from(error).in_file(folder);
    if depth > DEEPEST {
        let words = format!("folders lie more than {DEEPEST} deep inside each other");
        return Err(InputError::from(InputProblem::Malformed(words)).in_file(folder));
    }
    for entry in fs::read_dir(folder).map_err(in_folder)? {
        let entry = entry.map_err(in_folder)?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(in_folder)?);
        let name = entry.file_name().to_string_lossy().into_owned();
        let id = format!("{before}{name}");
        if name.starts_with('.') {
            skipped.hidden += 1;
        } else if kind.is_symlink() {
            skipped.links += 1;
        } else if kind.is_dir() {
            walk(&path, &format!("{id}/"), depth + 1, found, skipped)?;
        } else if matches!(Format::of(&path), Ok(Format::Markdown | Format::Plain)) {
            found.push((id, path));
        } else {
            let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
            *skipped.endings.entry(ending).or_default() += 1;
        }
    }
    Ok(())
}

fn read(path: &Path, id: String) -> Result<TextDocument, InputError> {
    let mut bytes = Vec::new();
    open(path)?.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        let words = format!("it is longer than {LONGEST} bytes: cut it into several files");
        return Err(InputProblem::Malformed(words).into());
    }
    if bytes.contains(&0) {
        return Err(InputProblem::Binary.into());
    }
    let text = String::from_utf8(bytes)
        .map_err(|error| InputProblem::NotUtf8(Some(error.utf8_error().valid_up_to())))?;
    let text = match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) => rest.to_owned(),
        None => text,
    };
    let is_markdown = Format::of(path).is_ok_and(|format| format == Format::Markdown);
    let title = if is_markdown { heading(&text) } else { None };
    Ok(TextDocument { id, title, text, ..TextDocument::default() })
}

/// The first heading of a Markdown text, outside of code and of what stands between `---` at the top.
fn heading(text: &str) -> Option<String> {
    let mut lines = text.lines().peekable();
    if lines.peek().is_some_and(|line| line.trim_end() == "---") {
        lines.next();
        lines.find(|line| matches!(line.trim_end(), "---" | "..."));
    }
    let mut fence: Option<&str> = None;
    while let Some(line) = lines.next() {
        let line = line.trim();
        match fence {
            Some(mark) => {
                if line.starts_with(mark) {
                    fence = None;
                }
                continue;
            }
            None => fence = ["```", "~~~"].into_iter().find(|mark| line.starts_with(mark)),
        }
        let rest = line.trim_start_matches('#');
        let level = line.len() - rest.len();
        if (1..=6).contains(&level) && rest.starts_with([' ', '\t']) {
            let title = rest.trim().trim_end_matches('#').trim();
            if !title.is_empty() {
                return Some(title.to_owned());
            }
        }
        let is_underlined = |next: &&str| {
            let next = next.trim_end();
            !next.is_empty() && next.bytes().all(|byte| byte == b'=')
        };
        if !line.is_empty() && lines.peek().is_some_and(is_underlined) {
            return Some(line.to_owned());
        }
    }
    None
}
