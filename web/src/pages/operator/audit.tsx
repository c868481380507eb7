// The audit log: who changed what, in a chain of hashes that can be checked.

import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { type Schemas, api, value } from "../../api/client";
import { Ago, Button, Id, Loading, PageTitle, ProblemNote } from "../../components/basics";
import { ListHead, VirtualRows } from "../../components/virtual_rows";
import { plural } from "../../logic/numbers";
import { spell } from "../../logic/states";

const COLUMNS = "grid grid-cols-[4rem_minmax(0,1fr)_auto] items-center gap-x-4 px-4 lg:grid-cols-[4rem_minmax(0,1fr)_8rem_8rem_minmax(0,2fr)_7rem]";

export function AuditPage() {
  const [verdict, setVerdict] = useState<Schemas["AuditVerdict"] | null>(null);
  const [error, setError] = useState<unknown>(null);
  const list = useInfiniteQuery({
    queryKey: ["audit"],
    queryFn: ({ pageParam, signal }) => value(api.GET("/v1/audit", { params: { query: { limit: 200, ...(pageParam === null ? {} : { cursor: pageParam }) } }, signal })),
    initialPageParam: null as number | null,
    getNextPageParam: (page) => page.next_cursor,
  });
  const entries = useMemo(() => list.data?.pages.flatMap((page) => page.entries) ?? [], [list.data]);
  return (
    <>
      <PageTitle title="Audit" actions={<Button icon="shield" onClick={() => { setError(null); value(api.POST("/v1/audit/verify")).then(setVerdict, setError); }}>Check the chain</Button>} />
      <ProblemNote error={error ?? list.error} />
      {verdict && (
        <p role="status" className={`mb-4 rounded-lg px-4 py-3 text-sm wrap-anywhere ${verdict.holds ? "bg-good-ground text-good" : "bg-alarm-ground text-alarm"}`}>
          {verdict.holds ? `All ${plural(verdict.entries, "entry", "entries")} are intact. Head: ` : `Entry ${String(verdict.broken_at)} was changed. Head: `}
          <code className="font-mono">{verdict.head}</code>
        </p>
      )}
      {list.isPending && <Loading rows={8} />}
      {entries.length > 0 && (
        <VirtualRows label="Audit" head={<ListHead columns={COLUMNS} names={["Number", "Event", "By", "About", "Detail", "When"]} />} items={entries} keyOf={(entry) => String(entry.number)} height={52} hasMore={list.hasNextPage} isLoadingMore={list.isFetchingNextPage} loadMore={() => void list.fetchNextPage()}>
          {(entry) => {
            const detail = Object.entries(entry.detail).map(([name, text]) => `${spell(name)}: ${text}`).join(", ");
            return (
              <div className={`${COLUMNS} h-full text-sm hover:bg-sunken`}>
                <span role="cell" className="text-soft">{entry.number}</span>
                <span role="cell" className="truncate font-medium">{spell(entry.kind)}</span>
                <span role="cell" className="hidden lg:block"><Id id={entry.actor} /></span>
                <span role="cell" className="hidden lg:block"><Id id={entry.subject} /></span>
                <span role="cell" className="hidden truncate text-soft lg:block" title={detail}>{detail}</span>
                <span role="cell" className="text-soft"><Ago at={entry.at} /></span>
              </div>
            );
          }}
        </VirtualRows>
      )}
    </>
  );
}
