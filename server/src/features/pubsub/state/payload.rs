//! A published payload: made once, shared by all inboxes and outputs that hold it.
//!
//! Small ones are copied into outputs and count there. Large ones ([`SHARED_BYTES`]) are sent from where they lie; they
//! are no client's and not the store's, so they are counted here, once, while anything holds them: a part of what lies
//! outside the keys under `maxmemory`.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use varve_base::shared::SharedUsize;

/// Payloads from this size on are sent from where they lie, once for all receivers.
const SHARED_BYTES: usize = 16 * 1024;

/// See the module's text.
#[derive(Clone, Debug)]
pub(crate) struct Payload(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    bytes: Box<[u8]>,
    /// Where a large one is counted.
    sum: Option<Arc<SharedUsize>>,
}

impl Payload {
    /// The payload of these bytes, if it is a large one.
    pub(crate) fn of_large(bytes: &[u8], sum: &Arc<SharedUsize>) -> Option<Payload> {
        (bytes.len() >= SHARED_BYTES).then(|| Payload::new(bytes, sum))
    }

    /// A copy of these bytes; `sum` counts all large payloads.
    pub(crate) fn new(bytes: &[u8], sum: &Arc<SharedUsize>) -> Payload {
        let sum = (bytes.len() >= SHARED_BYTES).then(|| Arc::clone(sum));
        if let Some(sum) = &sum {
            sum.fetch_add(bytes.len(), Relaxed);
        }
        Payload(Arc::new(Shared { bytes: bytes.into(), sum }))
    }

    /// True if it is to be sent from where it lies.
    pub(crate) fn is_large(&self) -> bool {
        self.0.sum.is_some()
    }

    /// Number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.bytes.len()
    }
}

impl AsRef<[u8]> for Payload {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(sum) = &self.sum {
            let before = sum.fetch_sub(self.bytes.len(), Relaxed);
            assert!(before >= self.bytes.len(), "what is counted has been added");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_payloads_count_once_while_somebody_has_them() {
        let sum = Arc::new(SharedUsize::new(0));
        let small = Payload::new(&[1; SHARED_BYTES - 1], &sum);
        let large = Payload::new(&[1; SHARED_BYTES], &sum);
        let again = large.clone();
        assert_eq!((small.is_large(), large.is_large(), sum.load(Relaxed)), (false, true, SHARED_BYTES));
        drop(large);
        assert_eq!((again.len(), sum.load(Relaxed)), (SHARED_BYTES, SHARED_BYTES));
        drop(again);
        assert_eq!(sum.load(Relaxed), 0);
    }
}
