// Views that the account has saved: the page and the query of its address.

import { useQuery } from "@tanstack/react-query";
import { api, value } from "./client";
import { useRefresh } from "./hooks";

export function useViews(page: string) {
  const refreshAll = useRefresh();
  const views = useQuery({
    queryKey: ["views"],
    queryFn: async ({ signal }) => (await value(api.GET("/v1/me/views", { signal }))).views,
    staleTime: 300_000,
  });
  const all = views.data ?? [];
  const write = async (next: typeof all) => {
    await value(api.PUT("/v1/me/views", { body: { views: next } }));
    await refreshAll(["views"]);
  };
  return {
    views: all.filter((view) => view.page === page),
    save: (name: string, query: string) =>
      write([...all.filter((view) => view.page !== page || view.name !== name), { page, name, query }]),
    remove: (name: string) => write(all.filter((view) => view.page !== page || view.name !== name)),
  };
}
