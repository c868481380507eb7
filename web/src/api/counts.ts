// How many tasks are in each state, for the filter of the list.

import { type QueryClient, keepPreviousData, queryOptions, useQuery } from "@tanstack/react-query";
import { api, value } from "./client";
import { type TaskSearch, filters } from "./tasks";

function countsOf(search: TaskSearch) {
  const { name, kind, since } = search;
  return queryOptions({
    queryKey: ["tasks", "counts", name, kind, since],
    queryFn: ({ signal }) => value(api.GET("/v1/tasks/counts", { params: { query: filters(search) }, signal })),
  });
}

export const useCounts = (search: TaskSearch) => useQuery({ ...countsOf(search), placeholderData: keepPreviousData });

/** Asks for them before their page is drawn. */
export const prefetchCounts = (queries: QueryClient, search: TaskSearch) => queries.prefetchQuery(countsOf(search));
