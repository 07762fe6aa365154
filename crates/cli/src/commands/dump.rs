//! `shard dump`.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use shard::Vault;
use shard::input::{ids_to, npy_to};
use tempfile::NamedTempFile;

use crate::args::VaultArguments;
use crate::output::{Output, grouped, printable};
use crate::remote::VectorArguments;
use crate::unlock::sync_parent;

#[derive(Args)]
pub struct Dump {
    #[command(flatten)]
    vault: VaultArguments,
    #[command(flatten)]
    vectors_from: VectorArguments,
    /// File for the vectors, .npy: 16-bit floats where they lose nothing, else 32-bit floats
    #[arg(long, value_name = "FILE")]
    vectors: PathBuf,
    /// File for the ids, one per line, as `ingest --ids` reads them
    #[arg(long, value_name = "FILE")]
    ids: PathBuf,
    /// File for the records of a blind vault's documents, one per line as they were set, as `ingest
    /// --records` reads them
    #[arg(long, value_name = "FILE")]
    records: Option<PathBuf>,
    /// Overwrite files that exist
    #[arg(long)]
    force: bool,
}

pub fn run(arguments: &Dump, json: Option<&Path>) -> Result<()> {
    let output = Output::new(json);
    arguments.check()?; // before a passphrase is asked for
    let vault = arguments.vectors_from.open(&arguments.vault)?;
    vault.require_owner("be dumped")?;
    let documents = vault.documents()?;
    let (ids, vectors) = (documents.ids(), documents.vectors());

    let mut names = Partial::beside(&arguments.ids)?;
    names.write(|file| Ok(ids_to(file, ids)?))?;
    let mut array = Partial::beside(&arguments.vectors)?;
    let width = array.write(|file| Ok(npy_to(file, vectors)?))?;
    let records =
        arguments.records.as_deref().map(|path| write_records(&vault, path)).transpose()?;
    // All are whole and on disk before any has its name.
    array.finish(arguments.force)?;
    names.finish(arguments.force)?;
    let record_count = records.as_ref().map(|(count, _)| *count);
    if let Some((_, lines)) = records {
        lines.finish(arguments.force)?;
    }

    let shown = |path: &Path| printable(&path.display().to_string());
    output.line(format!(
        "{} vectors of width {} as {}-bit floats in {}, their ids in {}, in the clear",
        grouped(ids.len()),
        vectors.width(),
        width.bits(),
        shown(&arguments.vectors),
        shown(&arguments.ids),
    ))?;
    if let (Some(count), Some(path)) = (record_count, &arguments.records) {
        output.line(format!("{} records in {}, in the clear", grouped(count), shown(path)))?;
    }
    output.result(&json!({
        "records": record_count,
        "documents": ids.len(),
        "width": vectors.width(),
        "bits": width.bits(),
        "vectors": arguments.vectors,
        "ids": arguments.ids,
    }))
}

/// Writes records line by line.
fn write_records<'a>(vault: &Vault, path: &'a Path) -> Result<(usize, Partial<'a>)> {
    let records = vault.records()?;
    if let Some(long) = records.iter().find(|record| record.bytes.contains(&b'\n')) {
        bail!("the record of {} has several lines, and a line is a record", printable(&long.id));
    }
    let mut lines = Partial::beside(path)?;
    lines.write(|file| {
        records.iter().try_for_each(|record| {
            file.write_all(&record.bytes)?;
            file.write_all(b"\n")
        })?;
        Ok(())
    })?;
    Ok((records.len(), lines))
}

impl Dump {
    fn check(&self) -> Result<()> {
        let array = self.vectors.extension().is_some_and(|end| end.eq_ignore_ascii_case("npy"));
        if !array {
            bail!(
                "{}: the name must end in .npy, by which ingest knows the format",
                self.vectors.display()
            );
        }
        if whole(&self.vectors) == whole(&self.ids) {
            bail!("{}: vectors and ids need a file each", self.ids.display());
        }
        if let Some(records) = &self.records
            && [&self.vectors, &self.ids].into_iter().any(|path| whole(path) == whole(records))
        {
            bail!("{}: records need a file of their own", records.display());
        }
        let files = [&self.vectors, &self.ids].into_iter().chain(&self.records);
        let taken = files.into_iter().find(|path| path.exists());
        match taken {
            Some(path) if !self.force => {
                bail!("{} exists already; --force overwrites it", path.display())
            }
            _ => Ok(()),
        }
    }
}

/// A name that does not depend on the way to it.
fn whole(path: &Path) -> PathBuf {
    let parent = directory_of(path).canonicalize().unwrap_or_else(|_| directory_of(path).into());
    parent.join(path.file_name().unwrap_or_default())
}

fn directory_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// A file under a temporary name, for nobody else to read, which is gone unless it is finished.
struct Partial<'a> {
    path: &'a Path,
    file: NamedTempFile,
}

impl<'a> Partial<'a> {
    fn beside(path: &'a Path) -> Result<Self> {
        let file = NamedTempFile::new_in(directory_of(path));
        Ok(Self { path, file: file.with_context(|| cannot_write(path))? })
    }

    fn write<T>(&mut self, write: impl FnOnce(&mut dyn Write) -> Result<T>) -> Result<T> {
        let mut file = BufWriter::new(self.file.as_file_mut());
        let written = write(&mut file).and_then(|written| {
            file.flush()?;
            file.get_ref().sync_all()?;
            Ok(written)
        });
        written.with_context(|| cannot_write(self.path))
    }

    /// Gives the file its name; one that came meanwhile is overwritten only if `force` is set.
    fn finish(self, force: bool) -> Result<()> {
        let Self { path, file } = self;
        let named = if force { file.persist(path) } else { file.persist_noclobber(path) };
        named.map_err(|error| error.error).with_context(|| cannot_write(path))?;
        sync_parent(path).with_context(|| cannot_write(path))
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}
