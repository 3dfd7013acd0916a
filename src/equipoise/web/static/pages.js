// One function per page: given the element to draw in, draws once and returns a function that refreshes.

import { drainHub, freeTopic, moveTopic, setLimits, told, undrainHub, unpinTopic } from "./acts.js";
import { get } from "./api.js";
import { bar, chart, clock, el, fill, millis, number, seconds, table, tile } from "./show.js";

export function overview(place) {
  const tiles = el("div", { class: "tiles" });
  const loads = chart("Load of each hub", [], (value) => (value === null ? "–" : `${Math.round(100 * value)} %`));
  const rates = chart("Messages per second", ["published", "delivered"]);
  const latency = chart("Latency", ["p50", "p99", "worst loop lag"], (value) => (value === null ? "–" : `${number(value, 1)} ms`));
  const hubs = el("div");
  const curves = history();
  place.replaceChildren(el("h1", {}, "Overview"), tiles, el("h2", {}, "Over time"), el("div", { class: "charts" }, loads.node, rates.node, latency.node), el("h2", {}, "Hubs"), hubs);
  return async () => {
    const [now, fresh, list] = await Promise.all([get("/api/overview"), get(`/api/curves?since_s=${curves.last()}`), get("/api/hubs")]);
    curves.add(fresh);
    fill(tiles,
      tile("hubs alive", number(now.hubs)), tile("topics with load", number(now.topics)),
      tile("published per second", number(now.publications_per_s)), tile("delivered per second", number(now.deliveries_per_s)),
      tile("latency p50", now.latency_ms.p50 === null ? "–" : `${number(now.latency_ms.p50, 1)} ms`),
      tile("latency p99", now.latency_ms.p99 === null ? "–" : `${number(now.latency_ms.p99, 1)} ms`),
      tile("worst loop lag", now.loop_lag_ms_worst === null ? "–" : `${number(now.loop_lag_ms_worst, 1)} ms`),
      tile("plan", `v${now.plan_version}`), tile("leader", now.leader || "none"),
      ...(now.hubs_without_bandwidth.length ? [tile("bandwidth unknown", `${number(now.hubs_without_bandwidth.length)} hubs`)] : []),
      ...(now.store_problem ? [tile("store", now.store_problem)] : []),
      ...(now.provisioner_problem ? [tile("provisioner failed", now.provisioner_problem)] : []),
      tile("pipeline lag", now.view_age_s === null ? "no view yet" : `${number(now.view_age_s, 1)} s`));
    const names = curves.hubs();
    loads.feed(curves.at_s, names.map((name) => curves.loads[name]), names);
    rates.feed(curves.at_s, [curves.publications_per_s, curves.deliveries_per_s]);
    latency.feed(curves.at_s, [curves.latency_ms_p50, curves.latency_ms_p99, curves.loop_lag_ms_worst]);
    fill(hubs, table(["hub", "load", "CPU", "loop lag", "out", "delivered/s", "connections", "site", "weight", "address", ""], list.map(hubRow)));
  };
}

// The samples that a page has, so that it requests only new ones. A hub that joins later has nulls before.
const COLUMNS_KEPT = ["at_s", "publications_per_s", "deliveries_per_s", "latency_ms_p50", "latency_ms_p99", "loop_lag_ms_worst"];
const SAMPLES_KEPT = 900;

function history() {
  const kept = { loads: {}, ...Object.fromEntries(COLUMNS_KEPT.map((name) => [name, []])) };
  kept.last = () => kept.at_s.at(-1) || 0;
  kept.hubs = () => Object.keys(kept.loads).sort();
  kept.add = (fresh) => {
    const before = kept.at_s.length, count = fresh.at_s.length;
    for (const name of COLUMNS_KEPT) kept[name].push(...fresh[name]);
    for (const name of Object.keys(fresh.loads)) kept.loads[name] ||= Array(before).fill(null);
    for (const [name, column] of Object.entries(kept.loads)) column.push(...(fresh.loads[name] || Array(count).fill(null)));
    const over = kept.at_s.length - SAMPLES_KEPT;
    if (over <= 0) return;
    for (const column of [...COLUMNS_KEPT.map((name) => kept[name]), ...Object.values(kept.loads)]) column.splice(0, over);
    for (const name of kept.hubs()) if (kept.loads[name].every((load) => load === null)) delete kept.loads[name];
  };
  return kept;
}

function hubRow(hub) {
  const name = el("span", { class: hub.is_alive ? "" : "dead" }, hub.hub, hub.is_alive ? "" : " (dead)");
  const isDrained = hub.weight === 0;
  return [name, bar(hub.load), hub.cpu_ratio === null ? "–" : `${Math.round(100 * hub.cpu_ratio)} %`, millis(hub.loop_lag_s),
    hub.out_bytes_per_s === null ? "–" : `${number(hub.out_bytes_per_s)}B/s`, number(hub.deliveries_per_s), number(hub.connections),
    hub.site || "–", hub.weight === null ? "–" : isDrained ? "drained" : number(hub.weight), hub.address || "–",
    isDrained ? el("button", { class: "quiet", onclick: () => undrainHub(hub.hub) }, "Undrain")
      : el("button", { class: "quiet", onclick: () => drainHub(hub.hub), disabled: hub.weight === null }, "Drain")];
}

const COLUMNS = [["name", "topic"], ["publications_per_s", "published/s"], ["deliveries_per_s", "delivered/s"], ["out_bytes_per_s", "out B/s"],
  ["publishers", "publishers"], ["subscribers", "subscribers"], ["latency_s_p50", "p50"], ["latency_s_p99", "p99"], ["latency_s_worst", "estimate"]];

export function topics(place) {
  let sort = "out_bytes_per_s";
  let offset = 0;
  const size = 100;
  const search = el("input", { type: "search", placeholder: "Part of a name", "aria-label": "Search topics" });
  const count = el("span", { class: "dim" });
  const list = el("div");
  const back = el("button", { class: "quiet", onclick: () => turn(-size) }, "Previous");
  const on = el("button", { class: "quiet", onclick: () => turn(size) }, "Next");
  const limits = el("button", { class: "quiet", onclick: setLimits }, "Set a limit");
  place.replaceChildren(el("h1", {}, "Topics"), el("div", { class: "tools" }, search, back, on, count, limits), list);
  search.addEventListener("input", () => { offset = 0; show(); });
  const turn = (by) => { offset = Math.max(0, offset + by); show(); };
  const show = told(() => refresh());
  const heading = ([column, label]) => el("button", { onclick: () => { sort = column; offset = 0; show(); }, "aria-pressed": sort === column }, label + (sort === column ? " ▾" : ""));

// Replies may overtake each other: only the one to the latest request is shown.
  let asked = 0;
  async function refresh() {
    const mine = ++asked;
    const found = await get(`/api/topics?sort=${sort}&offset=${offset}&limit=${size}&search=${encodeURIComponent(search.value)}`);
    if (mine !== asked) return;
    count.textContent = found.total ? `${offset + 1}–${Math.min(offset + size, found.total)} of ${number(found.total)}` : "none";
    back.disabled = offset === 0;
    on.disabled = offset + size >= found.total;
    fill(list, table([...COLUMNS.map(heading), "limit", "mode", "hubs"], found.topics.map(topicRow)));
  }
  return refresh;
}

// Latency by coordinates is an estimate, and is marked as one.
const estimated = (value_s) => (value_s === null || value_s === undefined ? "–" : `≈ ${millis(value_s)}`);

function limitWords(topic) {
  if (topic.latency_limit_ms === null) return "none";
  const verdict = topic.is_held === null ? "" : topic.is_held ? ", held" : ", broken";
  return `${number(topic.latency_limit_ms)} ms at p${number(100 * topic.latency_quantile, 1)}${verdict}`;
}

// The rate limit: each hub's share of it, the delays of messages, and the results of replays of arrivals.
function envelopeTiles(envelope) {
  if (!envelope) return [];
  const shares = envelope.shares.map((share) => `${share.hub} ${number(share.rate_per_s, 1)}/s, ${number(share.burst_messages, 1)}`);
  const tiles = [tile("rate limit", `${number(envelope.rate_per_s, 1)}/s, bursts of ${number(envelope.burst_messages)}`), tile("longest access delay", millis(envelope.access_delay_s_max))];
  if (shares.length > 1) {
    tiles.push(tile("shares", shares.join("; ")));
    const seats = envelope.shares.map((share) => `${share.hub} ${number(100 * share.seats_ratio)} %, ${share.publications_per_s === null ? "–" : number(share.publications_per_s, 1)}/s`);
    tiles.push(tile(envelope.seat_order ? `seats, by found order ${envelope.seat_order}` : "seats", seats.join("; ")));
  }
  const fit = envelope.fit;
  const found = fit && fit.hubs ? `${fit.hubs}: ${millis(fit.latency_s)}, ${fit.is_confirmed ? "confirmed" : "being tried"}` : "";
  tiles.push(tile("hubs that meet the latency limit", [found, envelope.fit_doubt].filter(Boolean).join("; ")));
  return tiles;
}

// Admitted, rejected and delayed messages of each hub: homes and those that forward messages of their clients.
const envelopeHubs = (envelope) => table(["hub", "share", "admitted per second", "waiting", "refused per second", "longest access delay"], envelope.hubs.map((row) => {
  const share = envelope.shares.find((one) => one.hub === row.hub);
  return [row.hub, share ? `${number(share.rate_per_s, 1)}/s, ${number(share.burst_messages, 1)}` : "–", number(row.admitted_per_s, 1), number(row.waiting),
    number(row.refused_per_s, 1), millis(row.access_delay_s_max)];
}));

// Heads and edges of a content topic: the tree, the load of each edge, and the result of its latest session.
const ratios = (row, when) => (row[`content_${when}input_ratio`] === null ? "–"
  : `${number(row[`content_${when}input_ratio`], 2)} / ${number(row[`content_${when}output_ratio`], 2)} / ${millis(row[`content_${when}delay_s`])}`);

function contentTree(rows) {
  const below = (hub) => rows.filter((row) => row.follows === hub);
  const depth = (row) => (row.follows === null ? 0 : 1 + depth(rows.find((other) => other.hub === row.follows)));
  const ordered = [];
  const walk = (row) => { ordered.push(row); below(row.hub).forEach(walk); };
  rows.filter((row) => row.follows === null).forEach(walk);
  return table(["hub", "role", "state", "subscriptions", "input / output / delay", "sessions", "moved away", "came", "publishers moved", "estimated", "realised"], ordered.map((row) => [
    `${"\u2003".repeat(depth(row))}${depth(row) ? "└ " : ""}${row.hub}`, row.is_edge ? "edge" : "head", row.content_state || "–", number(row.content_subscriptions),
    ratios(row, ""), number(row.content_sessions), number(row.content_moved), number(row.content_came), number(row.content_publishers_moved), ratios(row, "estimated_"), ratios(row, "realised_")]));
}

function topicRow(topic) {
  const held = topic.is_held === null ? "dim" : topic.is_held ? "held" : "broken";
  const limit = topic.latency_limit_ms === null ? "–" : `${number(topic.latency_limit_ms)} ms ${topic.is_held === null ? "" : topic.is_held ? "held" : "broken"}`;
  return [el("a", { href: `#/topic/${topic.id}` }, topic.topic), number(topic.publications_per_s, 1), number(topic.deliveries_per_s, 1),
    number(topic.out_bytes_per_s), number(topic.publishers), number(topic.subscribers), millis(topic.latency_s_p50), millis(topic.latency_s_p99), estimated(topic.latency_s_worst),
    el("span", { class: held }, limit), topic.mode, topic.homes.join(", ") || "nowhere"];
}

export function topic(place, id) {
  const title = el("h1", {}, id);
  const tiles = el("div", { class: "tiles" });
  const rate = chart("Published per second", ["published"]);
  const latency = chart("Latency against its limit", ["p99 measured", "worst by coordinates", "limit"], (value) => (value === null ? "–" : `${number(value, 1)} ms`));
  const changes = el("div");
  const limits = el("div");
  const tree = el("div");
  const move = el("button", { onclick: () => moveTopic(id) }, "Move");
  const free = el("button", { class: "quiet", onclick: () => freeTopic(id) }, "Return to the ring");
  const unpin = el("button", { class: "quiet", onclick: () => unpinTopic(id) }, "Unpin");
  place.replaceChildren(title, el("div", { class: "tools" }, move, unpin, free), tiles, el("div", { class: "charts" }, rate.node, latency.node), limits, tree, el("h2", {}, "Homes and reasons of moves"), changes);
  return async () => {
    const path = `/api/topics/${id}`;
    const [now, plans] = await Promise.all([get(path), get(`${path}/plans`)]);
    title.textContent = now.topic;
    free.disabled = !now.has_entry;
    unpin.disabled = !now.is_pinned;
    fill(tiles,
      tile("lives at", now.homes.join(", ") || "nowhere"), tile("mode", now.mode), tile("published per second", number(now.publications_per_s, 1)),
      tile("delivered per second", number(now.deliveries_per_s, 1)), tile("publishers", number(now.publishers)), tile("subscribers", number(now.subscribers)),
      tile("latency p50", millis(now.latency_s_p50)), tile("latency p99", millis(now.latency_s_p99)), tile("slowest pair", millis(now.latency_s_max)), tile("worst by coordinates", estimated(now.latency_s_worst)), tile("at its home by coordinates", estimated(now.latency_s_expected)),
      ...(now.filters ? [tile("filters", number(now.filters)), tile("delivered by filter per second", number(now.filter_matches_per_s, 1)),
        tile("matching, of a core", `${number(100 * now.matching_ratio, 1)} %`), tile("not sent between hubs per second", number(now.kept_off_per_s, 1))] : []),
      tile("limit", limitWords(now)), ...envelopeTiles(now.envelope), tile("pinned to", now.is_pinned ? now.homes.join(", ") : now.site || "–"));
    fill(limits, ...(now.envelope && now.envelope.hubs.length ? [el("h2", {}, "Rate limit by hub"), envelopeHubs(now.envelope)] : []));
    fill(tree, ...(now.content ? [el("h2", {}, "Heads and edges"), contentTree(now.content)] : []));
    rate.feed(now.curve.at_s, [now.curve.publications_per_s]);
    const curves = [now.curve.latency_s_p99, now.curve.latency_s_worst];
    latency.node.hidden = curves.every((curve) => curve.every((value) => value === null));
    latency.feed(now.curve.at_s, [...curves.map((curve) => curve.map((value) => (value === null ? null : 1000 * value))), now.curve.at_s.map(() => now.latency_limit_ms)]);
    fill(changes, plans.length ? lived(plans) : el("p", { class: "dim" }, "The hash ring places it; it was never moved."));
  };
}

// From the changes of one topic, the latest first: its homes, with times and reasons.
function lived(plans) {
  const rows = plans.map((change, at) => {
    const [part] = change.entries;
    const until = at ? plans[at - 1].at_s : null;
    const stayed = until === null ? "still" : seconds(until - change.at_s);
    const where = part.homes.length ? placed(part) : "by the ring";
    return [clock(change.at_s), stayed, where, el("td", { class: "wrap" }, el("strong", {}, part.reason), reasons(part)), `v${change.version}`];
  });
  return el("div", { class: "left" }, table(["from", "for", "lived at", "why", "plan"], rows));
}

export function logs(place) {
  const tiles = el("div", { class: "tiles" });
  const bookies = el("div");
  const list = el("div");
  place.replaceChildren(el("h1", {}, "Logs"), tiles, el("h2", {}, "Bookies"), bookies, el("h2", {}, "Logs of topics"), list);
  return async () => {
    const found = await get("/api/durable");
    fill(tiles, tile("bookies", number(found.bookies.length)), tile("logs", number(found.logs.length) + (found.is_partial ? " and more" : "")),
      tile("ledgers", number(found.ledgers)), tile("under-replicated", number(found.ledgers_under_replicated)));
    fill(bookies, found.bookies.length ? table(["bookie", "state", "room", "free", "sync p99", "ledgers", "site", "rack", "address"], found.bookies.map(bookieRow))
      : el("p", { class: "dim" }, "There is no bookie: `equipoise bookie` starts one, `equipoise up --bookies 3` several."));
    fill(list, found.logs.length ? table(["topic", "owner", "entries", "bytes", "lag", "ledgers", "epoch"], found.logs.map(logRow))
      : el("p", { class: "dim" }, "No topic has a log yet."));
  };
}

function bookieRow(bookie) {
  const used = bookie.total_bytes ? 1 - bookie.free_bytes / bookie.total_bytes : null;
  return [el("span", { class: bookie.is_alive ? "" : "dead" }, bookie.bookie), bookie.state, bar(used),
    bookie.total_bytes ? `${number(bookie.free_bytes)}B` : "–", millis(bookie.sync_s_p99), number(bookie.ledgers),
    bookie.site || "–", bookie.rack || "–", bookie.address || "–"];
}

function logRow(log) {
  return [el("a", { href: `#/topic/${log.id}` }, log.topic), log.problem ? el("span", { class: "broken" }, log.problem) : log.owner || "none", number(log.log_entries),
    number(log.log_bytes), number(log.log_lag), number(log.ledgers), log.epoch ? String(log.epoch) : "–"];
}

export function plans(place) {
  const list = el("div");
  place.replaceChildren(el("h1", {}, "Plans"), list);
  return async () => {
    const found = await get("/api/plans?limit=100");
    fill(list, ...(found.length ? found.map(changeNode) : [el("p", { class: "dim" }, "There is no plan yet.")]));
  };
}

function changeNode(change) {
  const parts = [
    ...change.members.map((part) => el("li", {}, part.weight === null ? `${part.hub} is out` : `${part.hub} takes part with weight ${part.weight}`, why(part))),
    ...change.entries.map((part) => el("li", {}, el("a", { href: `#/topic/${part.id}` }, part.topic), ` → ${part.homes.length ? placed(part) : "the ring"}`, why(part))),
  ];
  const more = change.moves - change.entries.length;
  if (more > 0) parts.push(el("li", { class: "dim" }, `and ${number(more)} more`));
  return el("article", { class: "change" }, el("strong", {}, `v${change.version}`), el("span", { class: "dim" }, ` ${clock(change.at_s)} by ${change.writer || "unknown"}`), el("ul", {}, parts));
}

const placed = (part) => part.homes.join(", ") + (part.mode === "single" ? "" : ` (${part.mode})`) + (part.is_pinned ? ", pinned" : "");

function reasons(part) {
  const numbers = Object.entries(part.numbers).map(([name, value]) => `${name} ${number(value, 2)}`).join(", ");
  return el("span", { class: "dim" }, `${part.note ? `: ${part.note}` : ""}${numbers ? ` (${numbers})` : ""}`);
}

const why = (part) => el("span", { class: "dim" }, ` · ${part.reason}`, reasons(part));

export { map } from "./map.js";
