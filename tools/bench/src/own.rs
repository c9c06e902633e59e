//! The server's own histograms, as INFO background has them.
//!
//! ```text
//!   lock_holds:count=10,p50_us=0.500,p99_us=1.500,p99.9_us=9.000,p99.99_us=20.250,max_us=21.000
//! ```
//! They count since the start, or since CONFIG RESETSTAT.

use std::io;

/// Figures of a histogram by their names, in the order in which they are named; microseconds, but for the count.
///
/// # Errors
/// When the text has no such line, or the line no such figure.
pub(crate) fn figures(info: &str, histogram: &str, names: &[&str]) -> io::Result<Vec<f64>> {
    let line = info.lines().find_map(|line| line.trim_end().strip_prefix(histogram)?.strip_prefix(':'));
    let line = line.ok_or_else(|| io::Error::other(format!("INFO background has no {histogram}")))?;
    let figure = |name: &&str| {
        let text = line.split(',').find_map(|pair| pair.strip_prefix(*name)?.strip_prefix('='));
        let number = text.and_then(|text| text.parse().ok());
        number.ok_or_else(|| io::Error::other(format!("{histogram} has no number {name}: {line}")))
    };
    names.iter().map(figure).collect()
}

#[cfg(test)]
mod tests {
    use super::figures;

    #[test]
    fn figures_of_the_server_are_read_by_their_names() {
        let info = "# Background\r\nlock_holds:count=10,p50_us=0.500,p99.9_us=9.5,p99.99_us=20.25,max_us=21.000\r\n";
        assert_eq!(figures(info, "lock_holds", &["count", "max_us", "p99.9_us"]).unwrap(), [10.0, 21.0, 9.5]);
        assert!(figures(info, "background_slices", &["count"]).is_err());
        assert!(figures(info, "lock_holds", &["p99_us"]).is_err());
    }
}
