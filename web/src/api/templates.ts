// Ready tasks of the server.

import { useQuery } from "@tanstack/react-query";
import type { TaskRequest } from "../logic/request";
import { Problem } from "./problem";
import { get } from "./plain";

export interface Parameter {
  name: string;
  help: string;
  default: string | number | boolean | null;
  minimum: number | null;
  maximum: number | null;
  choices: (string | number)[];
}

export interface Template {
  name: string;
  summary: string;
  parameters: Parameter[];
  request: TaskRequest;
}

export function useTemplates() {
  return useQuery({
    queryKey: ["templates"],
    queryFn: async ({ signal }) => {
      try {
        return (await get<{ templates: Template[] }>("/v1/templates", signal)).templates;
      } catch (error) {
        if (error instanceof Problem && error.status === 404) return [];
        throw error;
      }
    },
    staleTime: Number.POSITIVE_INFINITY,
  });
}
