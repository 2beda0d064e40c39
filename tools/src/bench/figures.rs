//! Figures as people read them: three digits that mean something, with a unit.

/// Three digits, and thousands as k, M and G.
pub(crate) fn short(value: f64) -> String {
    let (value, unit) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}{unit}"),
        v if v >= 10.0 => format!("{value:.1}{unit}"),
        _ => format!("{value:.2}{unit}"),
    }
}

/// Microseconds as the unit that fits.
pub(crate) fn time_us(us: f64) -> String {
    let (value, unit) = match us {
        us if us >= 1e6 => (us / 1e6, "s"),
        us if us >= 1e3 => (us / 1e3, "ms"),
        us => (us, "us"),
    };
    match value {
        v if v >= 100.0 => format!("{v:.0} {unit}"),
        v if v >= 10.0 => format!("{v:.1} {unit}"),
        v => format!("{v:.2} {unit}"),
    }
}

/// Bytes as the unit that fits.
pub(crate) fn bytes(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes as f64, "B");
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    match value {
        v if v >= 100.0 || unit == "B" => format!("{v:.0} {unit}"),
        v => format!("{v:.1} {unit}"),
    }
}

/// A figure, or a dash where there is none.
pub(crate) fn or_dash<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map_or("–".to_owned(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_three_digits() {
        let printed = [0.0, 0.834, 12.34, 834.4, 9_999.0, 10_400.0, 1_234_567.0, 2e9].map(short);
        assert_eq!(printed, ["0.00", "0.83", "12.3", "834", "9999", "10.4k", "1.23M", "2.00G"]);
        assert_eq!(
            [0.25, 99.96, 1_500.0, 2.5e6].map(time_us),
            ["0.25 us", "100.0 us", "1.50 ms", "2.50 s"]
        );
        assert_eq!([512, 2_048, 200 << 20].map(bytes), ["512 B", "2.0 KiB", "200 MiB"]);
    }
}
