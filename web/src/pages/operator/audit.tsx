// The audit log: who changed what, in a chain of hashes that can be checked.

import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { type Schemas, api, value } from "../../api/client";
import { Address, Ago, Button, Copy, Facts, Loading, Moment, PageTitle, ProblemNote } from "../../components/basics";
import { Dialog } from "../../components/dialog";
import { ListHead, VirtualRows } from "../../components/virtual_rows";
import { formatCredits } from "../../logic/credits";
import { plural } from "../../logic/numbers";
import { spell } from "../../logic/states";

type Entry = Schemas["AuditEntry"];
type Accounts = ReadonlyMap<string, Schemas["AccountView"]>;
const COLUMNS = "grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-4 px-4 lg:grid-cols-[4rem_minmax(0,1fr)_minmax(0,1fr)_minmax(0,1.4fr)_minmax(0,1.6fr)_6rem]";

export function AuditPage() {
  const [verdict, setVerdict] = useState<Schemas["AuditVerdict"] | null>(null);
  const [opened, setOpened] = useState<Entry | null>(null);
  const [error, setError] = useState<unknown>(null);
  const accounts = useAccounts();
  const list = useInfiniteQuery({
    queryKey: ["audit"],
    queryFn: ({ pageParam, signal }) => value(api.GET("/v1/audit", { params: { query: { limit: 200, ...(pageParam === null ? {} : { cursor: pageParam }) } }, signal })),
    initialPageParam: null as number | null,
    getNextPageParam: (page) => page.next_cursor,
  });
  const entries = useMemo(() => list.data?.pages.flatMap((page) => page.entries) ?? [], [list.data]);
  return (
    <>
      <PageTitle title="Audit" about="Who changed what. Each entry contains the hash of the one before it." actions={<Button icon="shield" onClick={() => { setError(null); value(api.POST("/v1/audit/verify")).then(setVerdict, setError); }}>Check the chain</Button>} />
      <ProblemNote error={error ?? list.error} />
      {verdict && (
        <p role="status" className={`mb-4 rounded-lg px-4 py-3 text-sm wrap-anywhere ${verdict.holds ? "bg-good-ground text-good" : "bg-alarm-ground text-alarm"}`}>
          {verdict.holds ? `All ${plural(verdict.entries, "entry", "entries")} are intact. Head: ` : `Entry ${String(verdict.broken_at)} was changed. Head: `}
          <code className="font-mono">{verdict.head}</code>
        </p>
      )}
      {list.isPending && <Loading rows={8} />}
      {entries.length > 0 && (
        <VirtualRows label="Audit" head={<ListHead columns={COLUMNS} names={["Number", "Event", "By", "About", "Detail", "When"]} />} items={entries} keyOf={(entry) => String(entry.number)} height={48} hasMore={list.hasNextPage} isLoadingMore={list.isFetchingNextPage} loadMore={() => void list.fetchNextPage()}>
          {(entry) => {
            const detail = detailOf(entry).map(([name, text]) => `${name}: ${text}`).join(", ");
            return (
              <div className={`${COLUMNS} h-full text-sm hover:bg-sunken`}>
                <span role="cell" className="hidden text-soft lg:block">{entry.number}</span>
                <span role="cell" className="min-w-0">
                  <button type="button" className="block max-w-full truncate font-medium hover:text-accent" onClick={() => { setOpened(entry); }}>{eventName(entry)}</button>
                  <span className="block truncate text-xs text-soft lg:hidden">by <Name id={entry.actor} accounts={accounts} /></span>
                </span>
                <span role="cell" className="hidden truncate lg:block"><Name id={entry.actor} accounts={accounts} /></span>
                <span role="cell" className="hidden truncate text-soft lg:block"><Name id={entry.subject} accounts={accounts} /></span>
                <span role="cell" className="hidden truncate text-soft lg:block" title={detail}>{detail}</span>
                <span role="cell" className="text-soft"><Ago at={entry.at} /></span>
              </div>
            );
          }}
        </VirtualRows>
      )}
      {opened && (
        <Dialog isOpen onClose={() => { setOpened(null); }} title={`Entry ${String(opened.number)}: ${eventName(opened)}`} wide>
          <Facts
            items={[
              ["When", <Moment key="at" at={opened.at} />],
              ["By", <Whole key="by" id={opened.actor} accounts={accounts} />],
              ["About", <Whole key="about" id={opened.subject} accounts={accounts} />],
              ...detailOf(opened).map(([name, text]): [string, React.ReactNode] => [name, text]),
              ["Hash", <code key="hash" className="font-mono text-xs">{opened.hash}</code>],
            ]}
          />
        </Dialog>
      )}
    </>
  );
}

const eventName = (entry: Entry) => {
  const words = spell(entry.kind);
  return words.charAt(0).toUpperCase() + words.slice(1);
};

/** What an entry says, in words; amounts are in credits. */
function detailOf(entry: Entry): [string, string][] {
  return Object.entries(entry.detail)
    .filter(([, text]) => text !== "")
    .map(([name, text]) => {
      const words = spell(name);
      return words.endsWith(" micro") && /^-?\d+$/.test(text) ? [words.replace(/ micro$/, ""), `${formatCredits(BigInt(text))} credits`] : [words, text];
    });
}

function useAccounts(): Accounts {
  const list = useQuery({
    queryKey: ["accounts", "names"],
    queryFn: ({ signal }) => value(api.GET("/v1/accounts", { params: { query: { limit: 500 } }, signal })),
    staleTime: 60_000,
  });
  return useMemo(() => new Map(list.data?.accounts.map((account) => [account.id, account])), [list.data]);
}

/** An account by its label or address, anything else by its whole id, as far as there is room. */
function Name({ id, accounts }: { id: string; accounts: Accounts }) {
  const account = accounts.get(id);
  if (account !== undefined) {
    return <Link to="/operator/accounts" search={{ find: account.address }} className="hover:text-accent" title={account.address}>{account.label || <Address address={account.address} />}</Link>;
  }
  const code = <code className="font-mono text-xs" title={id}>{id}</code>;
  return id.startsWith("node_") ? <Link to="/machines/$nodeId" params={{ nodeId: id }} className="hover:text-accent">{code}</Link> : code;
}

function Whole({ id, accounts }: { id: string; accounts: Accounts }) {
  const account = accounts.get(id);
  return (
    <span className="flex flex-wrap items-center gap-x-2">
      {account && <span>{account.label} <code className="font-mono text-xs">{account.address}</code></span>}
      <code className="font-mono text-xs">{id}</code>
      <Copy text={id} label="Copy the id" />
    </span>
  );
}
