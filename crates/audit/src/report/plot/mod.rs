//! Plots as SVG: lines with markers over one axis, with bands where there are intervals.
//!
//! A picture stands alone as a file and inside a page, in light and dark, and in print: colours
//! are CSS variables that follow the reader's scheme, and every line has a dash pattern and a
//! marker of its own. Lengths are units of a view box 420 wide; text is 14 of them high, so
//! that it is above 11 pixels when the picture is 330 pixels wide.

mod axis;

use std::fmt::Write;

use axis::Axis;

use crate::finding::{Plot, Series};

/// Width of the view box.
const WIDTH: f64 = 420.0;
/// Height of the area with the lines.
const BODY: f64 = 220.0;
/// Its left and right ends.
const LEFT: f64 = 52.0;
const RIGHT: f64 = WIDTH - 20.0;
/// Height of a line of text.
const LINE: f64 = 20.0;
/// Letters of a title that fit in a line, and the mean width of a letter, with the widest of common fonts.
const TITLE_LETTERS: usize = 42;
const LETTER: f64 = 8.2;

const STYLE: &str = include_str!("style.css");

/// Dash patterns and markers, in turn; a line that comes ninth looks like the first.
const LOOKS: [(&str, Marker); 8] = [
    ("", Marker::Disc),
    ("7 4", Marker::Square),
    ("2 3", Marker::Diamond),
    ("10 3 2 3", Marker::Up),
    ("12 5", Marker::Down),
    ("5 2", Marker::Cross),
    ("1 4", Marker::Plus),
    ("9 2 2 2 2 2", Marker::Ring),
];

#[derive(Clone, Copy)]
enum Marker {
    Disc,
    Square,
    Diamond,
    Up,
    Down,
    Cross,
    Plus,
    Ring,
}

impl Marker {
    /// Its outline around the origin.
    fn path(self) -> &'static str {
        match self {
            Self::Disc | Self::Ring => "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
            Self::Square => "m-3.6-3.6h7.2v7.2h-7.2z",
            Self::Diamond => "m0-5l5 5-5 5-5-5z",
            Self::Up => "m0-5l4.8 8.6h-9.6z",
            Self::Down => "m0 5l4.8-8.6h-9.6z",
            Self::Cross => "m-3.8-3.8l7.6 7.6m0-7.6l-7.6 7.6",
            Self::Plus => "m-4.8 0h9.6m-4.8-4.8v9.6",
        }
    }

    fn is_filled(self) -> bool {
        !matches!(self, Self::Cross | Self::Plus | Self::Ring)
    }
}

/// The picture of a plot. Points that cannot be drawn (no number, or below zero on a logarithmic
/// axis) are left out.
pub fn svg(plot: &Plot) -> String {
    let series: Vec<Series> = plot.series.iter().map(|s| drawable(s, plot.logarithmic)).collect();
    let points = || series.iter().flat_map(|s| &s.points);
    let across = Axis::new(points().map(|p| p.0), plot.logarithmic, LEFT..RIGHT);
    let heights = points().flat_map(|p| [Some(p.1), p.2.map(|i| i[0]), p.2.map(|i| i[1])]);
    let title = wrapped(&plot.title, TITLE_LETTERS);
    // Title, then the name of the vertical axis, then the lines.
    let top = LINE * (title.len() as f64 + 1.0) + 14.0;
    let bottom = top + BODY;
    let upward = Axis::from_zero(heights.flatten(), bottom..top);
    let legend = legend(&series);
    let height = bottom + 3.0 * LINE + legend.height;

    let mut out = String::new();
    let label = escaped(&plot.title);
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"shard-plot\" role=\"img\" \
         aria-label=\"{label}\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\"><title>{label}</title><style>{STYLE}</style>\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>"
    );
    for (at, line) in title.iter().enumerate() {
        text(&mut out, "title", (8.0, LINE * (at as f64 + 1.0)), "start", line);
    }
    text(&mut out, "name", (8.0, top - 14.0), "start", &plot.y_label);
    grid(&mut out, &across, &upward, top, bottom);
    text(&mut out, "name", ((LEFT + RIGHT) / 2.0, bottom + 2.1 * LINE), "middle", &plot.x_label);
    for (number, line) in series.iter().enumerate() {
        draw(&mut out, number, line, &across, &upward);
    }
    let _ =
        write!(out, "<g transform=\"translate(0 {})\">{}</g>", bottom + 2.7 * LINE, legend.text);
    out.push_str("</svg>");
    out
}

/// A series without the points that have no place.
fn drawable(series: &Series, logarithmic: bool) -> Series {
    let keep = |p: &&(f64, f64, Option<[f64; 2]>)| {
        p.0.is_finite() && p.1.is_finite() && (!logarithmic || p.0 >= 0.0)
    };
    let finite =
        |interval: [f64; 2]| interval.iter().all(|end| end.is_finite()).then_some(interval);
    let points = series.points.iter().filter(keep);
    let points = points.map(|&(x, y, interval)| (x, y, interval.and_then(finite))).collect();
    Series { name: series.name.clone(), points }
}

fn grid(out: &mut String, across: &Axis, upward: &Axis, top: f64, bottom: f64) {
    for (value, label) in upward.ticks() {
        let y = upward.place(value);
        let _ = write!(out, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>");
        text(out, "tick", (LEFT - 6.0, y + 5.0), "end", &label);
    }
    for (value, label) in across.ticks() {
        let x = across.place(value);
        let _ = write!(out, "<path class=\"axis\" d=\"M{x:.1} {bottom:.1}v5\"/>");
        text(out, "tick", (x, bottom + LINE), "middle", &label);
    }
    let _ = write!(out, "<path class=\"axis\" d=\"M{LEFT} {top:.1}V{bottom:.1}H{RIGHT}\"/>");
}

fn draw(out: &mut String, number: usize, series: &Series, across: &Axis, upward: &Axis) {
    let (dashes, marker) = LOOKS[number % LOOKS.len()];
    let place = |x: f64, y: f64| (across.place(x), upward.place(y));
    let _ = write!(out, "<g class=\"series s{}\">", number % LOOKS.len());
    // Bands span neighbouring points that both have an interval; a lone one is a bar.
    for run in series.points.chunk_by(|a, b| a.2.is_some() == b.2.is_some()) {
        let ends = |at: usize| {
            run.iter().filter_map(move |&(x, _, interval)| Some(place(x, interval?[at])))
        };
        let upper: Vec<String> = ends(1).map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        let mut lower: Vec<String> = ends(0).map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        lower.reverse();
        if let ([upper], [lower]) = (&upper[..], &lower[..]) {
            let _ = write!(out, "<path class=\"bar\" d=\"M{lower}L{upper}\"/>");
        } else if !upper.is_empty() {
            let outline = [upper, lower].concat().join("L");
            let _ = write!(out, "<path class=\"band\" d=\"M{outline}Z\"/>");
        }
    }
    let points: Vec<(f64, f64)> = series.points.iter().map(|p| place(p.0, p.1)).collect();
    if points.len() > 1 {
        let line: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        let _ = write!(
            out,
            "<path class=\"line\" stroke-dasharray=\"{dashes}\" d=\"M{}\"/>",
            line.join("L")
        );
    }
    points.iter().for_each(|&point| mark(out, marker, point));
    out.push_str("</g>");
}

fn mark(out: &mut String, marker: Marker, (x, y): (f64, f64)) {
    let class = if marker.is_filled() { "marker filled" } else { "marker" };
    let _ = write!(out, "<path class=\"{class}\" d=\"M{x:.1} {y:.1}{}\"/>", marker.path());
}

struct Legend {
    text: String,
    height: f64,
}

/// Names of lines from left to right, on as many rows as they need.
fn legend(series: &[Series]) -> Legend {
    const SAMPLE: f64 = 34.0;
    let (mut x, mut y) = (LEFT - 44.0, LINE);
    let mut out = String::new();
    for (number, line) in series.iter().enumerate() {
        let lines = wrapped(&line.name, ((WIDTH - SAMPLE - 16.0) / LETTER) as usize);
        let longest = lines.iter().map(|l| l.chars().count()).max().unwrap_or(0);
        let width = SAMPLE + 6.0 + LETTER * longest as f64 + 14.0;
        if x + width > WIDTH && x > LEFT {
            (x, y) = (LEFT - 44.0, y + LINE);
        }
        let (dashes, marker) = LOOKS[number % LOOKS.len()];
        let middle = y - 5.0;
        let _ = write!(
            out,
            "<g class=\"key s{}\"><path class=\"line\" stroke-dasharray=\"{dashes}\" \
             d=\"M{x:.1} {middle:.1}h{SAMPLE}\"/>",
            number % LOOKS.len()
        );
        // The sample's marker is no data point.
        let _ = write!(
            out,
            "<path class=\"sample{}\" d=\"M{:.1} {middle:.1}{}\"/></g>",
            if marker.is_filled() { " filled" } else { "" },
            x + SAMPLE / 2.0,
            marker.path()
        );
        for (at, words) in lines.iter().enumerate() {
            let place = (x + SAMPLE + 6.0, y + LINE * at as f64);
            text(&mut out, "tick", place, "start", words);
        }
        y += LINE * (lines.len() as f64 - 1.0);
        x += width;
    }
    Legend { text: out, height: y + 0.4 * LINE }
}

fn text(out: &mut String, class: &str, (x, y): (f64, f64), anchor: &str, words: &str) {
    let words = escaped(words);
    let _ = write!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
    );
}

/// Lines of at most this many letters, broken at spaces; a longer word stays whole. At least one.
fn wrapped(text: &str, letters: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= letters {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// Text that means itself in XML. Control characters, which XML cannot hold, are left out.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests;
