// Operator actions: confirm, send, show the result. Errors are shown on the page, never thrown.

import { get, post } from "./api.js";
import { ask, el, notice } from "./show.js";

// Runs the function and shows its result, if it has one, or its error.
export const told = (work) => async (...given) => {
  try {
    const words = await work(...given);
    if (words) notice(words);
  } catch (problem) {
    notice(problem.message);
  }
};

export const drainHub = told(async (hub) => {
  if (!await ask(`Drain ${hub}?`, "It receives no more topics, and all its topics move to other hubs. Clients stay connected.")) return null;
  await post("/api/drain", { hub });
  return `${hub} is being drained`;
});

export const undrainHub = told(async (hub) => {
  if (!await ask(`Put ${hub} back into service?`, "It gets an ordinary hub's share of the topics. Clients do not notice.")) return null;
  await post("/api/weigh", { hub });
  return `${hub} takes topics again`;
});

export const moveTopic = told(async (id) => {
  const hubs = (await get("/api/hubs")).filter((hub) => hub.is_alive && hub.weight);
  const chosen = el("select", { multiple: true, size: Math.min(6, hubs.length) }, hubs.map((hub) => el("option", { value: hub.hub }, hub.hub)));
  const mode = el("select", {}, ["single", "all-subscribers", "all-publishers", "content"].map((name) => el("option", { value: name }, name)));
  const pin = el("input", { type: "checkbox", checked: true });
  const confirmed = await ask("Move the topic?", "Choose one hub, or several and a mode. No message is lost.", { Hubs: chosen, Mode: mode, "Pin it there": pin });
  if (!confirmed) return null;
  const names = [...chosen.selectedOptions].map((option) => option.value);
  if (!names.length) return "choose at least one hub";
  await post("/api/move", { topic: id, hubs: names, mode: names.length > 1 ? mode.value : "single", is_pinned: pin.checked });
  return `moving to ${names.join(", ")}${pin.checked ? ", pinned" : ""}`;
});

export const unpinTopic = told(async (id) => {
  const now = await get(`/api/topics/${id}`);
  if (!await ask("Unpin the topic?", "It stays until the planner moves it for load or latency.")) return null;
  await post("/api/move", { topic: id, hubs: now.homes, mode: now.mode, is_pinned: false });
  return "the planner may move it again";
});

export const freeTopic = told(async (id) => {
  if (!await ask("Return the topic to the ring?", "Its plan entry is removed.")) return null;
  await post("/api/move", { topic: id, hubs: [] });
  return "the ring places it again";
});

// The form shows the present spec of the pattern; only changed fields are sent.
export const setLimits = told(async () => {
  const said = await get("/api/limits");
  const pattern = el("input", { placeholder: "game.*" });
  const fields = { latency_ms: el("input", { placeholder: "40 ms" }), site: el("input", { placeholder: "none" }) };
  const typed = new Set();
  for (const [name, input] of Object.entries(fields)) input.addEventListener("input", () => typed.add(name));
  pattern.addEventListener("input", () => {
    const found = said.find((spec) => spec.pattern === pattern.value.trim()) || {};
    for (const [name, input] of Object.entries(fields)) if (!typed.has(name)) input.value = found[name] ?? "";
  });
  const values = await ask("Set a limit", "For all topics that match the pattern. An empty field removes its limit.",
    { Pattern: pattern, "Latency in ms": fields.latency_ms, "Pinned to site": fields.site });
  if (!values) return null;
  if (!values.Pattern) return "name a pattern, such as game.*";
  if (!typed.size) return "nothing was changed";
  const body = { pattern: values.Pattern };
  if (typed.has("latency_ms")) body.latency_ms = milliseconds(values["Latency in ms"]);
  if (typed.has("site")) body.site = values["Pinned to site"];
  const { spec } = await post("/api/limits", body);
  return spec === null ? `removed spec ${values.Pattern}` : `${values.Pattern}: ${specWords(spec)}`;
});

// 40, 40ms or 40 ms; empty stays empty. Throws on any other text.
export function milliseconds(text) {
  if (text === "") return "";
  const found = /^(\d+(?:\.\d+)?)\s*(?:ms)?$/.exec(text);
  const value = found ? Number(found[1]) : 0;
  if (!(value > 0 && value < Infinity)) throw new Error(`“${text}” is no latency: give milliseconds above 0, such as 40 or 40 ms`);
  return value;
}

function specWords(spec) {
  const parts = [];
  if (spec.latency_ms !== null) parts.push(`latency ${spec.latency_ms} ms`);
  if (spec.site !== null) parts.push(`pinned to ${spec.site}`);
  if (spec.rate_per_s !== null) parts.push(`rate ${spec.rate_per_s}/s`);
  if (spec.durability !== null) parts.push("durable");
  return parts.join(", ");
}
