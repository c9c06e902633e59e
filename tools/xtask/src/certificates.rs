//! Certificates for a suite that brings none, by openssl: an authority, and what it has signed, over P-256.
//!
//! ```text
//!   folder   ca.crt, ca.key   NAME.crt, NAME.key of each name        all good for 127.0.0.1
//! ```

use crate::shell::{command, run};
use std::fs;
use std::path::Path;

/// The kinds of certificates: an end entity that says it is an authority is refused.
const KINDS: &str = "\
[req]
distinguished_name = none
[none]
[authority]
basicConstraints = critical, CA:TRUE
[end]
basicConstraints = critical, CA:FALSE
subjectAltName = IP:127.0.0.1
";

/// Makes an authority and these names' certificates in a folder, which is made too.
pub(crate) fn make(folder: &Path, names: &[&str]) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    fs::write(folder.join("kinds"), KINDS).map_err(|error| error.to_string())?;
    sign(folder, "ca", "authority", &[])?;
    names.iter().try_for_each(|name| sign(folder, name, "end", &["-CA", "ca.crt", "-CAkey", "ca.key"]))
}

fn sign(folder: &Path, name: &str, kind: &str, by: &[&str]) -> Result<(), String> {
    let mut openssl = command("openssl", &["req", "-x509", "-config", "kinds", "-extensions", kind, "-days", "2"]);
    openssl.args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-subj", &format!("/CN={name}")]);
    openssl.args(["-keyout", &format!("{name}.key"), "-out", &format!("{name}.crt")]).args(by);
    // It draws stars while it makes a key.
    run(openssl.current_dir(folder).stderr(std::process::Stdio::null()))
}
