//! How fast an encoder is: `throughput LOCATION TEXTS.jsonl[.gz] [--vectors FILE]`.
//!
//! Each line of TEXTS is an object; its text is `title`, a space and `text`, as far as they are there. Prints JSON:
//! texts, tokens before any text is cut (of an endpoint, words), the CPU seconds of the process and the seconds on the clock while it encoded.
//! `--vectors` writes the vectors, 32-bit floats in little endian, row after row.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use cpu_time::ProcessTime;
use flate2::read::MultiGzDecoder;
use shard_encode::{Encoder, Location, Purpose};

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: throughput LOCATION TEXTS.jsonl[.gz] [--vectors FILE]";
    let mut arguments = std::env::args().skip(1);
    let location: Location = arguments.next().ok_or(usage)?.parse()?;
    let file = PathBuf::from(arguments.next().ok_or(usage)?);
    let vectors = match arguments.next().as_deref() {
        None => None,
        Some("--vectors") => Some(arguments.next().ok_or(usage)?),
        Some(_) => return Err(usage.into()),
    };

    let texts = read(&file)?;
    let encoder = Encoder::open(&location)?;
    let mut tokens = 0;
    for text in &texts {
        tokens += encoder.pieces(text, 1, 0)?.len();
    }
    let (cpu, wall) = (ProcessTime::now(), Instant::now());
    let rows = encoder.encode(&texts, Purpose::Passage, &|_, _| ControlFlow::Continue(()))?;
    let (cpu, wall) = (cpu.elapsed().as_secs_f64(), wall.elapsed().as_secs_f64());
    if let Some(file) = vectors {
        let bytes: Vec<u8> = rows.iter().flat_map(|value| value.to_le_bytes()).collect();
        std::fs::write(file, bytes)?;
    }
    let report = serde_json::json!({
        "identity": encoder.identity(),
        "dimension": encoder.dimension(),
        "texts": texts.len(),
        "tokens": tokens,
        "cpu_s": (cpu * 1000.0).round() / 1000.0,
        "wall_s": (wall * 1000.0).round() / 1000.0,
    });
    println!("{report}");
    Ok(())
}

fn read(path: &PathBuf) -> Result<Vec<String>, Box<dyn Error>> {
    let file = File::open(path)?;
    let gzip = path.extension().is_some_and(|ending| ending == "gz");
    let reader: Box<dyn Read> =
        if gzip { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    let mut texts = Vec::new();
    for line in BufReader::new(reader).lines() {
        let document: serde_json::Value = serde_json::from_str(&line?)?;
        let parts = ["title", "text"].map(|field| document[field].as_str().unwrap_or(""));
        texts.push(parts.join(" ").trim().to_owned());
    }
    Ok(texts)
}
