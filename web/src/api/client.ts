// The public REST API, with the types of its own document.

import createClient from "openapi-fetch";
import { parseExact, writeExact } from "./exact";
import { Problem, problemOf, unreachable } from "./problem";
import type { components, paths } from "./schema";
import { accessToken, discardToken } from "./session";

export type Schemas = components["schemas"];

/** Adds the token, and repeats the request once with a new one if the server refuses it. */
export async function authorisedFetch(input: Request): Promise<Response> {
  const again = input.clone();
  const first = await accessToken();
  const answer = await send(input, first);
  if (answer.status !== 401 || first === null) return answer;
  discardToken(first);
  const second = await accessToken();
  return second === null ? answer : send(again, second);
}

async function send(request: Request, token: string | null): Promise<Response> {
  if (token !== null) request.headers.set("Authorization", `Bearer ${token}`);
  try {
    return await fetch(request);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw unreachable();
  }
}

async function exactFetch(request: Request): Promise<Response> {
  const answer = await authorisedFetch(request);
  if (!answer.headers.get("Content-Type")?.includes("json")) return answer;
  const text = await answer.text();
  const { status, headers } = answer;
  // With a length the library reads `json()`, which is the exact one here.
  const exact = new Response(text, { status, headers: { ...Object.fromEntries(headers), "Content-Length": "1" } });
  exact.json = () => Promise.resolve(text === "" ? undefined : parseExact(text));
  return exact;
}

export const api = createClient<paths>({
  fetch: exactFetch,
  bodySerializer: writeExact,
  cache: "no-store",
  redirect: "error",
  credentials: "omit",
  querySerializer: { array: { style: "form", explode: true } },
});

/** The value of a response; an error response becomes a Problem. */
export async function value<T>(
  call: Promise<{ data?: T; error?: unknown; response: Response }>,
): Promise<T> {
  const { data, error, response } = await call;
  if (!response.ok || error !== undefined) throw problemOf(error, response.status);
  return data as T;
}

/** The value, or null where there is none, such as a contract in a pool that has none. */
export async function orNull<T>(asked: Promise<T>): Promise<T | null> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return null;
    throw error;
  }
}

/** A route that answers with bytes. */
export async function bytes(path: string, signal?: AbortSignal, range?: string): Promise<Blob> {
  const request = new Request(path, {
    cache: "no-store",
    credentials: "omit",
    signal: signal ?? null,
    headers: range === undefined ? {} : { Range: range },
  });
  const answer = await authorisedFetch(request);
  if (!answer.ok) throw problemOf(await answer.json().catch(() => null), answer.status);
  return answer.blob();
}

export const newKey = () => {
  const random = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
};
