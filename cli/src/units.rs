//! Sizes and durations as people write and read them.

use std::time::Duration;

/// `90s`, `5m`, `1h30m`, `7d`; a bare number has no unit and is refused.
///
/// # Errors
/// Says what was expected.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let expected = || format!("`{text}` is not a duration such as 90s, 5m, 12h or 30d");
    let mut seconds = 0u64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(expected)?;
        let number: u64 = rest[..digits].parse().map_err(|_| expected())?;
        let (unit, tail) = match &rest[digits..] {
            tail if tail.starts_with("ms") => return parse_millis(number, rest, digits, seconds).ok_or_else(expected),
            tail if tail.starts_with('s') => (1, &tail[1..]),
            tail if tail.starts_with('m') => (60, &tail[1..]),
            tail if tail.starts_with('h') => (3_600, &tail[1..]),
            tail if tail.starts_with('d') => (86_400, &tail[1..]),
            _ => return Err(expected()),
        };
        seconds = number.checked_mul(unit).and_then(|more| seconds.checked_add(more)).ok_or_else(expected)?;
        rest = tail;
    }
    // Ten years: longer is a typing error.
    match (1..=315_360_000).contains(&seconds) {
        true => Ok(Duration::from_secs(seconds)),
        false => Err(expected()),
    }
}

/// Milliseconds stand last, if at all.
fn parse_millis(number: u64, rest: &str, digits: usize, seconds: u64) -> Option<Duration> {
    let whole = Duration::from_secs(seconds).checked_add(Duration::from_millis(number))?;
    (rest.len() == digits + 2 && !whole.is_zero()).then_some(whole)
}

/// `8MiB`, `8M` (both 8 × 1,048,576), `5000000`, `1GiB`.
///
/// # Errors
/// Says what was expected.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let expected = || format!("`{text}` is not a size such as 8MiB or 1GiB");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| expected())?;
    let unit: u64 = match text[digits..].trim() {
        "" | "B" => 1,
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        _ => return Err(expected()),
    };
    number.checked_mul(unit).ok_or_else(expected)
}

/// `839 B`, `8.2 MiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut amount = bytes as f64 / 1024.0;
    let mut unit = 0;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    format!("{amount:.1} {}", UNITS[unit])
}

/// `0.4 s`, `12 s`, `3 min 04 s`.
pub fn duration(duration: Duration) -> String {
    match duration.as_secs() {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        seconds @ 10..60 => format!("{seconds} s"),
        seconds @ 60..3_600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {:02} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        for (text, seconds) in [("90s", 90), ("5m", 300), ("1h30m", 5_400), ("30d", 2_592_000)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(parse_duration("1s500ms"), Ok(Duration::from_millis(1_500)));
        for text in
            ["", "90", "s", "-1s", "0s", "1w", "1.5h", "99999999999999999999s", "9999999d", "0ms", "5ms1s", "5 s"]
        {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_binary() {
        for (text, expected) in [("8MiB", 8 << 20), ("8M", 8 << 20), ("1 GiB", 1 << 30), ("5000000", 5_000_000)] {
            assert_eq!(parse_size(text), Ok(expected), "{text}");
        }
        for text in ["", "MiB", "8MB", "-8M", "8.5M", "99999999999999999999", "99999999999G"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn amounts_read_well() {
        assert_eq!(bytes(1_023), "1023 B");
        assert_eq!(bytes(8 << 20), "8.0 MiB");
        assert_eq!(duration(Duration::from_millis(420)), "0.4 s");
        assert_eq!(duration(Duration::from_secs(184)), "3 min 04 s");
        assert_eq!(duration(Duration::from_secs(7_260)), "2 h 01 min");
    }
}
