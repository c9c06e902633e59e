//! The parts of the differential test: its generator, its comparison and its run.
//!
//! Varve and the peer (Debian's redis-server 7.0.15) get the same commands; their replies must be equal. What is excused,
//! and how far, is one table: [`compare::rule`].

#![forbid(unsafe_code)]

pub mod appendonly;
mod bits;
mod burst;
pub mod churn;
pub mod collections;
pub mod compare;
pub mod cost;
pub mod ending;
pub mod fill;
pub mod folder;
pub mod generate;
pub mod kept;
pub mod memory_limit;
pub mod network;
mod newer;
pub mod page;
pub mod primary;
pub mod replicas;
pub mod run;
mod scripts;
mod sketches;
pub mod spell;
