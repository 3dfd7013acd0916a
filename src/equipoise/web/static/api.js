// Everything that is asked of the controller, and the token that goes with it.

const KEY = "equipoise-token";
// All ports of a machine share their cookies, and each may have a system of its own.
const COOKIE = `${KEY}-${location.port || "web"}`;

export function token() {
  return sessionStorage.getItem(KEY) || "";
}

export function keepToken(value) {
  if (value) sessionStorage.setItem(KEY, value);
  else sessionStorage.removeItem(KEY);
  // The stream of events cannot carry a header: a cookie that only this site gets, for this visit, does it.
  document.cookie = `${COOKIE}=${encodeURIComponent(value)}; path=/; SameSite=Strict${value ? "" : "; max-age=0"}`;
}

export class Refused extends Error {}

async function answer(response) {
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  const text = body.error || `the controller answered ${response.status}`;
  throw response.status === 401 ? new Refused(text) : new Error(text);
}

function headers(shown) {
  return shown ? { Authorization: `Bearer ${shown}` } : {};
}

export async function get(path, shown = token()) {
  return answer(await fetch(path, { headers: headers(shown) }));
}

export async function post(path, body) {
  const sent = { method: "POST", headers: { ...headers(token()), "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return answer(await fetch(path, sent));
}

// Calls back with every overview, and with null while there is no connection. Returns what ends it.
export function listen(onOverview) {
  const source = new EventSource("/api/events");
  source.addEventListener("overview", (event) => onOverview(JSON.parse(event.data)));
  source.onerror = () => onOverview(null);
  return () => source.close();
}
