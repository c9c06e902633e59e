// Libraries of npm that are made of scripts, against a server: node main.js PORT. VARVE_TLS is a folder with ca.crt, client.crt
// and client.key, by which they speak TLS. Ends with "locks: N checks" and status 0, or with what failed.
//
//   redlock: mutual exclusion, extension, expiry | rate-limiter-flexible: windows, blocks, penalties, bursts, many clients
//
// Each part has keys of its own; the server is taken to be empty.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const Redis = require("ioredis");
const Redlock = require("redlock");
const { BurstyRateLimiter, RateLimiterQueue, RateLimiterRedis } = require("rate-limiter-flexible");

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

function connect() {
  const redis = new Redis({ port, host: "127.0.0.1", ...tls });
  open.push(redis);
  return redis;
}

// The error of something that is refused.
const refusal = (promise) => promise.then(() => assert.fail("it was not refused"), (error) => error);

async function locks() {
  const [one, other] = [connect(), connect()].map((redis) => new Redlock([redis], { retryCount: 0 }));
  const lock = await one.lock("lock:a", 10000);
  same((await refusal(other.lock("lock:a", 10000))).name, "LockError", "held");
  const longer = await lock.extend(20000);
  const left = await open[0].pttl("lock:a");
  same(left > 10000 && left <= 20000, true, `extended: ${left}`);
  await longer.unlock();
  same(await open[0].exists("lock:a"), 0, "gone");
  same((await refusal(longer.unlock())).name, "LockError", "let go twice");
  // Several resources come together or not at all.
  const both = await one.lock(["lock:a", "lock:b"], 10000);
  await refusal(other.lock(["lock:b", "lock:c"], 10000));
  same(await open[0].exists("lock:c"), 0, "all or nothing");
  await both.unlock();
  // A lock that has expired is another's to take, and not the first one's to let go.
  const short = await one.lock("lock:a", 500);
  const patient = new Redlock([open[1]], { retryCount: 1000, retryDelay: 10, retryJitter: 5 });
  const taken = await patient.lock("lock:a", 10000);
  same((await refusal(short.extend(10000))).name, "LockError", "too late");
  same(await open[0].get("lock:a"), taken.value, "the second one's");
  await taken.unlock();
}

// Many clients add to a number that only the lock guards.
async function exclusion() {
  const shared = connect();
  const clients = Array.from({ length: 8 }, () => connect());
  await Promise.all(
    clients.map(async (redis) => {
      const lock = new Redlock([redis], { retryCount: -1, retryDelay: 2, retryJitter: 2 });
      for (let n = 0; n < 20; n += 1) {
        const held = await lock.lock("lock:number", 10000);
        const number = Number(await shared.get("number"));
        await shared.set("number", number + 1);
        await held.unlock();
      }
    }),
  );
  same(await shared.get("number"), "160", "nobody's step was lost");
}

async function windows() {
  const redis = connect();
  const limiter = new RateLimiterRedis({ storeClient: redis, keyPrefix: "rate", points: 5, duration: 60 });
  for (let n = 1; n <= 5; n += 1) same((await limiter.consume("a")).remainingPoints, 5 - n, "points left");
  const refused = await refusal(limiter.consume("a"));
  same([refused.remainingPoints, refused.consumedPoints, refused.isFirstInDuration], [0, 6, false], "no points left");
  same(refused.msBeforeNext > 0 && refused.msBeforeNext <= 60000, true, "a window of 60 s");
  same((await limiter.penalty("b", 3)).consumedPoints, 3, "a penalty");
  same((await limiter.reward("b", 2)).consumedPoints, 1, "a reward");
  same((await limiter.get("b")).remainingPoints, 4, "of 5");
  same(await limiter.delete("b"), true, "deleted");
  same(await limiter.get("b"), null, "nothing is known");
  await limiter.block("c", 100);
  same((await refusal(limiter.consume("c"))).msBeforeNext > 90000, true, "blocked");
  // A window that ends begins anew.
  const short = new RateLimiterRedis({ storeClient: redis, keyPrefix: "short", points: 1, duration: 2 });
  await short.consume("a");
  const wait = (await refusal(short.consume("a"))).msBeforeNext;
  await new Promise((done) => setTimeout(done, wait + 50));
  same((await short.consume("a")).consumedPoints, 1, "a new window");
  const blocking = new RateLimiterRedis({ storeClient: redis, keyPrefix: "stop", points: 1, duration: 2, blockDuration: 50 });
  await blocking.consume("a");
  same((await refusal(blocking.consume("a"))).msBeforeNext > 40000, true, "blocked for having asked too often");
}

// Of many that ask at once, as many as there are points are let through.
async function crowd() {
  const clients = Array.from({ length: 10 }, () => connect());
  const limiters = clients.map(
    (storeClient) => new RateLimiterRedis({ storeClient, keyPrefix: "crowd", points: 100, duration: 100 }),
  );
  const asked = Array.from({ length: 300 }, (_, n) => limiters[n % 10].consume("all").then(() => 1, () => 0));
  const granted = (await Promise.all(asked)).reduce((sum, one) => sum + one, 0);
  same(granted, 100, "let through");
  const options = (keyPrefix, points, duration) => ({ storeClient: clients[0], keyPrefix, points, duration });
  const bursty = new BurstyRateLimiter(
    new RateLimiterRedis(options("steady", 2, 100)),
    new RateLimiterRedis(options("burst", 3, 100)),
  );
  for (let n = 0; n < 5; n += 1) await bursty.consume("a");
  await refusal(bursty.consume("a"));
  checks += 1;
  const queue = new RateLimiterQueue(new RateLimiterRedis(options("queue", 2, 1)), { maxQueueSize: 10 });
  const left = await Promise.all(Array.from({ length: 4 }, () => queue.removeTokens(1)));
  same(left.length, 4, "those that wait get through in the next window");
}

async function main() {
  for (const part of [locks, exclusion, windows, crowd]) await part();
  open.forEach((redis) => redis.disconnect());
  console.log(`locks: ${checks} checks`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
