// All requests to the controller, with the token.

const KEY = "equipoise-token";
const RETRY_MS = 2000;

// Kept for this session and this origin. Never a cookie: browsers send cookies to every port of the host.
export function token() {
  return sessionStorage.getItem(KEY) || "";
}

export function keepToken(value) {
  if (value) sessionStorage.setItem(KEY, value);
  else sessionStorage.removeItem(KEY);
}

export class Refused extends Error {
  constructor(text, shown) {
    super(text);
    this.shown = shown;
  }
}

async function answer(response, shown) {
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  const text = body.error || `the controller answered ${response.status}`;
  throw response.status === 401 ? new Refused(text, shown) : new Error(text);
}

function headers(shown) {
  return shown ? { Authorization: `Bearer ${shown}` } : {};
}

export async function get(path, shown = token()) {
  return answer(await fetch(path, { headers: headers(shown) }), shown);
}

export async function post(path, body) {
  const shown = token();
  const sent = { method: "POST", headers: { ...headers(shown), "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return answer(await fetch(path, sent), shown);
}

// Calls back with every overview, and with null while disconnected. Returns a function that ends it.
// A fetch instead of an EventSource, which could not carry the token in a header.
export function listen(onOverview) {
  const ending = new AbortController();
  follow(onOverview, ending.signal);
  return () => ending.abort();
}

async function follow(onOverview, signal) {
  while (!signal.aborted) {
    let isRefused = false;
    try {
      const response = await fetch("/api/events", { headers: headers(token()), signal });
      isRefused = response.status === 401;
      if (response.ok) await readEvents(response.body, onOverview);
    } catch {
// The connection is lost, or could not be opened.
    }
    if (signal.aborted) return;
    onOverview(null);
    if (isRefused) return;
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

async function readEvents(body, onOverview) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (text + value).split("\n\n");
    text = events.pop();
    for (const event of events) {
      const line = event.split("\n").find((one) => one.startsWith("data: "));
      if (line) onOverview(JSON.parse(line.slice(6)));
    }
  }
}
