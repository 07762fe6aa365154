use super::*;

fn plot(series: Vec<Series>) -> Plot {
    Plot {
        name: "recovery".into(),
        title: "Recovery by <known> pairs & \"cells\"".into(),
        x_label: "pairs".into(),
        y_label: "R@1".into(),
        logarithmic: true,
        series,
    }
}

fn series(name: &str, points: &[(f64, f64)], interval: bool) -> Series {
    let point = |&(x, y): &(f64, f64)| (x, y, interval.then_some([y - 0.1, y + 0.1]));
    Series { name: name.into(), points: points.iter().map(point).collect() }
}

fn count(svg: &str, what: &str) -> usize {
    svg.matches(what).count()
}

#[test]
fn every_point_has_a_marker_and_every_line_its_own_look() {
    let points = [(0.0, 0.1), (8.0, 0.5), (64.0, 0.9)];
    let drawn = svg(&plot(vec![series("ols", &points, true), series("ridge", &points, false)]));
    assert_eq!(count(&drawn, "class=\"marker"), 6);
    assert_eq!(count(&drawn, "class=\"band\""), 1);
    assert_eq!(count(&drawn, "class=\"series s0\"") + count(&drawn, "class=\"series s1\""), 2);
    assert!(drawn.contains("stroke-dasharray=\"7 4\""), "{drawn}");
}

#[test]
fn text_is_escaped() {
    let drawn = svg(&plot(vec![series("</svg><script>", &[(1.0, 0.5)], false)]));
    assert!(drawn.contains("Recovery by &lt;known&gt; pairs &amp; &quot;cells&quot;"), "{drawn}");
    assert!(!drawn.contains("<script") && count(&drawn, "</svg>") == 1);
}

#[test]
fn points_without_a_place_are_left_out() {
    let points = [(f64::NAN, 0.1), (-1.0, 0.5), (4.0, f64::INFINITY), (8.0, 0.5)];
    let drawn = svg(&plot(vec![series("ols", &points, false)]));
    assert_eq!(count(&drawn, "class=\"marker"), 1);
    assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
}

#[test]
fn a_plot_of_nothing_is_still_a_picture() {
    let drawn = svg(&plot(Vec::new()));
    assert!(drawn.ends_with("</svg>") && !drawn.contains("NaN"), "{drawn}");
}

#[test]
fn a_lone_interval_is_a_bar() {
    let drawn = svg(&plot(vec![series("ols", &[(8.0, 0.5)], true)]));
    assert_eq!((count(&drawn, "class=\"bar\""), count(&drawn, "class=\"band\"")), (1, 0));
}

#[test]
fn long_titles_and_legends_take_more_lines_and_stay_inside() {
    assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
    assert_eq!(wrapped("", 7), [""]);
    let name = "a rather long name for a line in a legend";
    let many: Vec<Series> = (0..8).map(|_| series(name, &[(1.0, 0.5)], false)).collect();
    assert_eq!(count(&legend(&many).text, name), 8);
    assert!(legend(&many).height > 8.0 * LINE, "one row for each");
}
