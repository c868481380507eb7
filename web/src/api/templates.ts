// Ready tasks of the server.

import { useQuery } from "@tanstack/react-query";
import { type Schemas, api, value } from "./client";

export type Template = Schemas["TemplateView"];

export const useTemplates = () =>
  useQuery({
    queryKey: ["templates"],
    queryFn: async ({ signal }) => (await value(api.GET("/v1/templates", { signal }))).templates,
    staleTime: Number.POSITIVE_INFINITY,
  });
