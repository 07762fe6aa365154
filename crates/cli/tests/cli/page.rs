//! The audit's page in a real browser, headless: it renders, every plot has data, and nothing
//! sticks out on a phone.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use shard_audit::finding::{Finding, Plot, Section, Series, Verdict};
use shard_audit::report::{Metadata, Report, page};

/// Width of a phone, in CSS pixels.
const PHONE: usize = 390;

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
                let setting = format!(
                    "disclosure=targeted,attack=procrustes-dropped,cells=256,in_cell_pairs={at}"
                );
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
            section("pairs", "Known pairs against the keys of cells", Some(Verdict::Open), 2),
            section(
                "linkage",
                "Recognising rows after a change of keys",
                Some(Verdict::Reduced),
                1,
            ),
            section("unsupervised", "Alignment without known pairs", Some(Verdict::Closed), 0),
            section("text", "Words read out of stored vectors", None, 0),
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

/// What a browser makes of the page in a frame of some width, all details open. The page itself
/// has no script: the one that measures is in the page around it.
fn rendered(page: &str, width: usize) -> Option<Value> {
    let Some(chromium) = chromium() else {
        assert!(std::env::var_os("CI").is_none(), "no chromium, and CI needs one");
        eprintln!("skipped: no chromium on the path");
        return None;
    };
    let frame = page.replace('&', "&amp;").replace('"', "&quot;");
    let wrapper = format!(
        r#"<!DOCTYPE html><meta charset="utf-8"><body>
<iframe id="frame" width="{width}" height="900" style="border:0" srcdoc="{frame}"></iframe>
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
  document.getElementById("result").textContent = JSON.stringify({{
    scroll: inner.documentElement.scrollWidth,
    outside: outside.map(element => element.tagName + "." + element.className),
    plots: [...inner.querySelectorAll("svg")].map(svg => svg.querySelectorAll(".marker").length),
    smallest: Math.min(...letters),
    cut,
    heading: inner.querySelector("h1").innerText,
    rows: inner.querySelectorAll(".summary tbody tr").length,
  }});
}};
</script>"#
    );
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("wrapper.html");
    std::fs::write(&path, wrapper).expect("the directory is writable");
    let output = Command::new(chromium)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--hide-scrollbars", "--window-size=1400,1000", "--virtual-time-budget=10000"])
        .arg(format!("--user-data-dir={}", directory.path().join("profile").display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", path.display()))
        .output()
        .expect("chromium starts");
    let dom = String::from_utf8_lossy(&output.stdout);
    let result =
        dom.split("<pre id=\"result\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let result = result.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let result = result.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    Some(serde_json::from_str(&result).unwrap_or_else(|error| panic!("{error}: {result:?}")))
}

#[test]
fn the_page_fits_a_phone_and_every_plot_has_data() {
    let Some(found) = rendered(&page::html(&report()), PHONE) else { return };
    assert_eq!(found["heading"], "What a thief of this index would learn");
    assert_eq!(found["rows"], 4);
    assert_eq!(found["plots"], serde_json::json!([28, 28, 28]));
    assert_eq!(found["scroll"].as_u64(), Some(PHONE as u64), "{found}");
    assert_eq!(found["outside"], serde_json::json!([]), "sticks out");
    assert_eq!(found["cut"], serde_json::json!([]), "text outside its plot");
    assert!(found["smallest"].as_f64().is_some_and(|size| size >= 11.0), "{found}");
}

#[test]
fn the_page_fits_a_desk() {
    let Some(found) = rendered(&page::html(&report()), 1200) else { return };
    assert_eq!(found["scroll"], 1200);
    assert_eq!(found["outside"], serde_json::json!([]));
}
