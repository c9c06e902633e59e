//! Commands on HyperLogLogs, as the generator draws them: on keys of their own, since nearly all other strings are none, and
//! on others. GET and GETRANGE compare their bytes.

use crate::generate::{Generator, words};
use crate::spell::{self, Arg};

impl Generator {
    fn sketch(&mut self) -> Arg {
        if self.random.one_in(12) {
            return spell::key(&mut self.random);
        }
        format!("sketch:{}", self.random.below(5)).into_bytes()
    }

    /// A command on HyperLogLogs.
    pub(crate) fn sketches(&mut self) -> Vec<Arg> {
        let key = self.sketch();
        match self.random.below(20) {
            0..=8 => {
                let mut args = vec![b"pfadd".to_vec(), key];
                let many = if self.random.one_in(6) { 300 } else { 5 };
                for _ in 0..self.random.below(many) {
                    args.push(format!("element:{}", self.random.below(20_000)).into_bytes());
                }
                args
            }
            9..=12 => {
                let mut args = vec![b"pfcount".to_vec(), key];
                if self.random.one_in(2) {
                    (0..self.random.below(3)).for_each(|_| args.push(self.sketch()));
                }
                args
            }
            13 => {
                let mut args = vec![b"pfmerge".to_vec(), key];
                (0..self.random.below(3)).for_each(|_| args.push(self.sketch()));
                args
            }
            14 => vec![b"get".to_vec(), key],
            15 => vec![b"strlen".to_vec(), key],
            16 => vec![b"del".to_vec(), key],
            17 => vec![b"pfdebug".to_vec(), self.word(&["encoding", "decode", "todense", "foo", "ENCODING"]), key],
            18 if self.random.one_in(4) => words("pfselftest"),
            18 => vec![b"object".to_vec(), b"encoding".to_vec(), key],
            // Bytes in front that are no HyperLogLog's any more: behind them, what has been added before an error would differ.
            _ if self.random.one_in(3) => {
                vec![b"setrange".to_vec(), key, self.random.below(16).to_string().into_bytes(), b"\x00".to_vec()]
            }
            _ => vec![b"getrange".to_vec(), key, b"0".to_vec(), b"40".to_vec()],
        }
    }
}
