//! The commands: one descriptor each; argument grammar, operation, reply.

#![forbid(unsafe_code)]
