// Queries and actions of tasks.

import { type QueryClient, infiniteQueryOptions, keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { type TaskState, readStates } from "../logic/states";
import { type Schemas, api, newKey, value } from "./client";

export type Task = Schemas["TaskView"];
export interface TaskSearch {
  state?: string;
  name?: string;
  kind?: string;
  since?: string;
}

const PAGE = 100;
// Enough for a high window and the rows beyond it: the less it reads, the sooner the page can be used.
const FIRST_PAGE = 60;
const KINDS = ["script", "function", "container", "command"] as const;
const DAYS: Record<string, number> = { day: 1, week: 7, month: 30 };

export function filters(search: TaskSearch) {
  const days = DAYS[search.since ?? ""];
  const kind = KINDS.find((each) => each === search.kind);
  return {
    ...(search.name === undefined ? {} : { find: search.name }),
    ...(kind === undefined ? {} : { kind }),
    // A whole hour, so that the same view has the same address for a while.
    ...(days === undefined
      ? {}
      : { since: new Date(Math.floor(Date.now() / 3.6e6) * 3.6e6 - days * 86_400_000).toISOString() }),
  };
}

function listOf(search: TaskSearch) {
  const states: TaskState[] = readStates(search.state);
  return infiniteQueryOptions({
    queryKey: ["tasks", "list", search],
    queryFn: ({ pageParam, signal }) =>
      value(
        api.GET("/v1/tasks", {
          params: {
            query: {
              ...filters(search),
              limit: pageParam === null ? FIRST_PAGE : PAGE,
              ...(states.length === 0 ? {} : { state: states }),
              ...(pageParam === null ? {} : { cursor: pageParam }),
            },
          },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
    // Comparing thousands of tasks with their earlier selves takes longer than drawing a few.
    structuralSharing: false,
  });
}

export const useTasks = (search: TaskSearch) => useInfiniteQuery({ ...listOf(search), placeholderData: keepPreviousData });

/** Asks for the list before its page is drawn. */
export const prefetchTasks = (queries: QueryClient, search: TaskSearch) => queries.prefetchInfiniteQuery(listOf(search));

/** A task, or an item of one as `task#item`; another `state` fetches it anew. */
export function useTask(taskId: string, state?: string) {
  return useQuery({
    queryKey: state === undefined ? ["task", taskId] : ["task", taskId, state],
    queryFn: ({ signal }) =>
      value(api.GET("/v1/tasks/{task_id}", { params: { path: { task_id: taskId } }, signal })),
  });
}

/** The tasks that the action would touch, of those that match; the newest first. */
export const previewAction = (action: "cancel" | "retry", search: TaskSearch) =>
  value(api.POST("/v1/tasks/actions/preview", { body: { action, selection: { ...filters(search), states: readStates(search.state) } } }));

export const cancelTask = (taskId: string) =>
  value(api.POST("/v1/tasks/{task_id}/cancel", { params: { path: { task_id: taskId } } }));

export const retryTask = (taskId: string, key = newKey()) =>
  value(
    api.POST("/v1/tasks/{task_id}/retry", {
      params: { path: { task_id: taskId }, header: { "Idempotency-Key": key } },
      body: {},
    }),
  );
