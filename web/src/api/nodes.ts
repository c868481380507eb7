// Queries of machines and their devices.

import { useQuery } from "@tanstack/react-query";
import { type Schemas, api, value } from "./client";

export type Node = Schemas["NodeView"];
export type Device = Schemas["DeviceView"];

export function useMyNodes(every?: number) {
  return useQuery({
    queryKey: ["nodes", "mine"],
    queryFn: async ({ signal }) => {
      const mine: Node[] = [];
      let cursor: string | null = null;
      do {
        const page: Schemas["NodeList"] = await value(
          api.GET("/v1/nodes", { params: { query: { limit: 500, mine: true, ...(cursor === null ? {} : { cursor }) } }, signal }),
        );
        mine.push(...page.nodes.filter((node) => node.state !== "left"));
        cursor = page.next_cursor;
      } while (cursor !== null);
      return mine;
    },
    ...(every === undefined ? {} : { refetchInterval: every }),
  });
}

export function useNode(nodeId: string) {
  return useQuery({
    queryKey: ["node", nodeId],
    queryFn: ({ signal }) => value(api.GET("/v1/nodes/{node_id}", { params: { path: { node_id: nodeId } }, signal })),
    // A heartbeat comes every 20 seconds, and no event says that a reading is new or a change done.
    refetchInterval: (query) => ((query.state.data?.wishes.length ?? 0) > 0 ? 3_000 : 30_000),
  });
}
