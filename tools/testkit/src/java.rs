//! Programs in Java: Maven fetches the libraries that a `pom.xml` names, and the source beside it is compiled.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::made::made_once;

/// The goal with which Maven puts libraries into a folder.
const COPY_LIBRARIES: &str = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies";

/// A program that can be started.
#[derive(Clone, Debug)]
pub struct Java {
    class_path: OsString,
}

impl Java {
    /// The programs of the toolchain.
    pub const PROGRAMS: [&str; 3] = ["java", "javac", "mvn"];

    /// Makes the program `source` of the folder `from` ready in the folder `dir`, which may have its libraries already.
    ///
    /// # Errors
    /// A file that cannot be read or written; what Maven or the compiler says against it.
    pub fn ready(from: &Path, source: &str, dir: &Path) -> io::Result<Java> {
        fs::create_dir_all(dir)?;
        // Maven writes beside the file that it reads.
        made_once(from, dir, &["pom.xml"], "lib", || {
            run(Command::new("mvn").args(["-q", "-B", COPY_LIBRARIES, "-DoutputDirectory=lib"]).current_dir(dir))
        })?;
        let libraries = dir.join("lib/*");
        run(Command::new("javac").arg("-cp").arg(&libraries).arg("-d").arg(dir).arg(from.join(source)))?;
        let class_path = std::env::join_paths([dir, &libraries]).map_err(io::Error::other)?;
        Ok(Java { class_path })
    }

    /// The command that runs a class of the program or of its libraries.
    #[must_use]
    pub fn command(&self, class: &str) -> Command {
        let mut command = Command::new("java");
        command.arg("-cp").arg(&self.class_path).arg(class);
        command
    }
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(io::Error::other(format!("{command:?}: {}", String::from_utf8_lossy(&text))))
}
