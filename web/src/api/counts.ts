// How many tasks are in each state, for the filter of the list.

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import type { TaskState } from "../logic/states";
import { get } from "./plain";
import type { TaskSearch } from "./tasks";

interface Counts {
  counts: Partial<Record<TaskState, number>>;
  counted: number | null;
}

export function useCounts(search: TaskSearch) {
  const query = new URLSearchParams();
  if (search.name !== undefined) query.set("name", search.name);
  if (search.kind !== undefined) query.set("kind", search.kind);
  return useQuery({
    queryKey: ["tasks", "counts", query.toString()],
    queryFn: async ({ signal }) => {
      const found = await get<Counts>(`/v1/tasks/counts?${query.toString()}`, signal);
      return { counts: found.counts, isCapped: (count: number) => count >= (found.counted ?? Infinity) };
    },
    placeholderData: keepPreviousData,
    retry: false,
  });
}
