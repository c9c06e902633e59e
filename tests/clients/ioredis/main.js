// A program of ioredis against a server: node main.js PORT. VARVE_TLS is a folder with ca.crt, client.crt and client.key,
// by which it speaks TLS. Ends with "ioredis: N checks" and status 0, or with what failed.
//
//   pipelines | transactions with WATCH | a blocking work queue | publish/subscribe over a lost connection | collections
//
// Each part has keys of its own; the server is taken to be empty.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const Redis = require("ioredis");

const port = Number(process.argv[2]);
const folder = process.env.VARVE_TLS;
const read = (name) => fs.readFileSync(path.join(folder, name));
const tls = folder ? { tls: { ca: read("ca.crt"), cert: read("client.crt"), key: read("client.key") } } : {};
const open = [];
let checks = 0;

function same(actual, expected, what) {
  assert.deepEqual(actual, expected, what);
  checks += 1;
}

function connect(options = {}) {
  const redis = new Redis({ port, host: "127.0.0.1", ...tls, ...options });
  redis.on("error", () => {});
  open.push(redis);
  return redis;
}

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function until(test, what) {
  for (let n = 0; n < 500; n += 1) {
    if (await test()) return;
    await sleep(10);
  }
  assert.fail(`in vain: ${what}`);
}

async function pipelines() {
  const redis = connect();
  const pipeline = redis.pipeline();
  for (let n = 0; n < 1000; n += 1) pipeline.set(`p:${n}`, `v${n}`).incr("p:count").get(`p:${n}`);
  const replies = await pipeline.exec();
  same(replies.length, 3000);
  same(replies.every(([error]) => error === null), true);
  same(replies[2999], [null, "v999"]);
  same(replies[2998], [null, 1000]);
  const mixed = await redis.pipeline().set("p:s", "text").lpush("p:s", "x").incr("p:s").get("p:s").exec();
  same(mixed[1][0].message, "WRONGTYPE Operation against a key holding the wrong kind of value");
  same(mixed[2][0].message, "ERR value is not an integer or out of range");
  same(mixed[3], [null, "text"]);
  // Commands that are on their way together without a pipeline being asked for.
  const automatic = connect({ enableAutoPipelining: true });
  const all = await Promise.all(Array.from({ length: 500 }, (_, n) => automatic.get(`p:${n}`)));
  same(all, Array.from({ length: 500 }, (_, n) => `v${n}`));
  const value = Buffer.alloc(3_000_000, 7);
  await redis.set("p:large", value);
  same((await redis.getBuffer("p:large")).equals(value), true);
}

async function transfer(redis, from, to) {
  for (;;) {
    await redis.watch(from, to);
    const [a, b] = (await redis.mget(from, to)).map(Number);
    const replies = await redis.multi().set(from, a - 1).set(to, b + 1).exec();
    if (replies !== null) return;
  }
}

async function transactions() {
  const [one, other] = [connect(), connect()];
  await one.set("t:k", 1);
  await one.watch("t:k");
  await other.set("t:k", 2);
  same(await one.multi().set("t:k", 3).exec(), null, "a watched key was changed");
  same(await one.multi().set("t:k", 4).get("t:k").exec(), [[null, "OK"], [null, "4"]]);
  await one.watch("t:k");
  await other.set("t:k", 5);
  await one.unwatch();
  same(await one.multi().get("t:k").exec(), [[null, "5"]]);
  const failed = await one.multi().lpush("t:k", 1).incr("t:k").exec();
  same([failed[0][0].message.startsWith("WRONGTYPE"), failed[1]], [true, [null, 6]]);
  await assert.rejects(one.multi().set("t:k").incr("t:k").exec(), /EXECABORT/);
  same(await one.get("t:k"), "6");

  const accounts = ["t:a", "t:b", "t:c", "t:d"];
  await one.mset(accounts.flatMap((account) => [account, 100]));
  const work = Array.from({ length: 6 }, async (_, id) => {
    const redis = connect();
    for (let n = 0; n < 50; n += 1) {
      const from = (id + n) % 4;
      await transfer(redis, accounts[from], accounts[(from + 1 + (n % 3)) % 4]);
    }
  });
  await Promise.all(work);
  same((await one.mget(accounts)).map(Number).reduce((a, b) => a + b), 400);
}

async function queue() {
  const redis = connect();
  same(await redis.blpop("q:nothing", 0.05), null);
  same(await redis.blmove("q:nothing", "q:x", "LEFT", "RIGHT", 0.05), null);
  const done = [];
  const popping = async () => {
    const own = connect();
    for (;;) {
      const [, job] = await own.blpop("q:urgent", "q:jobs", 10);
      if (job === "stop") return;
      done.push(job);
    }
  };
  const moving = async (id) => {
    const own = connect();
    for (;;) {
      const job = await own.blmove("q:jobs", `q:doing:${id}`, "LEFT", "RIGHT", 10);
      if (job === "stop") return;
      done.push(job);
      assert.equal(await own.lrem(`q:doing:${id}`, 1, job), 1);
    }
  };
  const consumers = [popping(), popping(), moving(1), moving(2)];
  const producers = [0, 1].map(async (id) => {
    const own = connect();
    for (let n = 0; n < 250; n += 1) await own.rpush("q:jobs", `${id}:${n}`);
  });
  await Promise.all(producers);
  await redis.rpush("q:jobs", "stop", "stop", "stop", "stop");
  await Promise.all(consumers);
  same([done.length, new Set(done).size], [500, 500]);
  same(await redis.llen("q:jobs"), 0);
  const waiting = connect().blpop("q:late", 10);
  await sleep(50);
  await redis.multi().rpush("q:late", "a", "b").lpop("q:late").exec();
  same(await waiting, ["q:late", "b"], "who waits is served after the transaction");
}

async function publishing() {
  const [listener, redis] = [connect(), connect()];
  const heard = [];
  listener.on("message", (channel, message) => heard.push(message));
  listener.on("pmessage", (pattern, channel, message) => heard.push(`${pattern}:${message}`));
  await listener.subscribe("news");
  await listener.psubscribe("ne?s");
  const publish = async (from) => {
    for (let n = from; n < from + 100; n += 1) same(await redis.publish("news", `m${n}`), 2);
    await until(() => heard.length === 200, "all messages");
    const expected = Array.from({ length: 100 }, (_, n) => `m${from + n}`);
    same(heard.filter((message) => message.startsWith("m")), expected);
    same(heard.filter((message) => message.startsWith("ne?s:m")).length, 100);
    heard.length = 0;
  };
  await publish(0);
  // The connection is killed; the library connects again and subscribes to what it had.
  same(await redis.client("KILL", "TYPE", "pubsub"), 1);
  await until(async () => {
    const [, count] = await redis.pubsub("NUMSUB", "news");
    return Number(count) === 1 && Number(await redis.pubsub("NUMPAT")) === 1;
  }, "subscriptions after the connection was lost");
  await publish(100);
  await listener.unsubscribe("news");
  await listener.punsubscribe("ne?s");
  same(await redis.publish("news", "nobody"), 0);
  same(await listener.ping(), "PONG");
}

async function collections() {
  const redis = connect();
  const range = (count) => Array.from({ length: count }, (_, n) => n);
  for (const count of [10, 5000]) {
    const key = (name) => `c:${count}:${name}`;
    await redis.hset(key("hash"), Object.fromEntries(range(count).map((n) => [`f${n}`, `v${n}`])));
    same(await redis.hget(key("hash"), "f7"), "v7");
    same(Object.keys(await redis.hgetall(key("hash"))).length, count);
    same(await redis.hincrby(key("hash"), "n", 5), 5);
    same(await redis.hmget(key("hash"), "f1", "no"), ["v1", null]);
    same(await redis.rpush(key("list"), ...range(count)), count);
    same(await redis.lrange(key("list"), 2, 4), ["2", "3", "4"]);
    same(await redis.lindex(key("list"), -1), String(count - 1));
    same(await redis.sadd(key("set"), ...range(count), "x"), count + 1);
    await redis.sadd(key("other"), "x", "y", 3);
    same((await redis.sinter(key("set"), key("other"))).sort(), ["3", "x"]);
    same(await redis.smismember(key("set"), "x", "y"), [1, 0]);
    same(await redis.zadd(key("zset"), ...range(count).flatMap((n) => [n / 2, `m${n}`])), count);
    same(await redis.zrange(key("zset"), 0, 1, "WITHSCORES"), ["m0", "0", "m1", "0.5"]);
    same(await redis.zrangebyscore(key("zset"), "(1", 2), ["m3", "m4"]);
    same(await redis.zincrby(key("zset"), 1.5, "m0"), "1.5");
    same([await redis.zrank(key("zset"), "m9"), await redis.zcard(key("zset"))], [9, count]);
    let seen = 0;
    for await (const part of redis.hscanStream(key("hash"), { count: 100 })) seen += part.length / 2;
    same(seen, count + 1);
    seen = new Set();
    for await (const part of redis.zscanStream(key("zset"))) part.forEach((item, n) => n % 2 || seen.add(item));
    same(seen.size, count);
  }
  const found = new Set();
  for await (const keys of redis.scanStream({ match: "c:5000:*" })) keys.forEach((key) => found.add(key));
  same([...found].sort(), ["hash", "list", "other", "set", "zset"].map((name) => `c:5000:${name}`));
  same(await redis.expire("c:10:set", 100), 1);
  same((await redis.ttl("c:10:set")) > 90, true);
  same(await redis.type("c:10:zset"), "zset");
}

async function main() {
  for (const part of [pipelines, transactions, queue, publishing, collections]) await part();
  open.forEach((redis) => redis.disconnect());
  console.log(`ioredis: ${checks} checks`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
