use super::*;

/// The value of a metric in the first geometry.
fn value(findings: &[Finding], view: &str, pairs: usize, metric: &str) -> f64 {
    let of = |f: &&Finding| {
        f.setting.contains("cells=16,")
            && f.setting.ends_with(&format!("view={view},pairs={pairs}"))
            && f.metric == metric
    };
    findings.iter().find(of).expect("a finding").value
}

#[test]
fn views_that_know_more_read_more_and_the_exact_key_reads_all() {
    let texts = notes(1600, 3);
    let words: Vec<Words> = texts.iter().map(|text| pieces(text)).collect();
    let values = encode(&words, 32, 3).values().iter().map(|&x| x as f32).collect();
    let vectors = VectorSet::new(32, values).expect("finite vectors");
    let corpus = Corpus {
        name: "notes".into(),
        encoder: "stand-in".into(),
        ids: Vec::new(),
        texts: Some(texts),
        queries: vectors.clone(),
        vectors,
        query_ids: Vec::new(),
        qrels: Default::default(),
    };
    let findings = read_corpus(&corpus).expect("findings");

    let f1 = |view, pairs| value(&findings, view, pairs, "token_f1");
    assert!((f1("exact-key", 0) - f1("raw", 0)).abs() < 1e-9);
    assert!((value(&findings, "raw", 0, "cosine") - 1.0).abs() < 1e-9);
    assert!(f1("raw", 0) > f1("prefix-only", 0) + 0.02);
    assert!(f1("ols", 32) > f1("raw", 0) - 0.02 && f1("ols", 32) > f1("unknown-key", 0) + 0.02);
    assert!(findings.iter().all(|f| f.chance.is_some() && f.ci95.is_some() && f.rows > 0));
}

#[test]
fn planted_identifiers_are_read_out_of_raw_vectors_and_not_through_an_unknown_key() {
    let findings = read_records().expect("findings");
    for metric in SECRETS {
        let recall = |view, pairs| value(&findings, view, pairs, metric);
        assert!(recall("raw", 0) > 0.95 && recall("unknown-key", 0) < 0.1, "{metric}");
    }
}

#[test]
fn the_paper_has_figures_for_its_own_views_only() {
    let grid: Vec<(&str, usize)> = Attack::grid().iter().map(|a| (a.name(), a.pairs())).collect();
    let controls = ["raw", "exact-key"];
    assert!(PAPER.iter().all(|row| controls.contains(&row.0) || grid.contains(&(row.0, row.1))));
}
