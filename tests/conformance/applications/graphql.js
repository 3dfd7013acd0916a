// Two GraphQL servers that share their subscriptions over Redis pub/sub, each at a server of its own, a client at each.
// Arguments: the two ports. Prints what happened as JSON, a line each; a line on stdin has both servers publish it.

const { createInterface } = require("readline");
const { Redis } = require("ioredis");
const { GraphQLObjectType, GraphQLSchema, GraphQLString, parse, subscribe } = require("graphql");
const { RedisPubSub } = require("graphql-redis-subscriptions");

const print = (...words) => console.log(JSON.stringify(words));

function serve(port) {
  const made = new RedisPubSub({ publisher: new Redis(port, "127.0.0.1"), subscriber: new Redis(port, "127.0.0.1") });
  const field = (trigger, options) => ({ type: GraphQLString, subscribe: () => made.asyncIterableIterator(trigger, options), resolve: (event) => event.text });
  const schema = new GraphQLSchema({
    query: new GraphQLObjectType({ name: "Query", fields: { nothing: { type: GraphQLString } } }),
    subscription: new GraphQLObjectType({ name: "Subscription", fields: { told: field("graphql.told"), any: field("graphql.room.*", { pattern: true }) } }),
  });
  return { pubsub: made, schema };
}

// What a client of the server is told, as it comes.
async function listen(schema, name) {
  const events = await subscribe({ schema, document: parse(`subscription { ${name} }`) });
  const heard = [];
  let wake = () => {};
  (async () => {
    for await (const event of events) {
      heard.push(event.data[name]);
      wake();
    }
  })();
  return async (count) => {
    while (heard.length < count) await new Promise((resolve) => { wake = resolve; });
    return heard.splice(0, count).sort();
  };
}

async function main() {
  const servers = process.argv.slice(2).map(serve);
  const clients = await Promise.all(servers.flatMap(({ schema }) => [listen(schema, "told"), listen(schema, "any")]));
  print("listening");
  for await (const line of createInterface({ input: process.stdin })) {
    await Promise.all(servers.flatMap(({ pubsub }, at) => ["graphql.told", "graphql.room.1"].map((trigger) => pubsub.publish(trigger, { text: `${line} of ${at}` }))));
    print("heard", ...await Promise.all(clients.map((take) => take(2))));
  }
  // Its connections would keep it.
  process.exit(0);
}

main();
