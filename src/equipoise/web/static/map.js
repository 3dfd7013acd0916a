// The map: by network coordinates if hubs have them, else by site.

import { get } from "./api.js";
import { el, fill, millis, number, percent } from "./show.js";

const WIDTH = 960, HEIGHT = 520, MARGIN = 70;
const NAMED_MAX = 12;
const COLOURS = { held: "var(--good)", broken: "var(--bad)", unknown: "var(--dim)" };

export function map(place) {
  const holder = el("div");
  place.replaceChildren(el("h1", {}, "Map"), holder);
  return async () => {
    const found = await get("/api/map");
    if (found.is_located) return fill(holder, drawPlane(found.hubs, found.topics), legend());
    const [hubs, list] = await Promise.all([get("/api/hubs"), get("/api/topics?limit=200")]);
    fill(holder, drawSites(hubs.filter((hub) => hub.is_alive), list.topics), el("p", { class: "dim" }, "By site: no hub has a coordinate yet."));
  };
}

const loadColour = (load) => (load > 0.8 ? "var(--bad)" : load > 0.6 ? "var(--warn)" : "var(--good)");
const standing = (topic) => (topic.is_held === null ? "unknown" : topic.is_held ? "held" : "broken");

// Milliseconds to pixels, with the same scale on both axes, so that lengths are round trips.
function scale(spots) {
  const xs = spots.map((spot) => spot.x_ms), ys = spots.map((spot) => spot.y_ms);
  const low = { x: Math.min(...xs), y: Math.min(...ys) }, high = { x: Math.max(...xs), y: Math.max(...ys) };
// A picture of one machine is not enlarged to the size of a continent.
  const factor = Math.min((WIDTH - 2 * MARGIN) / Math.max(high.x - low.x, 1), (HEIGHT - 2 * MARGIN) / Math.max(high.y - low.y, 1));
  const middle = { x: (low.x + high.x) / 2, y: (low.y + high.y) / 2 };
  return { factor, at: (spot) => ({ x: WIDTH / 2 + factor * (spot.x_ms - middle.x), y: HEIGHT / 2 + factor * (spot.y_ms - middle.y) }) };
}

function drawPlane(hubs, topics) {
  const { factor, at } = scale([...hubs, ...topics]);
  const homes = new Map(hubs.map((hub) => [hub.hub, at(hub)]));
  const write = writer([...homes.values()]);
  const drawnHubs = drawHubs(hubs, homes, write);
// With all names the labels would overlap.
  const isNamed = topics.filter((topic) => topic.latency_limit_ms !== null).length <= NAMED_MAX;
  return el("svg", { class: "map", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "Hubs and topics by network distance" },
    drawRings(hubs, at), topics.map((topic) => drawTopic(topic, at(topic), homes, isNamed && topic.latency_limit_ms !== null ? write : null)), drawnHubs, drawRuler(factor));
}

// A ring around the hubs of each site, with its name.
function drawRings(hubs, at) {
  const sites = [...new Set(hubs.map((hub) => hub.site))].filter(Boolean).sort();
  return sites.map((site) => {
    const spots = hubs.filter((hub) => hub.site === site).map(at);
    const x = spots.reduce((sum, spot) => sum + spot.x, 0) / spots.length, y = spots.reduce((sum, spot) => sum + spot.y, 0) / spots.length;
    const reach = 30 + Math.max(...spots.map((spot) => Math.hypot(spot.x - x, spot.y - y)));
    return el("g", {}, el("circle", { class: "site", cx: x, cy: y, r: reach }), el("text", { x, y: Math.max(14, y - reach - 6), "text-anchor": "middle" }, site));
  });
}

function drawHubs(hubs, homes, write) {
  return hubs.map((hub) => {
    const { x, y } = homes.get(hub.hub);
    return el("g", { class: "hub" }, el("circle", { cx: x, cy: y, r: 9, fill: loadColour(hub.load) }, el("title", {}, `${hub.hub}: ${percent(hub.load)}`)), write(hub.hub, x + 13, y + 4));
  });
}

// Writes a name beside its point, higher or lower if the place is taken by a hub or another name.
function writer(spots) {
  const taken = spots.map(({ x, y }) => ({ x: x - 10, y: y + 4, width: 20 }));
  return (text, x, y) => {
    const width = 7 * text.length;
    const isFree = (at) => taken.every((one) => Math.abs(one.y - at) >= 14 || one.x + one.width < x || x + width < one.x);
    const shift = [0, 16, -16, 32, -32, 48, -48, 64].find((by) => isFree(y + by)) || 0;
    taken.push({ x, y: y + shift, width });
    return el("text", { x, y: y + shift }, text);
  };
}

function drawTopic(topic, spot, homes, write) {
  const colour = COLOURS[standing(topic)];
  const limit = topic.latency_limit_ms === null ? "no limit" : `limit ${number(topic.latency_limit_ms)} ms, ${standing(topic)}`;
  const words = `${topic.topic} at ${topic.homes.join(", ")}: p99 ${millis(topic.latency_s_p99)}, ≈ ${millis(topic.latency_s_worst)} by coordinates, ${limit}`;
  const lines = topic.homes.filter((home) => homes.has(home)).map((home) => el("line", { x1: spot.x, y1: spot.y, x2: homes.get(home).x, y2: homes.get(home).y, stroke: colour, "stroke-width": 1, opacity: 0.5 }));
  const size = 3 + Math.min(5, Math.log10(1 + (topic.publications_per_s || 0)));
  return el("g", { class: `topic ${standing(topic)}` }, lines, el("circle", { cx: spot.x, cy: spot.y, r: size, fill: colour, opacity: 0.85 }, el("title", {}, words)), write && write(topic.topic, spot.x + size + 4, spot.y - 8));
}

function drawRuler(factor) {
  const steps = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
  const length = steps.find((step) => step * factor >= 60) || 1000;
  const x = 20, y = HEIGHT - 20;
  return el("g", { class: "ruler" }, el("line", { x1: x, y1: y, x2: x + length * factor, y2: y, stroke: "var(--ink)" }), el("text", { x, y: y - 6 }, `${length} ms round trip`));
}

function legend() {
  const words = { held: "limit held", broken: "limit broken", unknown: "no limit, or unknown" };
  const parts = Object.entries(words).map(([kind, text]) => el("span", { class: kind === "unknown" ? "dim" : kind }, `● ${text}. `));
  return el("p", {}, parts, el("span", { class: "dim" }, "Each topic is at the centre of its clients, with a line to its home. Heights (access links) are not drawn."));
}

// Sites side by side, hubs on them by load, topics at their homes.
function drawSites(hubs, list) {
  const sites = [...new Set(hubs.map((hub) => hub.site || "no site"))].sort();
  const width = 960, cell = width / Math.max(1, sites.length), height = 420;
  const at = new Map();
  const nodes = sites.map((site, column) => {
    const inside = hubs.filter((hub) => (hub.site || "no site") === site);
    const drawn = inside.map((hub, row) => {
      const x = cell * (column + 0.5), y = 70 + (row + 0.5) * ((height - 90) / inside.length);
      at.set(hub.hub, { x, y });
      return el("g", {}, el("circle", { cx: x, cy: y, r: 12, fill: loadColour(hub.load) }, el("title", {}, `${hub.hub}: ${percent(hub.load)}`)), el("text", { x: x + 18, y: y + 4 }, hub.hub));
    });
    return el("g", {}, el("rect", { class: "site", x: cell * column + 8, y: 34, width: cell - 16, height: height - 44, rx: 8 }), el("text", { x: cell * column + 16, y: 24 }, site), drawn);
  });
  const seen = new Map();
  const dots = list.filter((topic) => topic.homes.some((home) => at.has(home))).map((topic) => {
    const name = topic.homes.find((one) => at.has(one));
    const home = at.get(name), number = seen.get(name) || 0;
    seen.set(name, number + 1);
    const angle = number * 2.39996, reach = 22 + 3.2 * Math.sqrt(number);
    const x = home.x + reach * Math.cos(angle), y = home.y + reach * Math.sin(angle) * 0.8;
    return el("circle", { cx: x, cy: y, r: 2 + Math.min(5, Math.log10(1 + topic.publications_per_s)), fill: topic.is_held === false ? "var(--bad)" : "var(--accent)", opacity: 0.75 }, el("title", {}, `${topic.topic} at ${topic.homes.join(", ")}`));
  });
  return el("svg", { class: "map", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Sites, hubs and topics" }, nodes, dots);
}
