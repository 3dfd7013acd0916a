// Which page is shown, and when it is refreshed: with every overview that the controller sends.

import { Refused, get, keepToken, listen, token } from "./api.js";
import { ask, el, notice } from "./show.js";
import * as pages from "./pages.js";

const place = document.getElementById("page");
const state = document.getElementById("state");
let refresh = null;
let isBusy = false;

function route() {
  const [, name = "", argument = ""] = location.hash.split("/");
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#/${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (name === "topic") refresh = pages.topic(place, argument);
  else refresh = (pages[name] || pages.overview)(place);
  isBusy = false;
  update();
}

async function update() {
  if (isBusy || !refresh || document.hidden) return;
  isBusy = true;
  const mine = refresh;
  try {
    await mine();
  } catch (problem) {
    if (mine === refresh) notice(problem.message);
    if (problem instanceof Refused) state.textContent = "log in";
  } finally {
    if (mine === refresh) isBusy = false;
  }
}

function onOverview(now) {
  state.className = `state ${now ? now.state : "lost"}`;
  state.textContent = now ? (now.frozen ? `frozen: ${now.frozen}` : now.state) : "not connected";
  if (now) update();
}

let stop = listen(onOverview);

const login = document.getElementById("login");
const showLogin = () => { login.textContent = token() ? "Log out" : "Log in"; };
showLogin();

login.addEventListener("click", async () => {
  if (token()) {
    keepToken("");
    showLogin();
    notice("logged out");
    return update();
  }
  const values = await ask("Log in", "The token that the controller was started with; `equipoise up` keeps it in the file token of its directory.", { Token: el("input", { type: "password", autocomplete: "off" }) });
  if (!values) return;
  const before = token();
  keepToken(values.Token);
  try {
    await get("/api/overview");
    notice("");
  } catch (problem) {
    keepToken(before);
    notice(problem.message);
  }
  showLogin();
  stop();
  stop = listen(onOverview);
  update();
});

window.addEventListener("hashchange", route);
route();
