//! What tests share: a RESP client, servers started and stopped, models.

#![forbid(unsafe_code)]
