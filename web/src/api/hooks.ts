// Queries that several pages share.

import { queryOptions, useQuery, useQueryClient } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";
import { api, value } from "./client";
import { onSession, sessionState } from "./session";

export const useSession = () => useSyncExternalStore(onSession, sessionState);

export const ME = queryOptions({
  queryKey: ["me"],
  queryFn: ({ signal }) => value(api.GET("/v1/me", { signal })),
});

export function useMe() {
  const session = useSession();
  return useQuery({ ...ME, enabled: session.phase === "in" });
}

export function usePool() {
  return useQuery({
    queryKey: ["pool"],
    queryFn: ({ signal }) => value(api.GET("/v1/pool", { signal })),
    refetchInterval: 60_000,
  });
}

/** Marks queries as old, so that what the reader just did is shown. */
export function useRefresh() {
  const queries = useQueryClient();
  return (...keys: string[][]) => Promise.all(keys.map((queryKey) => queries.invalidateQueries({ queryKey })));
}
