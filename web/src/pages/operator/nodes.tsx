// All nodes of the pool. A cordoned node finishes its work and gets none.

import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useMemo, useState } from "react";
import { api, value } from "../../api/client";
import { useRefresh } from "../../api/hooks";
import type { Node } from "../../api/nodes";
import { Ago, Button, Empty, Loading, PageTitle, ProblemNote, StateBadge } from "../../components/basics";
import { Confirm } from "../../components/dialog";
import { FilterField, TextField } from "../../components/field";
import { ListHead, VirtualRows } from "../../components/virtual_rows";
import { formatCount } from "../../logic/numbers";

const COLUMNS = "grid grid-cols-[minmax(0,1fr)_auto_auto] items-center gap-x-4 px-4 lg:grid-cols-[minmax(0,1fr)_9rem_minmax(0,1.4fr)_7rem_7rem_7rem]";

export function NodesPage() {
  const search = useSearch({ from: "/operator/nodes" });
  const navigate = useNavigate({ from: "/operator/nodes" });
  const refreshAll = useRefresh();
  const [asking, setAsking] = useState<Node | null>(null);
  const [reason, setReason] = useState("");
  const list = useInfiniteQuery({
    queryKey: ["nodes", "all"],
    queryFn: ({ pageParam, signal }) => value(api.GET("/v1/nodes", { params: { query: { limit: 500, ...(pageParam === null ? {} : { cursor: pageParam }) } }, signal })),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next_cursor,
    refetchInterval: 60_000,
  });
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = list;
  // A search is over all nodes, so all of them are loaded.
  useEffect(() => {
    if (search.find !== undefined && hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [search.find, hasNextPage, isFetchingNextPage, fetchNextPage]);
  const nodes = useMemo(() => {
    const all = list.data?.pages.flatMap((page) => page.nodes) ?? [];
    const wanted = search.find?.toLowerCase();
    return wanted === undefined ? all : all.filter((node) => [node.name, node.id, node.state, ...node.devices.map((device) => device.description.model)].some((text) => text.toLowerCase().includes(wanted)));
  }, [list.data, search.find]);
  return (
    <>
      <PageTitle title="Nodes" about="A cordoned node finishes its work and gets no more; its owner sees your reason." />
      <FilterField
        data-search
        type="search"
        aria-label="Search nodes"
        placeholder="Name, id, state or model"
        className="field mb-3 max-w-80"
        value={search.find ?? ""}
        onFilter={(find) => { void navigate({ search: { find }, replace: true }); }}
      />
      <ProblemNote error={list.error} retry={() => void list.refetch()} />
      {list.isPending && <Loading rows={8} />}
      {list.isSuccess && nodes.length === 0 && <Empty title={search.find ? "No nodes match." : "No node has registered yet."} />}
      {nodes.length > 0 && (
        <VirtualRows label="Nodes" head={<ListHead columns={COLUMNS} names={["Node", "State", "Devices", "Version", "Last seen", "Action"]} right={["Action"]} />} items={nodes} keyOf={(node) => node.id} height={60} hasMore={hasNextPage} isLoadingMore={isFetchingNextPage} loadMore={() => void fetchNextPage()}>
          {(node) => (
            <div className={`${COLUMNS} h-full text-sm hover:bg-sunken`}>
              <span role="cell" className="min-w-0">
                <Link to="/machines/$nodeId" params={{ nodeId: node.id }} className="block truncate font-medium hover:text-accent">{node.name}</Link>
                <span className="block truncate text-xs text-soft">{node.cordoned_at ? `cordoned${node.cordoned_for ? `: ${node.cordoned_for}` : ""}` : node.platform}</span>
              </span>
              <span role="cell"><StateBadge state={node.cordoned_at ? "paused" : node.state}>{node.cordoned_at ? "cordoned" : undefined}</StateBadge></span>
              <span role="cell" className="hidden truncate text-soft lg:block">{node.devices.map((device) => device.description.model).join(", ")}</span>
              <span role="cell" className="hidden text-soft lg:block">{node.potluck_version}</span>
              <span role="cell" className="hidden text-soft lg:block"><Ago at={node.heartbeat_at} /></span>
              <span role="cell" className="text-right"><Button onClick={() => { setAsking(node); setReason(""); }}>{node.cordoned_at ? "Uncordon" : "Cordon"}</Button></span>
            </div>
          )}
        </VirtualRows>
      )}
      <p className="mt-2 text-xs text-soft">{formatCount(nodes.length)} shown</p>
      <Confirm
        isOpen={asking !== null}
        onClose={() => { setAsking(null); }}
        title={asking?.cordoned_at ? "Let it have work again?" : "Give it no new work?"}
        action={asking?.cordoned_at ? "Uncordon" : "Cordon"}
        run={async () => {
          if (asking === null) return;
          const params = { path: { node_id: asking.id } };
          if (asking.cordoned_at) await value(api.POST("/v1/nodes/{node_id}/uncordon", { params }));
          else await value(api.POST("/v1/nodes/{node_id}/cordon", { params, body: { reason } }));
          await refreshAll(["nodes"], ["node", asking.id]);
        }}
      >
        <p className="mb-3 wrap-anywhere">{asking?.name}</p>
        {!asking?.cordoned_at && <TextField label="Reason" hint="Everyone in the pool sees it." maxLength={200} value={reason} onChange={(event) => { setReason(event.target.value); }} />}
      </Confirm>
    </>
  );
}
