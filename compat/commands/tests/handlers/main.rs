//! The commands' tests: handlers run by a batch over a store, without a server. One program: to link eighteen would take longer
//! than to run them.

mod applying;
mod blocking;
mod common;
mod field_times;
mod geo;
mod hostile_payloads;
mod long_values;
mod lookups;
mod occupied;
mod ongoing;
mod pipeline;
mod replies;
mod rows;
mod scan_pages;
mod stored_in_parts;
mod stream_parts;
mod transactions;
mod two_workers;
mod zset;
