//! Programs of libraries that are made of scripts against Varve: locks, queues, limiters of rates and map caches of
//! tests/clients/{locks,redisson,rq,sidekiq}, without a change to the libraries. What they need comes through their package
//! managers, into .test-tools or the managers' caches; Sidekiq is Debian's.
//!
//! A program runs where its toolchain is present; elsewhere its test says so and passes. BullMQ's own suite: bullmq.rs.

#![forbid(unsafe_code)]

mod programs;

use std::process::Command;

use programs::{prepare, present, ready, run, run_java, run_node, sources, tools};

/// redlock and rate-limiter-flexible, of npm.
#[test]
fn locks_and_limiters() {
    run_node("locks");
}

#[test]
fn redisson() {
    run_java("redisson");
}

#[test]
fn rq() {
    if !present("rq", &["python3"]) {
        return;
    }
    let (from, to) = (sources("rq"), tools("rq"));
    let venv = to.join("venv");
    ready(&from, &to, &["requirements.txt"], "venv/bin/rq", || {
        prepare(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv));
        let mut pip = Command::new(venv.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
        prepare(pip.arg(to.join("requirements.txt")));
    });
    let program = || {
        let mut program = Command::new(venv.join("bin/python"));
        // Workers find jobs by the name of their module.
        program.arg("main.py").current_dir(&from).env("PYTHONDONTWRITEBYTECODE", "1");
        program
    };
    run("rq", program, None);
}

#[test]
fn sidekiq() {
    if !present("sidekiq", &["ruby", "sidekiq"]) {
        return;
    }
    let program = || {
        let mut program = Command::new("ruby");
        program.arg(sources("sidekiq").join("main.rb"));
        program
    };
    run("sidekiq", program, None);
}
