//! Tests of the reply writer.

use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::{CHUNK_BYTES, Pinned, Reply, ReplyPart, Resp};

/// All unsent bytes.
fn bytes(reply: &Reply) -> Vec<u8> {
    reply.to_vec()
}

/// The bytes that a writer writes in either version.
fn both(write: impl Fn(&mut Reply)) -> [String; 2] {
    [Resp::V2, Resp::V3].map(|resp| {
        let mut reply = Reply::new();
        reply.set_resp(resp);
        write(&mut reply);
        String::from_utf8(bytes(&reply)).unwrap()
    })
}

#[test]
fn every_type_in_both_versions() {
    let same = |text: &str| [text.to_owned(), text.to_owned()];
    let pair = |v2: &str, v3: &str| [v2.to_owned(), v3.to_owned()];
    assert_eq!(both(|r| r.simple("PONG")), same("+PONG\r\n"));
    assert_eq!(both(Reply::ok), same("+OK\r\n"));
    assert_eq!(both(|r| r.error("\r\nERR a\r\nb\n")), same("-ERR a  b\r\n"));
    assert_eq!(both(|r| r.error("\n")), same("-\r\n"));
    assert_eq!(both(|r| r.integer(-12)), same(":-12\r\n"));
    assert_eq!(both(|r| r.integer(i64::MIN)), same(":-9223372036854775808\r\n"));
    assert_eq!(both(|r| r.integer(i64::MAX)), same(":9223372036854775807\r\n"));
    assert_eq!(both(|r| r.bulk(b"")), same("$0\r\n\r\n"));
    assert_eq!(both(|r| r.bulk(b"hello worl")), same("$10\r\nhello worl\r\n"));
    assert_eq!(both(|r| r.bulk_i64(-1)), same("$2\r\n-1\r\n"));
    assert_eq!(both(Reply::null), pair("$-1\r\n", "_\r\n"));
    assert_eq!(both(Reply::null_array), pair("*-1\r\n", "_\r\n"));
    assert_eq!(both(|r| r.array(12)), same("*12\r\n"));
    assert_eq!(both(|r| r.map(2)), pair("*4\r\n", "%2\r\n"));
    assert_eq!(both(|r| r.set(2)), pair("*2\r\n", "~2\r\n"));
    assert_eq!(both(|r| r.push(3)), pair("*3\r\n", ">3\r\n"));
    assert_eq!(both(|r| r.boolean(true)), pair(":1\r\n", "#t\r\n"));
    assert_eq!(both(|r| r.boolean(false)), pair(":0\r\n", "#f\r\n"));
    assert_eq!(both(|r| r.double(2.5)), pair("$3\r\n2.5\r\n", ",2.5\r\n"));
    assert_eq!(both(|r| r.double(f64::NEG_INFINITY)), pair("$4\r\n-inf\r\n", ",-inf\r\n"));
    assert_eq!(both(|r| r.verbatim(*b"txt", b"hi")), pair("$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"));
    assert_eq!(both(|r| r.big_number(b"123")), pair("$3\r\n123\r\n", "(123\r\n"));
    let mut reply = Reply::new();
    reply.set_resp(Resp::V3);
    reply.attribute(1);
    assert_eq!(bytes(&reply), b"|1\r\n");
}

#[test]
fn a_page_of_a_scan_has_its_cursor_in_front() {
    let page = both(|r| {
        r.ok();
        let from = r.defer();
        r.bulk(b"k");
        r.end_page(from, 1 << 40, 1);
    });
    let text = "+OK\r\n*2\r\n$13\r\n1099511627776\r\n*1\r\n$1\r\nk\r\n".to_owned();
    assert_eq!(page, [text.clone(), text]);
}

#[test]
fn deferred_lengths_nest_and_move_values() {
    let mut reply = Reply::new();
    reply.ok();
    let outer = reply.defer();
    reply.bulk(b"a");
    reply.bulk_pinned(Box::new(b"big".to_vec()));
    let inner = reply.defer();
    reply.bulk_pinned(Box::new(b"inner".to_vec()));
    reply.end_array(inner, 1);
    reply.end_map(outer, 12);
    assert_eq!(bytes(&reply), b"+OK\r\n*24\r\n$1\r\na\r\n$3\r\nbig\r\n*1\r\n$5\r\ninner\r\n");
    let none = reply.defer();
    reply.end_set(none, 0);
    assert!(bytes(&reply).ends_with(b"*0\r\n"));
}

/// A value of which a few bytes are lent at a time, and one part at most.
struct Lender(Vec<u8>, Arc<AtomicUsize>);

/// Bytes of a [`Lender`], which counts them.
struct Loan<'l>(&'l [u8], &'l AtomicUsize);

impl Pinned for Lender {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn read(&self, range: Range<usize>) -> ReplyPart<'_> {
        self.1.fetch_add(1, Relaxed);
        ReplyPart::Lent(Box::new(Loan(&self.0[range.start..range.end.min(range.start + 3)], &self.1)))
    }
}

impl Deref for Loan<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Relaxed);
    }
}

#[test]
fn issue_14_bytes_of_a_value_are_lent_part_by_part() {
    let (mut reply, lent) = (Reply::new(), Arc::new(AtomicUsize::new(0)));
    let value: Vec<u8> = (b'a'..=b'z').collect();
    reply.integer(7);
    reply.bulk_pinned(Box::new(Lender(value.clone(), Arc::clone(&lent))));
    reply.ok();
    let expected = [b":7\r\n$26\r\n", &value[..], b"\r\n+OK\r\n"].concat();
    assert_eq!(bytes(&reply), expected);
    for sent in 0..expected.len() {
        assert_eq!((bytes(&reply), reply.len()), (expected[sent..].to_vec(), expected.len() - sent));
        let two: Vec<ReplyPart<'_>> = reply.parts().skip(1).take(2).collect();
        let of_value = two.iter().filter(|part| matches!(part, ReplyPart::Lent(_))).count();
        assert_eq!(lent.load(Relaxed), of_value, "what is not looked at is not lent");
        drop(two);
        assert_eq!(lent.load(Relaxed), 0);
        reply.consume(1);
    }
}

#[test]
fn values_by_reference_are_sent_in_their_place_in_any_steps() {
    for step in 1..40 {
        let mut reply = Reply::new();
        reply.bulk_pinned(Box::new(vec![b'x'; 20]));
        reply.integer(7);
        reply.bulk_pinned(Box::new(Vec::new()));
        reply.bulk_pinned(Box::new(vec![b'y'; 11]));
        let expected = [
            b"$20\r\n".to_vec(),
            vec![b'x'; 20],
            b"\r\n:7\r\n$0\r\n\r\n$11\r\n".to_vec(),
            vec![b'y'; 11],
            b"\r\n".to_vec(),
        ];
        let expected = expected.concat();
        assert_eq!((reply.len(), bytes(&reply)), (expected.len(), expected.clone()));
        let mut sent = Vec::new();
        while !reply.is_empty() {
            let two = reply.parts().take(2).map(|part| part.to_vec()).collect::<Vec<_>>().concat();
            let next = two[..two.len().min(step)].to_vec();
            reply.consume(next.len());
            sent.extend(next);
        }
        assert_eq!(sent, expected, "in steps of {step}");
    }
}

#[test]
fn what_was_written_since_a_mark_can_be_dropped() {
    let mut reply = Reply::new();
    reply.ok();
    let mark = reply.mark();
    reply.bulk_pinned(Box::new(b"big".to_vec()));
    assert_eq!(reply.first_since(mark), Some(b'$'));
    reply.truncate(mark);
    assert_eq!((bytes(&reply), reply.len()), (b"+OK\r\n".to_vec(), 5));
}

#[test]
fn sent_bytes_do_not_pile_up() {
    let mut reply = Reply::new();
    for _ in 0..1000 {
        reply.bulk(&[b'x'; 10_000]);
        reply.consume(10_000);
    }
    assert!(reply.held_bytes() < 4 << 20);
    reply.bulk_pinned(Box::new(b"big".to_vec()));
    reply.consume(9_000);
    reply.clear(0);
    assert_eq!((reply.len(), reply.held_bytes()), (0, 0));
    reply.ok();
    assert_eq!(bytes(&reply), b"+OK\r\n");
}

#[test]
fn a_reply_can_go_to_another_thread() {
    fn send<T: Send>() {}
    send::<Reply>();
}

#[test]
fn a_ceiling_bounds_what_waits() {
    let page = |r: &mut Reply| {
        let page = r.defer();
        r.double(0.125);
        r.end_page(page, u64::MAX, 1);
    };
    let writers: [&dyn Fn(&mut Reply); 5] =
        [&|r| r.bulk(&[b'x'; 100]), &|r| r.integer(i64::MIN), &Reply::ok, &|r| r.error("ERR e"), &page];
    for write in writers {
        let mut reply = Reply::new();
        reply.set_ceiling(10_000);
        let mut calls = 0;
        while !reply.is_overflown() {
            write(&mut reply);
            calls += 1;
            assert!(calls < 10_000, "nothing stops it");
        }
        let len = reply.len();
        assert!((5_000..=10_000).contains(&len), "{len}");
        for _ in 0..10_000 {
            write(&mut reply);
        }
        assert!(reply.is_overflown() && reply.held_bytes() <= 20_000, "{}", reply.held_bytes());
        reply.clear(0);
        assert!(!reply.is_overflown());
    }
}

#[test]
fn a_reply_that_is_sure_to_pass_the_ceiling_is_not_begun() {
    let mut reply = Reply::new();
    assert!(reply.admits(usize::MAX), "there is no ceiling");
    reply.set_ceiling(1000);
    reply.bulk(&[b'x'; 500]);
    assert!(reply.admits(400) && !reply.is_overflown());
    assert!(!reply.admits(600) && reply.is_overflown());
}

#[test]
fn what_is_sent_makes_room_below_the_ceiling() {
    let mut reply = Reply::new();
    reply.set_ceiling(10_000);
    for _ in 0..1000 {
        reply.bulk(&[b'x'; 1000]);
        reply.consume(reply.len() - 1);
    }
    assert!(!reply.is_overflown());
    let mut other = reply.like();
    other.bulk(&[b'x'; 20_000]);
    reply.append(other);
    assert!(reply.is_overflown(), "a loss is carried on");
}

#[test]
fn memory_that_nobody_has_ends_nothing() {
    let mut reply = Reply::new();
    assert!(!reply.grow(usize::MAX) && !reply.grow(isize::MAX as usize - 1));
    assert!(reply.is_overflown());
}

#[test]
fn what_was_split_off_can_be_put_back() {
    let mut replies = Reply::new();
    replies.ok();
    replies.bulk_pinned(Box::new(b"first".to_vec()));
    let mark = replies.mark();
    replies.integer(7);
    replies.bulk_pinned(Box::new(b"second".to_vec()));
    replies.ok();
    let text = Reply::to_vec;
    let (whole, length) = (text(&replies), replies.len());
    let tail = replies.split_off(mark);
    assert_eq!(text(&replies), b"+OK\r\n$5\r\nfirst\r\n");
    assert_eq!(text(&tail), b":7\r\n$6\r\nsecond\r\n+OK\r\n");
    assert_eq!((replies.pinned_bytes(), tail.pinned_bytes()), (5, 6));
    assert_eq!(replies.len() + tail.len(), length);
    replies.append(tail);
    assert_eq!((text(&replies), replies.len()), (whole, length));
    // All of it, and nothing.
    let nothing = replies.split_off(replies.mark());
    assert!(nothing.is_empty());
}

/// Full chunks stay where they are, whatever is written behind them, and their memory goes one by one.
#[test]
fn what_waits_is_never_moved() {
    let mut reply = Reply::new();
    let places = |reply: &Reply| reply.parts().map(|part| part.as_ptr() as usize).collect::<Vec<_>>();
    let mut known = Vec::new();
    for nth in 0..4000_u32 {
        match nth % 4 {
            0 => reply.bulk(&vec![b'x'; 10_000 + nth as usize]),
            1 => reply.integer(7),
            2 => reply.bulk(&[b'y'; 200]),
            _ if nth % 400 == 3 => reply.bulk(&[b'z'; 200_000]),
            _ => reply.ok(),
        }
        let mut now = places(&reply);
        now.pop();
        assert!(now.len() >= known.len() && now[..known.len()] == known, "write {nth} moved something");
        known = now;
    }
    assert!(reply.len() > 10 << 20 && reply.held_bytes() < reply.len() * 5 / 4, "{}", reply.held_bytes());
    while reply.len() > CHUNK_BYTES {
        reply.consume(CHUNK_BYTES);
        assert!(reply.held_bytes() < reply.len() * 5 / 4 + 400_000, "what is sent is let go");
    }
}

/// Everything that a buffer does, in buffers of many chunks, beside a plain list of bytes.
#[test]
fn a_model_of_chunks() {
    let mut random = varve_base::rng::Rng::seeded(27);
    let (mut reply, mut model) = (Reply::new(), Vec::new());
    for _ in 0..2000 {
        let value = vec![random.below(256) as u8; random.below(30_000) as usize];
        match random.below(8) {
            0 => {
                reply.bulk_pinned(Box::new(value.clone()));
                model.extend(format!("${}\r\n", value.len()).bytes().chain(value).chain(*b"\r\n"));
            }
            1 | 2 => {
                let (from, count) = (reply.defer(), random.below(8));
                let head = format!("${}\r\n", value.len());
                let inner = [head.as_bytes(), &value, b"\r\n"].concat();
                (0..count).for_each(|_| reply.bulk(&value));
                reply.end_array(from, count as usize);
                model.extend(format!("*{count}\r\n").bytes());
                (0..count).for_each(|_| model.extend(&inner));
            }
            3 => {
                let (mark, len) = (reply.mark(), reply.len());
                (0..random.below(8)).for_each(|_| reply.bulk(&value));
                reply.bulk_pinned(Box::new(value));
                assert_eq!(reply.first_since(mark), Some(b'$'));
                reply.truncate(mark);
                assert_eq!(reply.len(), len);
            }
            4 => {
                let mark = reply.mark();
                (0..random.below(8)).for_each(|_| reply.raw(&value));
                let written = reply.since(mark).flatten().copied().collect::<Vec<u8>>();
                let tail = reply.split_off(mark);
                assert!(bytes(&tail) == written, "since and split_off take the same");
                model.extend(written);
                reply.append(tail);
            }
            5 => {
                let mut other = reply.like();
                (0..random.below(4)).for_each(|_| other.raw(&value[..value.len() / 4]));
                model.extend(bytes(&other));
                reply.append(other);
            }
            _ => {
                let sent = random.below(reply.len() as u64 + 1) as usize;
                reply.consume(sent);
                model.drain(..sent);
            }
        }
        assert_eq!(reply.len(), model.len());
        assert!(bytes(&reply) == model);
    }
}

#[test]
fn strings_of_every_short_length_are_written_whole() {
    let all: Vec<u8> = (0..=255).collect();
    let (mut reply, mut expected) = (Reply::new(), Vec::new());
    for len in 0..100 {
        let text = &all[len..2 * len];
        reply.bulk(text);
        expected.extend_from_slice(format!("${len}\r\n").as_bytes());
        expected.extend_from_slice(text);
        expected.extend_from_slice(b"\r\n");
    }
    assert_eq!(bytes(&reply), expected);
}
