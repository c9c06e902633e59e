//! Cipher suites by OpenSSL's names, which is how configuration files have them.
//!
//! ```text
//!   tls-ciphers       ECDHE+AESGCM:!aECDSA      a list for TLS 1.2: words add, - and + and ! take away or move
//!   tls-ciphersuites  TLS_AES_128_GCM_SHA256    names alone, for TLS 1.3
//! ```
//! A word stands for all suites that have each of its parts, between which stands `+`. OpenSSL passes over a word that fits
//! none, and so does this server: a list may name suites that it does not speak (those without forward secrecy, or in CBC
//! mode). The log has such words ([`without_effect`]). A list of which nothing is left is refused.

use rustls::SupportedCipherSuite;
use rustls::crypto::ring::cipher_suite;

/// Suites of TLS 1.2 in the order of preference: name, words, suite.
static BY_12: [(&str, &[&str], SupportedCipherSuite); 6] = [
    (
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        &["aECDSA", "ECDSA", "AES256", "AES", "AESGCM", "SHA384"],
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "ECDHE-RSA-AES256-GCM-SHA384",
        &["aRSA", "RSA", "AES256", "AES", "AESGCM", "SHA384"],
        cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        &["aECDSA", "ECDSA", "CHACHA20"],
        cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "ECDHE-RSA-CHACHA20-POLY1305",
        &["aRSA", "RSA", "CHACHA20"],
        cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        &["aECDSA", "ECDSA", "AES128", "AES", "AESGCM", "SHA256"],
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "ECDHE-RSA-AES128-GCM-SHA256",
        &["aRSA", "RSA", "AES128", "AES", "AESGCM", "SHA256"],
        cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ),
];

/// Words that stand for all suites of TLS 1.2 which this server speaks.
const ALL_12: [&str; 9] = ["ALL", "DEFAULT", "HIGH", "ECDHE", "EECDH", "kECDHE", "kEECDH", "TLSv1.2", "FIPS"];

/// Suites of TLS 1.3.
static BY_13: [(&str, SupportedCipherSuite); 3] = [
    ("TLS_AES_256_GCM_SHA384", cipher_suite::TLS13_AES_256_GCM_SHA384),
    ("TLS_CHACHA20_POLY1305_SHA256", cipher_suite::TLS13_CHACHA20_POLY1305_SHA256),
    ("TLS_AES_128_GCM_SHA256", cipher_suite::TLS13_AES_128_GCM_SHA256),
];

/// The suites of TLS 1.2 that a list leaves, the preferred first; all for an empty list.
///
/// # Errors
/// No suite is left.
pub(super) fn tls12(list: &str) -> Result<Vec<SupportedCipherSuite>, String> {
    let list = if list.is_empty() { "DEFAULT" } else { list };
    let mut chosen: Vec<usize> = Vec::new();
    let mut killed = [false; BY_12.len()];
    for word in words(list).filter(|word| !word.starts_with('@')) {
        let (sign, name) = match word.as_bytes()[0] {
            sign @ (b'!' | b'-' | b'+') => (sign, &word[1..]),
            _ => (b' ', word),
        };
        let meant: Vec<usize> = (0..BY_12.len()).filter(|&at| is_meant(name, at)).collect();
        match sign {
            b' ' => {
                chosen.extend(meant.into_iter().filter(|at| !killed[*at] && !chosen.contains(at)).collect::<Vec<_>>())
            }
            b'+' => {
                let (moved, kept): (Vec<usize>, Vec<usize>) = chosen.iter().partition(|at| meant.contains(at));
                chosen = [kept, moved].concat();
            }
            _ => {
                chosen.retain(|at| !meant.contains(at));
                meant.into_iter().for_each(|at| killed[at] |= sign == b'!');
            }
        }
    }
    if chosen.is_empty() {
        return Err(format!("{list}: no cipher match"));
    }
    Ok(chosen.into_iter().map(|at| BY_12[at].2).collect())
}

/// The words of a list for TLS 1.2 that it could do without: no suite is added or moved by them. Words that take away what is
/// not spoken anyhow are none of them.
pub(super) fn without_effect(list: &str) -> Vec<&str> {
    let fits_none = |word: &&str| {
        let name = word.strip_prefix('+').unwrap_or(word);
        !word.starts_with(['!', '-']) && !(0..BY_12.len()).any(|at| is_meant(name, at))
    };
    words(list).filter(fits_none).collect()
}

fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split([':', ',', ' ', ';']).filter(|word| !word.is_empty())
}

fn is_meant(word: &str, at: usize) -> bool {
    let (name, words, _) = &BY_12[at];
    word == *name || word.split('+').all(|part| ALL_12.contains(&part) || words.contains(&part))
}

/// The suites of TLS 1.3 of a list, in its order; all for an empty list.
///
/// # Errors
/// A name is not known.
pub(super) fn tls13(list: &str) -> Result<Vec<SupportedCipherSuite>, String> {
    if list.is_empty() {
        return Ok(BY_13.iter().map(|(_, suite)| *suite).collect());
    }
    let find = |name: &str| BY_13.iter().find(|(known, _)| *known == name).map(|(_, suite)| *suite);
    list.split(':').map(|name| find(name).ok_or_else(|| format!("{name}: no such cipher suite"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<&'static str> {
        let suites = tls12(list).unwrap_or_default();
        suites.iter().map(|suite| BY_12.iter().find(|(.., known)| known == suite).unwrap().0).collect()
    }

    #[test]
    fn words_add_and_take_away() {
        assert_eq!(names("").len(), 6);
        assert_eq!(names("ECDHE-RSA-AES128-GCM-SHA256"), ["ECDHE-RSA-AES128-GCM-SHA256"]);
        assert_eq!(names("DEFAULT:!AES:-aECDSA"), ["ECDHE-RSA-CHACHA20-POLY1305"]);
        assert_eq!(names("ECDHE+AESGCM:!aECDSA"), ["ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256"]);
        assert_eq!(names("!CHACHA20:ALL:@STRENGTH").len(), 4, "what is killed does not come back");
        assert_eq!(names("-CHACHA20:ALL").len(), 6);
        assert_eq!(names("aRSA+AES:+AES256").last(), Some(&"ECDHE-RSA-AES256-GCM-SHA384"));
        assert_eq!(names("DEFAULT:-AES128-SHA256").len(), 6, "a suite that is not spoken");
    }

    #[test]
    fn words_that_fit_no_suite_are_named() {
        let list = "HIGH:AES128-SHA256:!aNULL:-MD5:+RSA:+3DES,kRSA+AES @STRENGTH";
        assert_eq!(names(list).len(), 6);
        assert_eq!(without_effect(list), ["AES128-SHA256", "+3DES", "kRSA+AES", "@STRENGTH"]);
        assert!(without_effect("DEFAULT:!AES:-aECDSA").is_empty() && without_effect("").is_empty());
    }

    #[test]
    fn a_list_of_which_nothing_is_left_is_refused() {
        assert!(tls12("AES128-SHA256").is_err() && tls12("!ALL").is_err() && tls12("nonsense").is_err());
        assert!(tls13("TLS_NONE").is_err());
        assert_eq!(tls13("TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384").unwrap().len(), 2);
    }
}
