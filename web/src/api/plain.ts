// Calls by path, for answers whose type is written here.

import { authorisedFetch } from "./client";
import { parseExact } from "./exact";
import { problemOf } from "./problem";

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const request = new Request(path, { cache: "no-store", credentials: "omit", signal: signal ?? null });
  const answer = await authorisedFetch(request);
  const text = await answer.text();
  let content: unknown = null;
  try {
    content = parseExact(text);
  } catch {
    content = null;
  }
  if (!answer.ok) throw problemOf(content, answer.status);
  return content as T;
}
