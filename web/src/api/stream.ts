// A stream of server-sent events that reconnects by itself and continues after its last event.
//
// `fetch` and not EventSource: the access token goes into a header, never into an address. Only a page that
// can be seen has streams: a browser opens six connections to a server, which all its tabs and the pages that
// it keeps to go back to share.

import { EventParser, type ServerEvent } from "../logic/event_parser";
import { authorisedFetch } from "./client";
import { type Problem, asProblem, problemOf, unreachable } from "./problem";

export type StreamStatus = "connecting" | "live" | "waiting" | "ended";

interface Handlers {
  onEvent: (event: ServerEvent) => void;
  onStatus: (status: StreamStatus, problem?: Problem) => void;
  /** Whether the stream is over; otherwise a closed connection is opened again. */
  isOver?: () => boolean;
}

const LONGEST_WAIT = 8_000;
// The server sends a comment more often than this; without one the connection is dead.
const SILENCE = 60_000;

// Whether nobody sees the page: its tab is behind others, or the browser keeps it to go back to.
let isAway = document.hidden;
const presence = new EventTarget();
const notePresence = (isLeft: boolean) => {
  isAway = isLeft || document.hidden;
  presence.dispatchEvent(new Event("change"));
};
document.addEventListener("visibilitychange", () => { notePresence(false); });
window.addEventListener("pagehide", () => { notePresence(true); });
window.addEventListener("pageshow", () => { notePresence(false); });

/** Starts the stream; the returned function ends it. */
export function openStream(path: string, handlers: Handlers): () => void {
  const control = new AbortController();
  void follow(path, handlers, control.signal);
  return () => {
    control.abort();
  };
}

async function follow(path: string, handlers: Handlers, signal: AbortSignal) {
  let position = "";
  let failures = 0;
  while (!signal.aborted) {
    handlers.onStatus("connecting");
    if (isAway) {
      await new Promise((resolve) => { presence.addEventListener("change", resolve, { once: true }); });
      continue;
    }
    const hiding = new AbortController();
    const hide = () => { if (isAway) hiding.abort(); };
    presence.addEventListener("change", hide);
    try {
      await connect(path, position, AbortSignal.any([signal, hiding.signal]), () => {
        failures = 0;
        handlers.onStatus("live");
      }, (event) => {
        if (event.id !== "") position = event.id;
        if (event.data !== "") handlers.onEvent(event);
      });
      if (handlers.isOver?.()) break;
    } catch (error) {
      if (signal.aborted) return;
      if (hiding.signal.aborted) continue;
      const problem = asProblem(error);
      handlers.onStatus("waiting", problem);
      if (problem.status === 404 || problem.status === 403) return;
    } finally {
      presence.removeEventListener("change", hide);
    }
    failures += 1;
    const pause = Math.min(LONGEST_WAIT, 500 * 2 ** Math.min(failures, 6)) * (0.5 + Math.random() / 2);
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
  if (!signal.aborted) handlers.onStatus("ended");
}

async function connect(
  path: string,
  position: string,
  signal: AbortSignal,
  onOpen: () => void,
  onEvent: (event: ServerEvent) => void,
) {
  const silence = new AbortController();
  let timer = setTimeout(() => { silence.abort(); }, SILENCE);
  const headers: Record<string, string> = { Accept: "text/event-stream" };
  if (position !== "") headers["Last-Event-ID"] = position;
  try {
    const both = AbortSignal.any([signal, silence.signal]);
    const answer = await authorisedFetch(
      new Request(path, { headers, cache: "no-store", credentials: "omit", signal: both }),
    );
    if (!answer.ok) throw problemOf(await answer.json().catch(() => null), answer.status);
    if (answer.body === null) throw unreachable();
    onOpen();
    const parser = new EventParser();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(() => { silence.abort(); }, SILENCE);
      for (const event of parser.push(value)) onEvent(event);
    }
  } finally {
    clearTimeout(timer);
  }
}
