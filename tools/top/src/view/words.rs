//! Figures as words.

/// A number with three digits at most: 12, 1.23 k, 45.6 M.
pub(crate) fn number(value: f64) -> String {
    scaled(value, 1000.0, &["", " k", " M", " G", " T"])
}

/// Bytes: 12 B, 1.23 KB, 45.6 MB.
pub(crate) fn bytes(value: f64) -> String {
    scaled(value, 1024.0, &[" B", " KB", " MB", " GB", " TB"])
}

fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // Rounded to three digits first: 999.6 is 1.00 of the next unit.
    while value >= step - 0.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let digits = match () {
        () if unit == 0 && value.fract() == 0.0 => 0,
        () if value < 9.995 => 2,
        () if value < 99.95 => 1,
        () => 0,
    };
    format!("{value:.digits$}{}", units[unit])
}

/// Microseconds: 0.18 us, 12.3 ms.
pub(crate) fn micros(value: f64) -> String {
    scaled(value, 1000.0, &[" us", " ms", " s"])
}

/// Seconds in the two greatest units: 3 d 4 h, 2 min 5 s.
pub(crate) fn time(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// Seconds in the greatest unit alone: 3 d, 59 min.
pub(crate) fn greatest_unit(seconds: f64) -> String {
    time(seconds).split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// The time of day of some seconds since 1970, in UTC: a server's log and this program may stand in different zones.
pub(crate) fn clock(at_s: u64) -> String {
    let day = at_s % 86_400;
    format!("{:02}:{:02}:{:02} UTC", day / 3600, day / 60 % 60, day % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(
            [0.0, 7.0, 0.25, 999.0, 999.7, 1234.0, 45_600.0].map(number),
            ["0", "7", "0.25", "999", "1.00 k", "1.23 k", "45.6 k"]
        );
        assert_eq!([1023.0, 1024.0, 524_288_000.0].map(bytes), ["1023 B", "1.00 KB", "500 MB"]);
        assert_eq!([0.18, 12_345.0].map(micros), ["0.18 us", "12.3 ms"]);
    }

    #[test]
    fn times_have_two_units() {
        assert_eq!([5.0, 65.0, 3700.0, 90_000.0].map(time), ["5 s", "1 min 5 s", "1 h 1 min", "1 d 1 h"]);
        assert_eq!([5.0, 3599.0].map(greatest_unit), ["5 s", "59 min"]);
        assert_eq!(clock(86_400 + 3661), "01:01:01 UTC");
    }
}
