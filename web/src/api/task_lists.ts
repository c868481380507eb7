// Lists of tasks after events. A list of many pages is not loaded anew for each event: near its top
// only the first pages are, and further down only the tasks that changed are.

import type { InfiniteData, QueryClient } from "@tanstack/react-query";
import { type Schemas, api, value } from "./client";

type Pages = InfiniteData<Schemas["TaskPage"], string | null>;

const KEPT_PAGES = 2;
const NEAR_TOP = 3_000;
const MOST_TASKS = 20;
const LISTS = { queryKey: ["tasks", "list"] };

export async function refreshLists(queries: QueryClient, taskIds: readonly string[]) {
  const isNearTop = window.scrollY < NEAR_TOP;
  const long = queries.getQueriesData<Pages>(LISTS).filter(([, data]) => (data?.pages.length ?? 0) > KEPT_PAGES);
  if (long.length === 0 || isNearTop) {
    for (const [key, data] of long) queries.setQueryData(key, data && firstPages(data));
    await queries.invalidateQueries(LISTS);
    return;
  }
  const changed = await Promise.allSettled(taskIds.slice(0, MOST_TASKS).map(getTask));
  const tasks = new Map(changed.flatMap((each) => (each.status === "fulfilled" ? [[each.value.id, each.value]] : [])));
  queries.setQueriesData<Pages>(LISTS, (data) => data && replaceTasks(data, tasks));
}

const getTask = (taskId: string) => value(api.GET("/v1/tasks/{task_id}", { params: { path: { task_id: taskId } } }));

const firstPages = (data: Pages): Pages => ({
  pages: data.pages.slice(0, KEPT_PAGES),
  pageParams: data.pageParams.slice(0, KEPT_PAGES),
});

const replaceTasks = (data: Pages, tasks: ReadonlyMap<string, Schemas["TaskView"]>): Pages => ({
  ...data,
  pages: data.pages.map((page) =>
    page.tasks.some((task) => tasks.has(task.id)) ? { ...page, tasks: page.tasks.map((task) => tasks.get(task.id) ?? task) } : page,
  ),
});
