// What an ioredis client sees, as one line of JSON per event. The tests in test_ioredis.py run it and compare.
//
//   node scenarios.js SCENARIO HOST PORT PROTOCOL [PATTERN]
//
// A scenario ends by itself; the tests' time-out ends one that does not.

"use strict";

const { once } = require("node:events");
const Redis = require("ioredis");

const [scenario, host, port, protocol, pattern] = process.argv.slice(2);

function connect(options = {}) {
  const client = new Redis({ host, port: Number(port), protocol: Number(protocol), ...options });
  client.on("error", () => {}); // a lost connection is told by the events that follow it
  return client;
}

function tell(...event) {
  console.log(JSON.stringify(event));
}

// Resolves with the next message of a kind, whatever arguments it has.
async function next(client, event) {
  return await once(client, event);
}

async function names() {
  const subscriber = connect();
  const publisher = connect();
  tell("subscribed", await subscriber.subscribe("a", "b"));
  const first = next(subscriber, "message");
  tell("published", await publisher.publish("a", "hello"));
  tell("message", ...(await first));
  const second = next(subscriber, "messageBuffer");
  tell("published", await publisher.publish("b", Buffer.from([0, 255, 13, 10])));
  const [channel, payload] = await second;
  tell("messageBuffer", channel.toString(), [...payload]);
  tell("unsubscribed", await subscriber.unsubscribe("a"));
  tell("published", await publisher.publish("a", "unheard"));
  tell("unsubscribed", await subscriber.unsubscribe());
  tell("pinged", await subscriber.ping());
  tell("quit", await subscriber.quit(), await publisher.quit());
}

async function streams() {
  const client = connect();
  const writer = connect();
  const key = `streams-${process.pid}-${protocol}`;
  tell("added", await writer.xadd(key, "1-1", "n", "1"), await writer.xadd(key, "1-2", "n", "2"));
  tell("length", await client.xlen(key));
  tell("range", await client.xrange(key, "-", "+", "COUNT", 1));
  tell("group", await client.xgroup("CREATE", key, "g", "0"));
  const waiting = client.xreadgroup("GROUP", "g", "c", "COUNT", 10, "BLOCK", 0, "STREAMS", key, ">");
  const read = await waiting;
  tell("read", (Array.isArray(read) ? read : Object.entries(read))[0][1]);
  tell("pending", await client.xpending(key, "g", "-", "+", 10, "other"));
  tell("acked", await client.xack(key, "g", "1-1", "1-2"));
  const replies = await client.multi().xadd(key, "1-3", "n", "3").xlen(key).exec();
  tell("transaction", replies.map(([, reply]) => reply));
  tell("deleted", await client.del(key));
  tell("quit", await client.quit(), await writer.quit());
}

async function patterns() {
  const subscriber = connect();
  const publisher = connect();
  tell("subscribed", await subscriber.psubscribe("game.*", "game.?"));
  const seen = [];
  subscriber.on("pmessage", (...message) => seen.push(message));
  tell("published", await publisher.publish("game.a", "x"));
  tell("published", await publisher.publish("game.chat", "y"));
  tell("published", await publisher.publish("news", "z"));
  while (seen.length < 3) await next(subscriber, "pmessage");
  tell("pmessages", seen.map(String).sort());
  tell("unsubscribed", await subscriber.punsubscribe("game.?"));
  tell("unsubscribed", await subscriber.punsubscribe("game.*"));
  tell("quit", await subscriber.quit(), await publisher.quit());
}

async function shards() {
  const subscriber = connect();
  const publisher = connect();
  tell("subscribed", await subscriber.ssubscribe("s"));
  const message = next(subscriber, "smessage");
  tell("published", await publisher.spublish("s", "hello"));
  tell("smessage", ...(await message));
  tell("unsubscribed", await subscriber.sunsubscribe("s"));
  tell("published", await publisher.spublish("s", "unheard"));
  tell("quit", await subscriber.quit(), await publisher.quit());
}

async function order() {
  const subscriber = connect();
  const publisher = connect();
  await subscriber.subscribe("a");
  const seen = [];
  const all = new Promise((resolve) =>
    subscriber.on("message", (_, text) => seen.push(text) === 1000 && resolve()),
  );
  const pipeline = publisher.pipeline();
  for (let i = 0; i < 1000; i++) pipeline.publish("a", String(i));
  const replies = await pipeline.exec();
  await all;
  tell("replies", replies.every(([error, count]) => error === null && count === 1));
  tell("ordered", seen.every((text, i) => text === String(i)));
  tell("quit", await subscriber.quit(), await publisher.quit());
}

async function errors() {
  const client = connect();
  await client.subscribe("a").then((count) => tell("subscribed", count));
  const other = connect();
  await other.call("NOSUCH", "x").catch((error) => tell("error", error.message));
  await other.call("PUBLISH", "x").catch((error) => tell("error", error.message));
  tell("pinged", await other.ping("still there"));
  tell("named", await other.client("SETNAME", "me"), await other.client("GETNAME"));
  tell("quit", await client.quit(), await other.quit());
}

// The test kills the server once it reads "subscribed" and starts another once it reads "closed".
async function reconnect() {
  const subscriber = connect({ retryStrategy: () => 20 });
  const publisher = connect({ retryStrategy: () => 20, maxRetriesPerRequest: null });
  await subscriber.subscribe("a");
  await subscriber.psubscribe("a*");
  const closed = next(subscriber, "close");
  tell("subscribed");
  await closed;
  tell("closed");
  // ioredis subscribes again by itself after "ready"; the count says when the server has it.
  let counts;
  do {
    counts = [await publisher.pubsub("NUMSUB", "a"), await publisher.pubsub("NUMPAT")];
  } while (counts[0][1] !== 1 || counts[1] !== 1);
  const message = next(subscriber, "message");
  const pmessage = next(subscriber, "pmessage");
  tell("published", await publisher.publish("a", "back"));
  tell("message", ...(await message));
  tell("pmessage", ...(await pmessage));
  tell("quit", await subscriber.quit(), await publisher.quit());
}

// Only of a hub: Redis takes the text for a pattern that matches nothing.
async function filters() {
  const subscriber = connect();
  const publisher = connect();
  const text = "$filter stocks symbol = 'YHOO' and volume > 150";
  tell("subscribed", await subscriber.psubscribe(text));
  const message = next(subscriber, "pmessage");
  tell("published", await publisher.publish("stocks", '{"symbol": "IBM", "volume": 200}'));
  tell("published", await publisher.publish("stocks", '{"symbol": "YHOO", "volume": 200}'));
  tell("pmessage", ...(await message));
  tell("unsubscribed", await subscriber.punsubscribe(text));
  tell("published", await publisher.publish("stocks", '{"symbol": "YHOO", "volume": 200}'));
  tell("pinged", await subscriber.ping());
  tell("quit", await subscriber.quit(), await publisher.quit());
}

// Hears one message of a pattern or filter that another program publishes.
async function listen() {
  const subscriber = connect();
  const message = next(subscriber, "pmessage");
  tell("subscribed", await subscriber.psubscribe(pattern));
  tell("pmessage", ...(await message));
  tell("unsubscribed", await subscriber.punsubscribe(pattern));
  tell("quit", await subscriber.quit());
}

const scenarios = { filters, listen, names, streams, patterns, shards, order, errors, reconnect };
scenarios[scenario]().catch((error) => {
  console.error(error);
  process.exit(1);
});
