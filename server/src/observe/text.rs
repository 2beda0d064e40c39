//! The text format of Prometheus, version 0.0.4: families with a line of help, a type, and samples.

use std::fmt::{Display, Write as _};
use tabulith::waits::{TIME_BOUNDS_US, Times};

/// What `Content-Type` says of it.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A text that grows by families.
#[derive(Debug, Default)]
pub struct Text(String);

/// A family: its samples follow its head at once.
#[derive(Debug)]
pub struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
}

impl Text {
    /// A number that only grows. Its name ends in `_total`.
    pub fn counter(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "counter", help)
    }

    /// A number that goes up and down.
    pub fn gauge(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "gauge", help)
    }

    /// Times by their size. Its name ends in `_seconds`.
    pub fn histogram(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "histogram", help)
    }

    fn family(&mut self, name: &'static str, kind: &str, help: &str) -> Family<'_> {
        debug_assert!(!help.contains(['\n', '\\']), "help is one line: {help}");
        // Writing to a text does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Family { text: &mut self.0, name }
    }

    /// The whole text.
    pub fn finish(self) -> String {
        self.0
    }
}

impl Family<'_> {
    /// The only sample.
    pub fn is(&mut self, value: impl Display) {
        self.of(&[], value);
    }

    /// A sample under labels.
    pub fn of(&mut self, labels: &[(&str, &str)], value: impl Display) -> &mut Self {
        self.sample("", labels, value);
        self
    }

    /// The samples of a histogram under labels.
    pub fn times(&mut self, labels: &[(&str, &str)], times: &Times) -> &mut Self {
        let mut sum = 0;
        for (class, count) in times.classes.iter().enumerate() {
            sum += count;
            let bound = TIME_BOUNDS_US.get(class).map(|us| seconds(*us).to_string());
            let bound = bound.as_deref().unwrap_or("+Inf");
            self.sample("_bucket", &[labels, &[("le", bound)]].concat(), sum);
        }
        self.sample("_sum", labels, seconds(times.us));
        self.sample("_count", labels, sum);
        self
    }

    fn sample(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.text, "{}{suffix}", self.name);
        for (place, (label, text)) in labels.iter().enumerate() {
            let open = if place == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{open}{label}=\"");
            for c in text.chars() {
                match c {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    other => self.text.push(other),
                }
            }
            self.text.push('"');
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{close} {value}");
    }
}

/// Microseconds as seconds.
pub fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tabulith::waits::Histogram;

    #[test]
    fn families_samples_and_what_breaks_out_of_a_label() {
        let mut text = Text::default();
        text.counter("x_total", "How many.").of(&[("a", "b\"\\\nc"), ("d", "é")], 3);
        text.gauge("y_bytes", "How much.").is(0.5);
        assert_eq!(
            text.finish(),
            "# HELP x_total How many.\n# TYPE x_total counter\nx_total{a=\"b\\\"\\\\\\nc\",d=\"é\"} 3\n\
             # HELP y_bytes How much.\n# TYPE y_bytes gauge\ny_bytes 0.5\n"
        );
    }

    #[test]
    fn a_histogram_adds_up() {
        let histogram = Histogram::default();
        for us in [50, 51, 2_000, 20_000_000] {
            histogram.add(Duration::from_micros(us));
        }
        let mut text = Text::default();
        text.histogram("t_seconds", "Times.").times(&[("op", "get")], &histogram.get());
        let text = text.finish();
        for line in [
            "t_seconds_bucket{op=\"get\",le=\"0.00005\"} 1",
            "t_seconds_bucket{op=\"get\",le=\"0.0001\"} 2",
            "t_seconds_bucket{op=\"get\",le=\"0.0025\"} 3",
            "t_seconds_bucket{op=\"get\",le=\"10\"} 3",
            "t_seconds_bucket{op=\"get\",le=\"+Inf\"} 4",
            "t_seconds_sum{op=\"get\"} 20.002101",
            "t_seconds_count{op=\"get\"} 4",
        ] {
            assert!(text.lines().any(|own| own == line), "{line} is not in\n{text}");
        }
    }
}
