//! The audit's page in a real browser, headless: it renders, the summary comes first and is seen whole,
//! every plot has data, and nothing sticks out, on a phone and on a desk. Pictures of both are left in the
//! directory for temporary files of cargo's tests, to be looked at.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use shard_audit::finding::{Finding, Plot, Section, Series, Verdict};
use shard_audit::report::{Kind, Metadata, Report, page};

/// Width of a phone, in CSS pixels.
const PHONE: usize = 390;

/// Width of a desk.
const DESK: usize = 1280;

/// A report with all that can be wide: long titles, names, settings and tables.
fn report() -> Report {
    let series = |name: &str, scale: f64| Series {
        name: name.into(),
        points: [0.0, 1.0, 8.0, 64.0, 512.0, 4096.0, 32_768.0]
            .iter()
            .enumerate()
            .map(|(at, &x)| {
                let y = scale * at as f64 / 6.0;
                (x, y, Some([0.9 * y, (1.1 * y).min(1.0)]))
            })
            .collect(),
    };
    let names = ["ols, C = 64", "span matching of the gallery, C = 256", "procrustes", "norm"];
    let section = |name: &str, title: &str, verdict, plots: usize| {
        let mut section = Section::new(name, title);
        let plot = |at: usize| Plot {
            name: format!("plot-{at}"),
            title: "Recovery of residuals by the number of known pairs and of cells".into(),
            x_label: "known pairs in all".into(),
            y_label: "recall at 1".into(),
            logarithmic: at == 0,
            series: names.iter().zip([1.0, 0.9, 0.5, 0.02]).map(|(n, s)| series(n, s)).collect(),
        };
        section.plots = (0..plots).map(plot).collect();
        section.verdict = verdict;
        section.findings = (0..40)
            .map(|at| {
                let setting =
                    format!("disclosure=targeted,attack=procrustes-dropped,cells=256,pairs={at}");
                let value = f64::from(at) / 40.0;
                let finding = Finding::new(name, setting, "recall_at_1", value).chance(0.0001);
                finding.ci95([value - 0.01, value + 0.01]).paper(0.5).on(2026, 10_000)
            })
            .collect();
        section.headline = Some(39);
        section.notes = vec![
            "An attacker who knows some documents of a cell finds the others of that cell in a \
             gallery. A_word_that_cannot_be_broken_because_it_has_no_space_and_goes_on_and_on."
                .into(),
        ];
        section
    };
    Report {
        metadata: Metadata {
            kind: Kind::Cells,
            subject: "the vault /somewhere/deep/in/a/directory/with/a/long/name".into(),
            date: "2026-01-02".into(),
            version: "0.1.0".into(),
            seed: 2026,
            documents: 100_000,
            rows: 10_000,
            width: 384,
            stored_width: 288,
            cells: 256,
            queries: 300,
            notes: vec!["The attacks were run on 10,000 of 100,000 documents.".into()],
        },
        sections: vec![
            section(
                "partial-alignment",
                "Known pairs against the keys of cells",
                Some(Verdict::Open),
                2,
            ),
            section(
                "release-linkage",
                "Recognising rows after a change of keys",
                Some(Verdict::Reduced),
                1,
            ),
            section(
                "unsupervised-alignment",
                "Alignment without known pairs",
                Some(Verdict::Closed),
                0,
            ),
            section("text-inversion", "Words read out of stored vectors", None, 0),
        ],
    }
}

fn chromium() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&paths)
        .flat_map(|path| names.map(|name| path.join(name)))
        .find(|path| path.is_file())
}

/// Height of the window, enough for the summary.
const HEIGHT: usize = 2600;

/// The narrowest window that browsers make; the frame within may be narrower.
const NARROWEST: usize = 500;

/// Width and height in the head of a PNG.
fn size_of_png(bytes: &[u8]) -> (usize, usize) {
    assert!(bytes.starts_with(b"\x89PNG"), "no PNG");
    let number =
        |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
    (number(16), number(20))
}

/// What a browser makes of the page in a frame of some width, all details open; and a picture of it. The
/// page itself has no script: the one that measures is in the page around it.
fn rendered(page: &str, width: usize) -> Option<Value> {
    let Some(chromium) = chromium() else {
        assert!(std::env::var_os("CI").is_none(), "no chromium, and CI needs one");
        eprintln!("skipped: no chromium on the path");
        return None;
    };
    let frame = page.replace('&', "&amp;").replace('"', "&quot;");
    let wrapper = format!(
        r#"<!DOCTYPE html><meta charset="utf-8"><body style="margin:0">
<iframe id="frame" width="{width}" height="{HEIGHT}" style="border:0" srcdoc="{frame}"></iframe>
<pre id="result"></pre>
<script>
document.getElementById("frame").onload = event => {{
  const inner = event.target.contentDocument;
  inner.querySelectorAll("details").forEach(details => details.open = true);
  const outside = [...inner.querySelectorAll("body *")].filter(element =>
    !element.closest(".box table, thead") && element.getBoundingClientRect().right > {width} + 0.5);
  const letters = [...inner.querySelectorAll("svg text")].map(text => {{
    const svg = text.closest("svg");
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    return parseFloat(inner.defaultView.getComputedStyle(text).fontSize) * scale;
  }});
  const cut = [...inner.querySelectorAll("svg")].flatMap(svg =>
    [...svg.querySelectorAll("text")].filter(text => {{
      const box = text.getBBox();
      return box.x < 0 || box.x + box.width > svg.viewBox.baseVal.width;
    }}).map(text => text.textContent));
  // What is drawn over the middle of a row is the row itself: nothing hides it or lies on it.
  const isSeen = row => {{
    const box = row.getBoundingClientRect();
    const top = inner.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
    return box.height > 20 && row.contains(top);
  }};
  const front = inner.querySelector("main > :first-child");
  const rows = [...front.querySelectorAll("tbody tr")];
  document.getElementById("result").textContent = JSON.stringify({{
    scroll: inner.documentElement.scrollWidth,
    outside: outside.map(element => element.tagName + "." + element.className),
    plots: [...inner.querySelectorAll("svg")].map(svg => svg.querySelectorAll(".marker").length),
    smallest: Math.min(...letters),
    cut,
    heading: inner.querySelector("h1").innerText,
    front: [...front.querySelectorAll("h2")].map(heading => heading.innerText),
    rows: rows.map(row => row.querySelector("th").innerText),
    seen: rows.filter(isSeen).length,
    narrow: rows.flatMap(row => [...row.querySelectorAll("td")].filter(cell =>
      cell.getBoundingClientRect().width < 0.9 * row.getBoundingClientRect().width)).length,
    columns: new Set(rows.map(row => row.querySelector("td").getBoundingClientRect().left)).size,
  }});
}};
</script>"#
    );
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("wrapper.html");
    std::fs::write(&path, wrapper).expect("the directory is writable");
    let run = |flags: &[String]| {
        Command::new(&chromium)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--hide-scrollbars", "--virtual-time-budget=10000"])
            .arg(format!("--user-data-dir={}", directory.path().join("profile").display()))
            .arg(format!("--window-size={},{HEIGHT}", width.max(NARROWEST)))
            .args(flags)
            .arg(format!("file://{}", path.display()))
            .output()
            .expect("chromium starts")
    };
    let picture =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("audit-page-{width}.png"));
    run(&[format!("--screenshot={}", picture.display())]);
    let size = size_of_png(&std::fs::read(&picture).expect("a picture was taken"));
    assert_eq!(size, (width.max(NARROWEST), HEIGHT));
    let output = run(&["--dump-dom".to_owned()]);
    let dom = String::from_utf8_lossy(&output.stdout);
    let result =
        dom.split("<pre id=\"result\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let result = result.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let result = result.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    Some(serde_json::from_str(&result).unwrap_or_else(|error| panic!("{error}: {result:?}")))
}

#[test]
fn the_page_fits_a_phone_and_a_desk() {
    for width in [PHONE, DESK] {
        let Some(found) = rendered(&page::html(&report()), width) else { return };
        assert_eq!(found["heading"], "What a thief of this index would learn");
        // The summary comes first, every channel has a row in it, and every row can be seen.
        assert_eq!(found["front"], json!(["What stayed hidden", "What the attacks found"]));
        let rows = [
            "Known pairs against the keys of cells",
            "Recognising rows after a change of keys",
            "Alignment without known pairs",
            "Words read out of stored vectors",
        ];
        assert_eq!((&found["rows"], &found["seen"]), (&json!(rows), &json!(rows.len())), "{found}");
        assert_eq!(found["columns"], 1, "rows are not aligned");
        // Cells stand below each other on a phone, and beside each other on a desk.
        assert_eq!(found["narrow"] == 0, width == PHONE, "{found}");
        assert_eq!(found["plots"], json!([28, 28, 28]));
        assert!(found["scroll"].as_u64().is_some_and(|scroll| scroll <= width as u64), "{found}");
        assert_eq!(found["outside"], json!([]), "sticks out at {width}");
        assert_eq!(found["cut"], json!([]), "text outside its plot");
        assert!(found["smallest"].as_f64().is_some_and(|size| size >= 11.0), "{found}");
    }
}
