// How many tasks are in each state, for the filter of the list.

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, value } from "./client";
import { type TaskSearch, filters } from "./tasks";

export function useCounts(search: TaskSearch) {
  const { name, kind, since } = search;
  return useQuery({
    queryKey: ["tasks", "counts", name, kind, since],
    queryFn: async ({ signal }) => {
      const found = await value(api.GET("/v1/tasks/counts", { params: { query: filters(search) }, signal }));
      return { counts: found.counts, isCapped: (count: number) => count >= found.counted_tasks };
    },
    placeholderData: keepPreviousData,
  });
}
