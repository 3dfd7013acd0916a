// Two Socket.IO servers that meet over Redis pub/sub, each at a server of its own, and a browser at each.
// Arguments: ioredis or redis, and the two ports. Prints what happened as JSON, a line each; a line on stdin asks for more.

const { createServer } = require("http");
const { createInterface } = require("readline");
const { Server } = require("socket.io");
const { io } = require("socket.io-client");
const { createAdapter } = require("@socket.io/redis-adapter");

const [library, ...ports] = process.argv.slice(2);
const print = (...words) => console.log(JSON.stringify(words));

async function connect(port) {
  if (library === "ioredis") {
    const { Redis } = require("ioredis");
    return [new Redis(port, "127.0.0.1"), new Redis(port, "127.0.0.1")];
  }
  const { createClient } = require("redis");
  const made = [0, 1].map(() => createClient({ url: `redis://127.0.0.1:${port}` }));
  await Promise.all(made.map((client) => client.connect()));
  return made;
}

async function serve(port) {
  const [publisher, subscriber] = await connect(port);
  const http = createServer();
  const server = new Server(http, { adapter: createAdapter(publisher, subscriber, { requestsTimeout: 10000 }) });
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  return { server, port: http.address().port };
}

async function main() {
  const sites = await Promise.all(ports.map(serve));
  const browsers = sites.map(({ port }) => io(`http://127.0.0.1:${port}`, { transports: ["websocket"] }));
  await Promise.all(browsers.map((browser) => new Promise((resolve) => browser.on("connect", resolve))));
  print("connected");
  for await (const line of createInterface({ input: process.stdin })) {
    if (line === "end") break;
    if (line === "fetch") {
      const found = await Promise.all(sites.map(({ server }) => server.fetchSockets()));
      print("fetched", ...found.map((sockets) => sockets.length));
      continue;
    }
    // Each server broadcasts: every browser receives both messages.
    const heard = browsers.map((browser) => new Promise((resolve) => {
      const words = [];
      const hear = (word) => { words.push(word); if (words.length === 2) { browser.off("news", hear); resolve(words.sort()); } };
      browser.on("news", hear);
    }));
    sites.forEach(({ server }, i) => server.emit("news", `${line} of ${i}`));
    print("heard", ...(await Promise.all(heard)));
  }
  process.exit(0);
}

main().catch((problem) => { print("failed", String(problem)); process.exit(1); });
