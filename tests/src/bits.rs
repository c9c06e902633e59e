//! Commands on bits, as the generator draws them: offsets near the ends of short strings, offsets that are too far, and
//! fields of every width.

use crate::generate::{Generator, words};
use crate::spell::{self, Arg};

impl Generator {
    fn bit_offset(&mut self) -> Arg {
        match self.random.below(30) {
            0 => self.word(&["-1", "4294967296", "9223372036854775807", "x", "#1", ""]),
            1 => self.random.below(20_000).to_string().into_bytes(),
            _ => self.random.below(600).to_string().into_bytes(),
        }
    }

    fn unit(&mut self) -> Arg {
        self.word(&["bit", "BYTE", "Bit", "byte", "foo"])
    }

    /// A range, and perhaps what it counts.
    fn bit_range(&mut self, args: &mut Vec<Arg>) {
        for _ in 0..[0, 1, 2, 2, 2][self.random.below(5)] {
            args.push(spell::small(&mut self.random));
        }
        if self.random.one_in(2) {
            args.push(self.unit());
        }
    }

    fn bit_field(&mut self, args: &mut Vec<Arg>) {
        let sign = if self.random.one_in(2) { 'i' } else { 'u' };
        let bits =
            if self.random.one_in(3) { 1 + self.random.below(64) } else { [2, 4, 5, 8, 16, 32][self.random.below(6)] };
        args.push(format!("{sign}{bits}").into_bytes());
        let place = self.bit_offset();
        args.push(if self.random.one_in(4) { [b"#", &place[..]].concat() } else { place });
    }

    /// A command on bits.
    pub(crate) fn bits(&mut self) -> Vec<Arg> {
        let key = spell::key(&mut self.random);
        match self.random.below(10) {
            0 | 1 => vec![b"setbit".to_vec(), key, self.bit_offset(), self.word(&["0", "1", "1", "1", "2"])],
            2 => vec![b"getbit".to_vec(), key, self.bit_offset()],
            3 => {
                let mut args = vec![b"bitcount".to_vec(), key];
                self.bit_range(&mut args);
                args
            }
            4 => {
                let mut args = vec![b"bitpos".to_vec(), key, self.word(&["0", "1", "0", "1", "2"])];
                self.bit_range(&mut args);
                args
            }
            5 | 6 => {
                let mut args = vec![b"bitop".to_vec(), self.word(&["and", "OR", "xor", "not", "NOT", "nand"]), key];
                let sources = if args[1].eq_ignore_ascii_case(b"not") { 1 } else { 1 + self.random.below(4) };
                (0..sources).for_each(|_| args.push(spell::key(&mut self.random)));
                args
            }
            7 => {
                let mut args = vec![b"bitfield_ro".to_vec(), key];
                for _ in 0..self.random.below(4) {
                    args.push(self.word(&["get", "GET", "get", "set"]));
                    self.bit_field(&mut args);
                }
                args
            }
            _ => {
                let (mut args, mut may_fail) = (vec![b"bitfield".to_vec(), key], false);
                for _ in 0..self.random.below(4) {
                    if self.random.one_in(3) {
                        let overflow = self.word(&["wrap", "SAT", "fail", "foo"]);
                        may_fail |= overflow == b"fail";
                        args.extend([self.word(&["overflow", "OVERFLOW"]), overflow]);
                    }
                    let name = self.word(&["get", "set", "incrby", "SET", "IncrBy"]);
                    let is_get = name == b"get";
                    args.push(name);
                    self.bit_field(&mut args);
                    if !is_get {
                        args.push(spell::number(&mut self.random));
                    }
                }
                if may_fail {
                    // redis-server keeps it from its replicas that a string has grown and nothing else.
                    args.extend(words("overflow wrap set u1 0 1"));
                }
                args
            }
        }
    }
}
