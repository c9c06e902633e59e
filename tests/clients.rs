//! Programs of other client libraries against Varve: tests/clients/{ioredis,go-redis,jedis}, each in the protocols that
//! its library speaks. What they need comes through their package managers, into .test-tools or the managers' caches.
//!
//! A program runs where its toolchain is present; elsewhere its test says so and passes.

#![forbid(unsafe_code)]

mod programs;

use std::process::Command;

use programs::{prepare, present, run, run_java, run_node, sources, tools};

#[test]
fn ioredis() {
    run_node("ioredis");
}

#[test]
fn go_redis() {
    if !present("go-redis", &["go"]) {
        return;
    }
    let binary = tools("go-redis").join("program");
    prepare(Command::new("go").args(["build", "-o"]).arg(&binary).arg(".").current_dir(sources("go-redis")));
    for protocol in ["2", "3"] {
        run("go-redis", || Command::new(&binary), Some(protocol));
    }
}

#[test]
fn jedis() {
    run_java("jedis");
}
