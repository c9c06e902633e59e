//! The image of a container: the Containerfile's steps done in the trial's root, and built and run by buildah where that is.
//!
//! ```text
//!   FROM, COPY, RUN, USER, ENTRYPOINT --> the root of the trial, the server as process 1
//!                                     --> buildah: base image of the same fresh Debian, bud, run
//! ```
//! buildah takes nothing from elsewhere, keeps all in a folder that goes with the trial, and runs by chroot: the image shares
//! the machine's network.

use super::trial::{PATIENCE, Root, Server, archive, expect, free_port};
use super::{folder, read};
use crate::lanes;
use crate::shell::{command, output, run, say};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// The name of the base image in the Containerfile.
const BASE: &str = "docker.io/library/debian:bookworm-slim";
const BUILDER: &str = "/usr/bin/buildah";

/// Both ways, one after the other.
pub(super) fn run_all(root: &Root) -> Result<(), String> {
    by_steps(root)?;
    if !Path::new(BUILDER).exists() {
        say("skipped: buildah is not on this machine");
        return Ok(());
    }
    by_builder()
}

/// The image that the Containerfile's steps make of the root.
#[derive(Debug, Default, PartialEq, Eq)]
struct Image {
    copies: Vec<(String, String)>,
    commands: Vec<String>,
    user: String,
    entry: Vec<String>,
}

impl Image {
    fn of(text: &str) -> Image {
        let mut image = Image::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            match line.split_once(' ') {
                Some(("COPY", paths)) => {
                    let (from, to) = paths.split_once(' ').unwrap_or_default();
                    image.copies.push((from.into(), to.into()));
                }
                Some(("RUN", words)) => image.commands.push(words.into()),
                Some(("USER", user)) => image.user = user.into(),
                Some(("ENTRYPOINT", list)) => {
                    let words = list.trim_matches(['[', ']']).split(", ");
                    image.entry = words.map(|word| word.trim_matches('"').to_owned()).collect();
                }
                _ => {}
            }
        }
        image
    }
}

/// The image's server as process 1, not root, ended by the signal that a container's manager sends.
fn by_steps(root: &Root) -> Result<(), String> {
    let from = folder().join("container");
    let image = Image::of(&read(&from.join("Containerfile"))?);
    for (path, to) in &image.copies {
        super::copy(&from.join(path), &root.at(to))?;
    }
    image.commands.iter().try_for_each(|command| root.run(&["sh", "-c", command]))?;
    let line = image.entry.join(" ");
    let outer = ["--pid", "--fork", "--kill-child"];
    for expected in ["", "kept"] {
        let server = Server::start(root, &image.user, ("true", &line), &outer)?;
        expect(
            "the server is process 1",
            server.ask(&["INFO", "server"])?.lines().any(|line| line.trim() == "process_id:1"),
        )?;
        expect("the key is there", server.ask(&["GET", "key"])? == expected)?;
        server.ask(&["SET", "key", "kept"])?;
        let children = format!("/proc/{0}/task/{0}/children", server.child.id());
        let pid = read(Path::new(&children))?.trim().parse().map_err(|_| "a name space without a process")?;
        server.end(pid)?;
    }
    expect("the data is in the volume", root.at("/data/dump.rdb").exists())
}

/// A folder in which buildah keeps its images and containers.
struct Builder(PathBuf);

impl Drop for Builder {
    fn drop(&mut self) {
        let _ = run(&mut self.command(&["rm", "--all"]));
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Builder {
    fn new() -> Result<Builder, String> {
        let path = std::env::temp_dir().join(format!("varve-image-{}", std::process::id()));
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Builder(path))
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = command(BUILDER, &["--storage-driver", "vfs"]);
        command.arg("--root").arg(self.0.join("root")).arg("--runroot").arg(self.0.join("run")).args(words);
        command
    }

    fn said(&self, words: &[&str]) -> Result<String, String> {
        Ok(output(&mut self.command(words))?.trim().to_owned())
    }
}

/// A server in a container; it is killed if the trial ends early.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The image as its Containerfile says: built, its server asked, ended and started again with the data of its volume.
fn by_builder() -> Result<(), String> {
    let builder = Builder::new()?;
    let base = builder.said(&["from", "scratch"])?;
    run(builder.command(&["add", "--quiet", &base]).arg(archive()).arg("/"))?;
    builder.said(&["commit", "--quiet", "--rm", &base, BASE])?;
    let mut build = builder.command(&["bud", "--quiet", "--isolation", "chroot", "--pull-never", "--tag", "varve"]);
    output(build.arg(folder().join("container")))?;
    let container = builder.said(&["from", "--pull-never", "varve"])?;
    let image = Image::of(&read(&folder().join("container/Containerfile"))?);
    for expected in ["", "kept"] {
        let port = free_port()?.to_string();
        let mut server = builder.command(&["run", "--isolation", "chroot", &container, "--"]);
        server.args(&image.entry).args(["--port", &port]);
        lanes::collect_from(&mut server)?;
        let mut running = Running(server.spawn().map_err(|error| error.to_string())?);
        let ask = |words: &[&str]| {
            Ok::<_, String>(output(command("redis-cli", &["-p", &port]).args(words))?.trim().to_owned())
        };
        let until = Instant::now() + PATIENCE;
        while ask(&["PING"]).as_deref() != Ok("PONG") {
            expect("the image's server answers", Instant::now() < until)?;
            std::thread::sleep(Duration::from_millis(100));
        }
        expect("the image has the key of before", ask(&["GET", "key"])? == expected)?;
        ask(&["SET", "key", "kept"])?;
        expect("the data lies in the volume", ask(&["CONFIG", "GET", "dir"])?.ends_with("/data"))?;
        let _ = ask(&["SHUTDOWN", "SAVE"]);
        let status = running.0.wait().map_err(|error| error.to_string())?;
        expect(&format!("the image's server ends in order: {status}"), status.success())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Image;

    #[test]
    fn the_steps_of_an_image_are_read() {
        let image =
            Image::of("# a\nFROM x\nCOPY a /b/a\nRUN one && two\nUSER u\nENTRYPOINT [\"/b/a\", \"conf\"]\nCMD []\n");
        let expected = Image {
            copies: vec![("a".into(), "/b/a".into())],
            commands: vec!["one && two".into()],
            user: "u".into(),
            entry: vec!["/b/a".into(), "conf".into()],
        };
        assert_eq!(image, expected);
    }
}
