//! SIMD groups, memory mappings, hashing, numbers and text, random numbers, glob patterns.
