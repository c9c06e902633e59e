//! The tests of the scripts' world: programs run in it, without a store. One program: to link eleven would take longer than to run
//! them.

mod calls;
mod deprecated;
mod functions;
mod host;
mod nesting;
mod pace;
mod patterns;
mod programs;
mod random;
mod random_programs;
mod recorded;
mod security;
