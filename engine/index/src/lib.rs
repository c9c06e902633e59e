//! 64-byte buckets: hash to candidate references; never sees a key.
