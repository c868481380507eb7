// The session of this tab. The access token is in memory only; the refresh token is in an httpOnly
// cookie that no script can read, so a reload asks the server for a new access token.

import { parseExact } from "./exact";
import { Problem, problemOf, unreachable } from "./problem";

export interface BrowserSession {
  access_token: string;
  expires_in: number;
  account_id: string;
  address: string;
}

export type SessionState =
  | { phase: "unknown" }
  | { phase: "out"; problem?: Problem }
  | { phase: "in"; accountId: string; address: string };

const BROWSER = { "Potluck-Browser": "1" };
const EARLY_SECONDS = 60;

let state: SessionState = { phase: "unknown" };
let token: { text: string; expiresAt: number } | null = null;
let refreshing: Promise<boolean> | null = null;
const listeners = new Set<() => void>();

export const sessionState = () => state;

export function onSession(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function become(next: SessionState) {
  state = next;
  for (const listener of listeners) listener();
}

export async function signIn(login: {
  message: string;
  signature: string;
  invite?: string;
}): Promise<void> {
  accept(await browserCall("login", { ...login, machine: browserName() }));
}

export async function signOut(): Promise<void> {
  try {
    await browserCall("logout");
  } finally {
    token = null;
    become({ phase: "out" });
  }
}

/** The access token, refreshed before it expires; null without a signed-in account. */
export async function accessToken(): Promise<string | null> {
  if (token !== null && Date.now() < token.expiresAt) return token.text;
  if (state.phase === "out") return null;
  return (await refresh()) ? (token?.text ?? null) : null;
}

/** Discards a token that the server refused, unless it has been replaced meanwhile. */
export function discardToken(refused: string) {
  if (token?.text === refused) token = null;
}

/** One refresh at a time: a second use of the same cookie would end the session. */
export function refresh(): Promise<boolean> {
  refreshing ??= tryRefresh().finally(() => {
    refreshing = null;
  });
  return refreshing;
}

async function tryRefresh(): Promise<boolean> {
  // Tabs share the cookie, so only one of them may refresh at a time.
  const run = async () => {
    try {
      accept(await browserCall("refresh"));
      return true;
    } catch (error) {
      if (!(error instanceof Problem) || (error.status !== 401 && error.status !== 403)) throw error;
      token = null;
      become(state.phase === "in" ? { phase: "out", problem: error } : { phase: "out" });
      return false;
    }
  };
  return "locks" in navigator ? navigator.locks.request("potluck-refresh", run) : run();
}

function accept(session: BrowserSession) {
  token = {
    text: session.access_token,
    expiresAt: Date.now() + Math.max(1, session.expires_in - EARLY_SECONDS) * 1000,
  };
  if (state.phase !== "in" || state.accountId !== session.account_id) {
    become({ phase: "in", accountId: session.account_id, address: session.address });
  }
}

async function browserCall(what: "login" | "refresh" | "logout", body?: unknown) {
  let answer: Response;
  try {
    answer = await fetch(`/v1/auth/browser/${what}`, {
      method: "POST",
      headers: { ...BROWSER, ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
      body: body === undefined ? null : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error",
    });
  } catch {
    throw unreachable();
  }
  const text = await answer.text();
  const content = text === "" ? null : parseExact(text);
  if (!answer.ok) throw problemOf(content, answer.status);
  return content as BrowserSession;
}

function browserName(): string {
  const agent = navigator.userAgent;
  const browser = ["Firefox", "Edg", "OPR", "Chrome", "Safari"].find((name) => agent.includes(name));
  const system = ["Android", "iPhone", "iPad", "Windows", "Mac OS", "Linux"].find((name) =>
    agent.includes(name),
  );
  return `${browser === "Edg" ? "Edge" : (browser ?? "Browser")} on ${system ?? "a computer"}`;
}
