// Keeps what the page shows current: one event stream for the tab marks the queries that changed.
// The reader can pause it; changes are counted meanwhile and applied on resume.

import type { QueryClient, QueryKey } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";
import type { ServerEvent } from "../logic/event_parser";
import { type StreamStatus, openStream } from "./stream";
import { refreshLists } from "./task_lists";

interface Live {
  status: StreamStatus | "off";
  isPaused: boolean;
  missed: number;
}

const GATHER = 400;

let live: Live = { status: "off", isPaused: false, missed: 0 };
let close: (() => void) | null = null;
let queries: QueryClient | null = null;
let timer: ReturnType<typeof setTimeout> | null = null;
const changed = new Map<string, QueryKey>();
const changedTasks = new Set<string>();
const listeners = new Set<() => void>();

function become(change: Partial<Live>) {
  live = { ...live, ...change };
  for (const listener of listeners) listener();
}

export function startLive(client: QueryClient) {
  stopLive();
  queries = client;
  let wasLive = false;
  close = openStream("/v1/events/follow", {
    onEvent: receive,
    onStatus: (status) => {
      if (status === "live") {
        // Anything may have happened without a connection.
        if (wasLive) {
          note([]);
          if (!live.isPaused) apply();
        }
        wasLive = true;
      }
      become({ status });
    },
  });
}

export function stopLive() {
  close?.();
  close = null;
  become({ status: "off", isPaused: false, missed: 0 });
}

export function pauseLive(isPaused: boolean) {
  become({ isPaused, missed: 0 });
  if (!isPaused) apply();
}

function receive(event: ServerEvent) {
  const { task_id, node_id } = JSON.parse(event.data) as { task_id?: string; node_id?: string };
  if (event.event === "gap") note(["tasks"]);
  if (task_id != null) {
    note(["tasks", "counts"]);
    note(["task", task_id]);
    changedTasks.add(task_id);
  }
  if (node_id != null) {
    note(["nodes"]);
    note(["node", node_id]);
  }
  if (event.event === "task.finished") note(["me"]);
  if (live.isPaused) become({ missed: live.missed + 1 });
  else timer ??= setTimeout(apply, GATHER);
}

function note(key: QueryKey) {
  changed.set(JSON.stringify(key), key);
}

function apply() {
  timer = null;
  if (live.isPaused) return;
  for (const queryKey of changed.values()) void queries?.invalidateQueries({ queryKey });
  changed.clear();
  if (queries !== null && changedTasks.size > 0) void refreshLists(queries, [...changedTasks]);
  changedTasks.clear();
}

export function useLive(): Live {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => live,
  );
}
