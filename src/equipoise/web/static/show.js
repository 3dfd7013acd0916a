// Building blocks of pages. Text never becomes markup: nodes are built, not parsed.

export function el(tag, attributes = {}, ...children) {
  const node = tag === "svg" || SVG.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) node.append(child);
  return node;
}

const SVG = new Set(["circle", "line", "rect", "g", "text", "title", "path"]);

export function number(value, digits = 0) {
  if (value === null || value === undefined) return "–";
  if (value >= 1e9) return `${(value / 1e9).toFixed(1)} G`;
  if (value >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(1)} k`;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

export const percent = (value) => (value === null || value === undefined ? "–" : `${Math.round(100 * value)} %`);
export const millis = (value) => (value === null || value === undefined ? "–" : `${number(1000 * value, 1)} ms`);
export const seconds = (value) => (value >= 3600 ? `${number(value / 3600, 1)} h` : value >= 60 ? `${number(value / 60, 1)} min` : `${number(value, 1)} s`);
export const clock = (seconds) => new Date(1000 * seconds).toLocaleTimeString();

export function bar(ratio) {
  if (ratio === null || ratio === undefined) return "–";
  const kind = ratio > 0.8 ? "full" : ratio > 0.6 ? "high" : "";
  const inner = el("i", { class: kind });
  inner.style.width = `${Math.min(100, 100 * ratio)}%`;
  return el("span", {}, el("span", { class: "bar", title: percent(ratio) }, inner), percent(ratio));
}

// Replaces the nodes, unless they look the same: a button about to be clicked must not move.
export function fill(place, ...nodes) {
  const fresh = document.createElement("div");
  fresh.append(...nodes.flat());
  if (fresh.innerHTML !== place.innerHTML) place.replaceChildren(...fresh.childNodes);
}

export function tile(label, value) {
  return el("div", { class: "tile" }, el("b", {}, value), el("span", {}, label));
}

export function table(headings, rows) {
  const head = el("tr", {}, headings.map((heading) => el("th", { scope: "col" }, heading)));
  const body = rows.map((row) => el("tr", {}, row.map((cell) => (cell instanceof Node && cell.tagName === "TD" ? cell : el("td", {}, cell)))));
  return el("div", { class: "scroll" }, el("table", {}, el("thead", {}, head), el("tbody", {}, body)));
}

const COLOURS = ["#0f7173", "#d1603d", "#5b5ea6", "#8a9a2b", "#b4436c", "#2a82c9", "#96690a", "#4a8f6d"];

// A chart that is updated: `feed(times, columns)` with one column per label.
export function chart(title, labels, format = (value) => number(value)) {
  const holder = el("div", { class: "card" }, el("h2", {}, title));
  let plot = null;
  let shown = "";
  const ink = getComputedStyle(document.body).getPropertyValue("--dim");
  const make = (names) => {
    if (plot) plot.destroy();
    shown = names.join("\n");
    const axis = { stroke: ink, grid: { stroke: "rgb(128 128 128 / .15)" } };
    const series = names.map((name, at) => ({
      label: name, stroke: COLOURS[at % COLOURS.length], width: 1.6, value: (_, value) => format(value), spanGaps: false, points: { size: 3 },
    }));
    plot = new uPlot({
      width: Math.max(240, holder.clientWidth - 26), height: 180, series: [{}, ...series],
      axes: [axis, { ...axis, size: 62, values: (_, ticks) => ticks.map(format) }], scales: { y: { range: (_, low, high) => [0, Math.max(high, 1e-9)] } },
    }, [[], ...names.map(() => [])], holder);
  };
  new ResizeObserver(() => plot && plot.setSize({ width: Math.max(240, holder.clientWidth - 26), height: 180 })).observe(holder);
  return {
    node: holder,
    feed(times, columns, names = labels) {
      if (names.join("\n") !== shown) make(names);
      plot.setData([times, ...columns]);
    },
  };
}

// Asks for confirmation. `fields` are inputs by name; resolves to their values, or null.
export function ask(title, text, fields = {}) {
  const dialog = document.getElementById("dialog");
  document.getElementById("dialog-title").textContent = title;
  const labelled = Object.entries(fields).map(([name, input]) => el("label", {}, name, input));
  document.getElementById("dialog-body").replaceChildren(el("p", {}, text), ...labelled);
  dialog.returnValue = "cancel";
  // No submit button: Enter in a field confirms.
  document.getElementById("dialog-cancel").onclick = () => dialog.close("cancel");
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const values = Object.fromEntries(Object.entries(fields).map(([name, input]) => [name, input.value.trim()]));
      resolve(dialog.returnValue === "ok" ? values : null);
    }, { once: true });
  });
}

let hiding = 0;
export function notice(text) {
  const node = document.getElementById("notice");
  node.textContent = text;
  node.hidden = !text;
  clearTimeout(hiding);
  if (text) hiding = setTimeout(() => { node.hidden = true; }, 8000);
}
