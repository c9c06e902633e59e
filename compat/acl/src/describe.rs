//! The rules that make a selector, in the fewest words: categories first, then single commands.
//!
//! ```text
//!   begins with -@all: while a category has more members that are on than off (and not said yet): the one with the fewest off
//!   begins with +@all: the same of those that are off
//!   then the commands that differ still, each by itself; then first arguments
//! ```
//! Redis 7.0 describes users so: the words that were given are not kept.

use crate::commands::{Bits, Category};
use crate::rule::RuleContext;
use crate::selector::Selector;

impl Selector {
    /// Everything: keys, channels, commands.
    pub(crate) fn describe(&self, context: &RuleContext<'_>) -> Vec<u8> {
        let mut words: Vec<Vec<u8>> = Vec::new();
        match self.all_keys {
            true => words.push(b"~*".to_vec()),
            false => words.extend(self.keys.iter().map(|(key, allowed)| allowed.rule(key.bytes()))),
        }
        match self.all_channels {
            true => words.push(b"&*".to_vec()),
            false => {
                words.push(b"resetchannels".to_vec());
                words.extend(self.channels.iter().map(|channel| [b"&", channel.bytes()].concat()));
            }
        }
        words.push(self.describe_commands(context));
        words.join(&b' ')
    }

    /// The keys' rules.
    pub(crate) fn describe_keys(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        self.keys.iter().map(|(key, allowed)| allowed.rule(key.bytes())).collect::<Vec<_>>().join(&b' ')
    }

    /// The channels' rules.
    pub(crate) fn describe_channels(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        self.channels.iter().map(|channel| [b"&", channel.bytes()].concat()).collect::<Vec<_>>().join(&b' ')
    }

    /// The commands' rules.
    pub(crate) fn describe_commands(&self, context: &RuleContext<'_>) -> Vec<u8> {
        let adds = !self.begins_with_all;
        let mut said = Selector::new(context);
        said.set_commands_to(!adds, context);
        let mut words = vec![if adds { b"-@all".to_vec() } else { b"+@all".to_vec() }];
        let mut left = self.commands.clone();
        let mut open: Vec<&Category> = context.commands.categories.iter().collect();
        while let Some(best) = best(&open, &left, adds) {
            let category = open.remove(best);
            words.push(format!("{}{}", if adds { "+@" } else { "-@" }, category.name).into_bytes());
            said.commands.set_all(&category.reach, adds);
            left.set_all(&category.reach, !adds);
        }
        for row in context.commands.rows() {
            let on = self.commands.has(row.id);
            if on != said.commands.has(row.id) {
                words.push(format!("{}{}", if on { '+' } else { '-' }, row.full_name).into_bytes());
                said.set_row(row, on, context);
            }
            for first in self.first_args.get(&row.id).filter(|_| !on).into_iter().flat_map(|texts| texts.values()) {
                words.push([b"+", row.full_name.as_bytes(), b"|", first].concat());
            }
        }
        assert!(said.commands == self.commands, "the rules that are said make the same selector");
        words.join(&b' ')
    }

    fn set_commands_to(&mut self, all: bool, context: &RuleContext<'_>) {
        self.commands.set_all(&context.commands.all, all);
    }
}

/// The category that says most: more of its members agree than differ, and the fewest differ.
fn best(open: &[&Category], left: &Bits, adds: bool) -> Option<usize> {
    let mut best: Option<(usize, u32, u32)> = None;
    for (number, category) in open.iter().enumerate() {
        let on = category.members.common(left);
        let off = category.members.len() - on;
        let (same, differ) = if adds { (on, off) } else { (off, on) };
        let better = best.is_none_or(|(_, least, most)| differ < least || differ == least && same > most);
        if same > differ && better {
            best = Some((number, differ, same));
        }
    }
    best.map(|(number, ..)| number)
}
