//! Memory that is given back in steps: the system takes some 100 ms to have a gigabyte back, and a worker stands still meanwhile.

/// Bytes that one step gives back, in some hundred microseconds.
const STEP_BYTES: usize = 4 << 20;

/// Gives some of the room of a buffer back, whose elements nobody asks for any more: 4 MB of it, from its end. True when all is given
/// back.
pub fn free_some<T: Copy>(buffer: &mut Vec<T>) -> bool {
    buffer.clear();
    assert!(size_of::<T>() > 0, "a buffer of nothing has room without end");
    let step = (STEP_BYTES / size_of::<T>()).max(1);
    let left = buffer.capacity().saturating_sub(step);
    buffer.shrink_to(left);
    left == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_given_back_in_steps() {
        let mut buffer = vec![7_u64; (10 << 20) / size_of::<u64>()];
        let mut steps = Vec::new();
        while !free_some(&mut buffer) {
            steps.push(buffer.capacity() * size_of::<u64>());
        }
        assert!(steps == [6 << 20, 2 << 20] && buffer.capacity() == 0, "{steps:?}");
        assert!(free_some(&mut buffer));
    }
}
