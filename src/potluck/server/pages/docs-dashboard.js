// What this page shares with the dashboard: the reader's theme, and the session of the browser.

import { ROUTES } from "./server.js";

const THEME = "potluck_theme"; // the cookie of the dashboard
const EARLY_SECONDS = 60;
const dark = matchMedia("(prefers-color-scheme: dark)");

function theme() {
  const chosen = new RegExp(`(?:^|; )${THEME}=(light|dark)`).exec(document.cookie)?.[1];
  return chosen ?? (dark.matches ? "dark" : "light");
}

export function followTheme() {
  const root = document.documentElement;
  const apply = () => { root.dataset.theme = theme(); };
  apply();
  dark.addEventListener("change", apply);
  document.getElementById("theme").addEventListener("click", () => {
    const other = theme() === "dark" ? "light" : "dark";
    const isSystem = other === (dark.matches ? "dark" : "light");
    document.cookie = `${THEME}=${other}; Path=/; SameSite=Strict; Max-Age=${isSystem ? 0 : 366 * 86400}`;
    apply();
  });
}

let kept = null;

// Of the reader who is signed in on the dashboard; empty without one. It is requested when an
// operation is tried, and kept in memory only.
export async function sessionToken() {
  if (kept !== null && Date.now() < kept.until) return kept.token;
  // Tabs share the cookie, so only one of them may refresh at a time.
  const [method, path] = ROUTES.BROWSER_REFRESH;
  const run = () => fetch(path, {
    method,
    headers: { "Potluck-Browser": "1" },
    credentials: "same-origin",
    cache: "no-store",
    redirect: "error",
  });
  const answer = await (navigator.locks ? navigator.locks.request("potluck-refresh", run) : run());
  if (!answer.ok) return "";
  const session = await answer.json();
  const seconds = Math.max(1, session.expires_in - EARLY_SECONDS);
  kept = { token: session.access_token, until: Date.now() + 1000 * seconds };
  return kept.token;
}
