//! The segment log: append, liveness accounting, reclaim.
