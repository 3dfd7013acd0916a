// Selects the page, and refreshes it with every overview from the controller.

import { Refused, get, keepToken, listen, token } from "./api.js";
import { ask, el, notice } from "./show.js";
import * as pages from "./pages.js";

const place = document.getElementById("page");
const state = document.getElementById("state");
let refresh = null;
let isBusy = false;
let isShown = false;

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
    if (problem instanceof Refused) refused(problem);
    else if (mine === refresh) notice(problem.message);
  } finally {
    if (mine === refresh) isBusy = false;
  }
}

// The token may be that of an earlier controller: without it, reading may still be allowed.
// That is shown once; later refusals are not repeated.
function refused(problem) {
  state.textContent = "log in";
  if (!token()) {
    if (!isShown) notice(problem.message);
    isShown = true;
    return;
  }
// A request sent before this token was stored does not tell whether the token is valid.
  if (problem.shown !== token()) return;
  isShown = true;
  keepToken("");
  notice("the token is no longer valid: log in again");
  again();
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

// With another token, or none: close what the last one opened.
function again() {
  showLogin();
  stop();
  stop = listen(onOverview);
  update();
}

login.addEventListener("click", async () => {
  if (token()) {
    keepToken("");
    notice("logged out");
    return again();
  }
  const values = await ask("Log in", "The token that the controller was started with; `equipoise up` stores it in the file token of its directory.", { Token: el("input", { type: "password", autocomplete: "off" }) });
  if (!values) return;
  try {
    await get("/api/overview", values.Token);
    keepToken(values.Token);
    notice("");
  } catch (problem) {
    notice(problem.message);
  }
  again();
});

window.addEventListener("hashchange", route);
route();
