//! DEBUG DIGEST and DIGEST-VALUE: what keys hold, in 40 letters, the same as Redis 7.0.15 gives.
//!
//! ```text
//! list:         mix(element) in order
//! set:          xor(member)
//! sorted set:   xor(mix(member) mix(score as text))
//! hash:         xor(mix(field) mix(value))
//! stream:       of each entry in order mix(ID), mix(field) mix(value) ..
//! ```
//! `xor` folds the hash of some bytes into a digest, whatever the order; `mix` makes the order count.

use varve_base::number::push_f64;
use varve_base::sha1::{Digest, sha1};
use varve_exec::WideCtx;
use varve_store::{Key, Overdue, StreamId, Tx, Type};

/// Xors the hash of `bytes` into a digest: the order of several does not count.
fn xor(digest: &mut Digest, bytes: &[u8]) {
    digest.iter_mut().zip(sha1(bytes)).for_each(|(to, from)| *to ^= from);
}

/// Mixes `bytes` into a digest: the order of several counts.
fn mix(digest: &mut Digest, bytes: &[u8]) {
    xor(digest, bytes);
    *digest = sha1(digest);
}

/// Mixes in type, content and whether there is an expiry (not when, so that two runs of a test compare).
fn mix_value(digest: &mut Digest, tx: &mut Tx<'_>, key: &Key<'_>) {
    let Some(ty) = tx.type_of(key) else { return };
    let number: u32 = match ty {
        Type::String => 0,
        Type::List => 1,
        Type::Set => 2,
        Type::Zset => 3,
        Type::Hash => 4,
        Type::Stream => 6,
    };
    mix(digest, &number.to_be_bytes());
    match ty {
        Type::String => mix(digest, tx.peek(key).ok().flatten().unwrap_or_default()),
        Type::Set => {
            if let Ok(Some(view)) = tx.set_peek(key) {
                view.for_each(|member| xor(digest, member.text(&mut [0; 20])));
            }
        }
        Type::Zset => {
            let mut text = Vec::new();
            let _ = tx.zset_for_each(key, &mut |member, score| {
                text.clear();
                push_f64(&mut text, score);
                xor_pair(digest, member, &text);
            });
        }
        Type::Hash => {
            let _ = tx.hash_for_each(key, |field, value| xor_pair(digest, field, value));
        }
        Type::List => {
            let _ = tx.list_for_each(key, |element| mix(digest, element));
        }
        Type::Stream => {
            let _ = tx.stream_peek(key, |stream| {
                stream.range(StreamId::MIN, StreamId::MAX, false, |entry| {
                    mix(digest, format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
                    for (field, value) in entry.fields {
                        mix(digest, field);
                        mix(digest, value);
                    }
                    true
                });
            });
        }
    }
    if tx.expiry(key).flatten().is_some() {
        xor(digest, b"!!expire!!");
    }
}

fn xor_pair(digest: &mut Digest, first: &[u8], second: &[u8]) {
    let mut one = Digest::default();
    mix(&mut one, first);
    mix(&mut one, second);
    xor(digest, &one);
}

/// DEBUG DIGEST: one digest of all keys of all databases.
pub(crate) fn all(ctx: &mut WideCtx<'_>) {
    let mut total = Digest::default();
    for db in 0..ctx.store.databases() {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        ctx.store.for_each_key(ctx.worker, db, &mut |key, _, _| keys.push(key.to_vec()));
        if keys.is_empty() {
            continue;
        }
        mix(&mut total, &db.to_be_bytes());
        for key in keys {
            let mut one = Digest::default();
            mix(&mut one, &key);
            look_at(ctx, db, &key, |tx, key| mix_value(&mut one, tx, key));
            xor(&mut total, &one);
        }
    }
    ctx.out.simple(&hex(&total));
}

/// DEBUG DIGEST-VALUE: a digest of the value of each key.
pub(crate) fn values(ctx: &mut WideCtx<'_>) {
    ctx.out.array(ctx.args.len() - 2);
    for at in 2..ctx.args.len() {
        let mut digest = Digest::default();
        look_at(ctx, ctx.session.db(), ctx.args.get(at), |tx, key| mix_value(&mut digest, tx, key));
        ctx.out.simple(&hex(&digest));
    }
}

fn hex(digest: &Digest) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Looks at one key of a database. A key whose time is over counts while it is there, and stays: on a replica, whose primary says
/// when it goes, as well.
pub(crate) fn look_at<R>(
    ctx: &mut WideCtx<'_>,
    db: u32,
    key: &[u8],
    look: impl FnOnce(&mut Tx<'_>, &Key<'_>) -> R,
) -> R {
    on_key(ctx, db, key, |tx, key| {
        tx.set_overdue(Overdue::Alive);
        look(tx, key)
    })
}

/// Runs `act` on one key of a database. The caller holds the gate alone, so no other command comes between two keys.
pub(crate) fn on_key<R>(ctx: &mut WideCtx<'_>, db: u32, key: &[u8], act: impl FnOnce(&mut Tx<'_>, &Key<'_>) -> R) -> R {
    ctx.worker.view(db, |tx| {
        let key = tx.key(key);
        tx.hold(&[tx.shard_of(key.hash)]);
        let result = act(tx, &key);
        tx.hand_on();
        result
    })
}
