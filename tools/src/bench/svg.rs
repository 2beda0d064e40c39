//! Charts as SVG that stands in the page: lines, areas and bars over time or percentiles.
//!
//! Colours are classes that the page's style gives, for light and dark. What a point says stands in
//! its `<title>`, which browsers show under the pointer: no script is needed.

use crate::bench::figures::short;
use std::fmt::Write as _;

/// How values lie on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// From 0, evenly.
    Linear,
    /// By powers of ten.
    Log,
}

/// How values become the text of an axis.
pub(crate) type Told = fn(f64) -> String;

/// A line of a chart.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    /// What stands at its end.
    pub(crate) label: String,
    /// The class of its colour.
    pub(crate) class: &'static str,
    /// Its points from left to right; a gap between two is a break in the line.
    pub(crate) points: Vec<Option<(f64, f64)>>,
}

/// A chart.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    /// What stands above it.
    pub(crate) title: String,
    /// How wide and how high it is.
    pub(crate) size: (f64, f64),
    /// The scale of the values.
    pub(crate) scale: Scale,
    /// The text of values.
    pub(crate) told: Told,
    /// Places of the other axis with their text.
    pub(crate) ticks: Vec<(f64, String)>,
    /// The ends of the other axis.
    pub(crate) across: (f64, f64),
    /// Whether what is below a line is filled.
    pub(crate) filled: bool,
    /// Its lines.
    pub(crate) curves: Vec<Curve>,
    /// Stretches to be marked from the bottom up: from, to, and the share of the height.
    pub(crate) marks: Vec<(f64, f64, f64)>,
    /// Values with a name that are drawn across.
    pub(crate) rules: Vec<(f64, String)>,
    /// Room for labels on the right, where charts below each other must end at one place.
    pub(crate) room: f64,
    /// What stretches of the other axis say under the pointer.
    pub(crate) tips: Vec<(f64, f64, String)>,
}

/// Room for the values on the left, the labels on the right, the title above, the axis below.
const LEFT: f64 = 64.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 24.0;

impl Chart {
    /// A chart without lines.
    pub(crate) fn new(title: impl Into<String>, size: (f64, f64), across: (f64, f64)) -> Chart {
        Chart {
            title: title.into(),
            size,
            scale: Scale::Linear,
            told: short,
            ticks: Vec::new(),
            across,
            filled: false,
            curves: Vec::new(),
            marks: Vec::new(),
            rules: Vec::new(),
            room: 8.0,
            tips: Vec::new(),
        }
    }

    /// The drawing.
    pub(crate) fn svg(&self) -> String {
        let (width, height) = self.size;
        let mut out = format!(
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">\
             <text class=\"title\" x=\"0\" y=\"14\">{}</text>",
            escaped(&self.title),
            escaped(&self.title)
        );
        let (low, high) = self.bounds();
        let frame = Frame { chart: self, low, high, right: width - self.label_room() };
        frame.grid(&mut out);
        for (from, to, share) in &self.marks {
            let (x, y) = (frame.x(*from), height - BOTTOM);
            let (w, h) = ((frame.x(*to) - x).max(1.0), share.clamp(0.02, 1.0) * (y - TOP));
            let _ = write!(
                out,
                "<rect class=\"mark\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{w:.1}\" height=\"{h:.1}\"/>",
                y - h
            );
        }
        self.curves.iter().for_each(|curve| frame.curve(&mut out, curve));
        frame.labels(&mut out);
        frame.rules(&mut out);
        for (from, to, text) in &self.tips {
            let (x, w) = (frame.x(*from), frame.x(*to) - frame.x(*from));
            let _ = write!(
                out,
                "<rect class=\"tip\" x=\"{x:.1}\" y=\"{TOP}\" width=\"{w:.1}\" height=\"{:.1}\"><title>{}</title></rect>",
                height - TOP - BOTTOM,
                escaped(text)
            );
        }
        out.push_str("</svg>");
        out
    }

    fn label_room(&self) -> f64 {
        let chars = self.curves.iter().map(|curve| curve.label.chars().count()).max().unwrap_or(0);
        // A bold letter of the labels' size is 7.8 units wide at most, on average.
        let labels = if chars == 0 { 8.0 } else { 14.0 + 7.8 * chars as f64 };
        labels.max(self.room)
    }

    /// The least and the largest value of the axis.
    fn bounds(&self) -> (f64, f64) {
        let values = || {
            let points = self.curves.iter().flat_map(|curve| curve.points.iter().flatten());
            let rules = self.rules.iter().map(|(value, _)| *value);
            points.map(|point| point.1).chain(rules)
        };
        let most = values().fold(0.0, f64::max);
        match self.scale {
            Scale::Linear if most <= 0.0 => (0.0, 1.0),
            Scale::Linear => (0.0, most * 1.06),
            Scale::Log => {
                let least = values().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
                let low = if least.is_finite() { 10_f64.powf(least.log10().floor()) } else { 1.0 };
                (low, 10_f64.powf(most.max(low * 10.0).log10().ceil()))
            }
        }
    }
}

struct Frame<'a> {
    chart: &'a Chart,
    low: f64,
    high: f64,
    right: f64,
}

impl Frame<'_> {
    fn x(&self, at: f64) -> f64 {
        let (from, to) = self.chart.across;
        LEFT + ((at - from) / (to - from).max(1e-9)).clamp(0.0, 1.0) * (self.right - LEFT)
    }

    fn y(&self, value: f64) -> f64 {
        let share = match self.chart.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => {
                let value = value.max(self.low);
                (value / self.low).log10() / (self.high / self.low).log10()
            }
        };
        let bottom = self.chart.size.1 - BOTTOM;
        bottom - share.clamp(0.0, 1.0) * (bottom - TOP)
    }

    fn steps(&self) -> Vec<f64> {
        match self.chart.scale {
            Scale::Linear => {
                let step = nice(self.high / 4.0);
                (0..=5).map(|n| f64::from(n) * step).filter(|v| *v <= self.high).collect()
            }
            Scale::Log => {
                let (from, to) =
                    (self.low.log10().round() as i32, self.high.log10().round() as i32);
                let each = ((to - from) / 6).max(0) + 1;
                (from..=to).step_by(each as usize).map(|power| 10_f64.powi(power)).collect()
            }
        }
    }

    fn grid(&self, out: &mut String) {
        for value in self.steps() {
            let y = self.y(value);
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{:.1}\"/><text class=\"axis\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                self.right,
                LEFT - 7.0,
                y + 4.0,
                escaped(&(self.chart.told)(value))
            );
        }
        let y = self.chart.size.1 - 7.0;
        for (at, text) in &self.chart.ticks {
            let x = self.x(*at);
            let _ = write!(
                out,
                "<text class=\"axis\" x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>",
                escaped(text)
            );
        }
    }

    fn curve(&self, out: &mut String, curve: &Curve) {
        let bottom = self.chart.size.1 - BOTTOM;
        for stretch in curve.points.split(|point| point.is_none()) {
            let points: Vec<(f64, f64)> =
                stretch.iter().flatten().map(|(x, y)| (self.x(*x), self.y(*y))).collect();
            let (Some(first), Some(last)) = (points.first(), points.last()) else { continue };
            let mut path = String::new();
            for (at, (x, y)) in points.iter().enumerate() {
                let _ = write!(path, "{}{x:.1} {y:.1}", if at == 0 { "M" } else { "L" });
            }
            if self.chart.filled {
                let _ = write!(
                    out,
                    "<path class=\"area {}\" d=\"{path}L{:.1} {bottom}L{:.1} {bottom}Z\"/>",
                    curve.class, last.0, first.0
                );
            }
            if points.len() == 1 {
                let _ = write!(
                    out,
                    "<circle class=\"dot {}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"/>",
                    curve.class, first.0, first.1
                );
            } else {
                let _ = write!(out, "<path class=\"line {}\" d=\"{path}\"/>", curve.class);
            }
        }
    }

    /// The labels at the right ends, moved apart where they would lie on one another.
    fn labels(&self, out: &mut String) {
        let ends = self.chart.curves.iter().filter_map(|curve| {
            let (_, value) = curve.points.iter().flatten().next_back()?;
            Some((self.y(*value), curve))
        });
        let mut ends: Vec<(f64, &Curve)> =
            ends.filter(|(_, curve)| !curve.label.is_empty()).collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let bottom = self.chart.size.1 - BOTTOM;
        let mut free = bottom - 13.0 * (ends.len().saturating_sub(1)) as f64;
        let mut least = TOP;
        for (y, curve) in ends {
            let y = y.max(least).min(free.max(least));
            (least, free) = (y + 13.0, free + 13.0);
            let _ = write!(
                out,
                "<text class=\"label {}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                curve.class,
                self.right + 8.0,
                y + 4.0,
                escaped(&curve.label)
            );
        }
    }

    fn rules(&self, out: &mut String) {
        for (value, text) in &self.chart.rules {
            let y = self.y(*value);
            let _ = write!(
                out,
                "<path class=\"rule\" d=\"M{LEFT} {y:.1}H{:.1}\"/><text class=\"rule\" x=\"{}\" y=\"{:.1}\">{}</text>",
                self.right,
                LEFT + 6.0,
                y - 5.0,
                escaped(text)
            );
        }
    }
}

/// The least of 1, 2, 2.5, 5 times a power of ten that is not smaller.
fn nice(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(1e-12).log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    steps.into_iter().map(|step| step * power).find(|step| *step >= value * 0.999).unwrap_or(power)
}

/// Ticks of seconds: at most so many, at round places.
pub(crate) fn seconds_ticks(last: f64, most: usize) -> Vec<(f64, String)> {
    let step =
        [1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 7_200.0]
            .into_iter()
            .find(|step| last / step <= most as f64)
            .unwrap_or(last / most as f64);
    let count = (last / step) as usize;
    let text = |at: f64| match at {
        at if at >= 60.0 && at % 60.0 == 0.0 => format!("{} min", at / 60.0),
        at => format!("{at} s"),
    };
    (0..=count).map(|n| n as f64 * step).map(|at| (at, text(at))).collect()
}

/// Text that is nothing but text in HTML.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() && c != '\n' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(scale: Scale, values: &[Option<f64>]) -> Chart {
        let points = values.iter().enumerate().map(|(x, y)| y.map(|y| (x as f64, y))).collect();
        let mut chart = Chart::new("a <b>", (600.0, 200.0), (0.0, values.len() as f64));
        chart.scale = scale;
        chart.curves.push(Curve { label: "p99".to_owned(), class: "c1", points });
        chart
    }

    #[test]
    fn a_gap_breaks_the_line_and_a_lone_point_is_seen() {
        let svg = chart(Scale::Linear, &[Some(1.0), Some(2.0), None, Some(3.0)]).svg();
        assert_eq!(svg.matches("class=\"line c1\"").count(), 1, "{svg}");
        assert_eq!(svg.matches("<circle").count(), 1, "{svg}");
        assert!(svg.contains("a &lt;b&gt;") && !svg.contains("<b>"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn every_place_is_within_the_drawing() {
        for scale in [Scale::Linear, Scale::Log] {
            for values in [&[Some(0.0)][..], &[Some(5.0), Some(5.0)], &[Some(0.01), Some(1e9)], &[]]
            {
                let svg = chart(scale, values).svg();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
                for part in svg.split("cy=\"").skip(1) {
                    let y: f64 =
                        part.split('"').next().and_then(|y| y.parse().ok()).unwrap_or(-1.0);
                    assert!((TOP..=200.0).contains(&y), "{svg}");
                }
            }
        }
    }

    #[test]
    fn ticks_are_at_round_places() {
        let texts = |last| seconds_ticks(last, 8).into_iter().map(|(_, t)| t).collect::<Vec<_>>();
        assert_eq!(texts(4.2), ["0 s", "1 s", "2 s", "3 s", "4 s"]);
        assert_eq!(texts(180.0), ["0 s", "30 s", "1 min", "90 s", "2 min", "150 s", "3 min"]);
        assert_eq!([0.3, 1.0, 3.0, 26.0].map(nice), [0.5, 1.0, 5.0, 50.0]);
    }
}
