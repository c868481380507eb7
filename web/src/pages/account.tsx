// The account: roles, credit and its movements, sessions, and the keys of machines.

import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { type Schemas, api, value } from "../api/client";
import { useMe, useRefresh } from "../api/hooks";
import { Address, Ago, Badge, Button, Copy, Credits, Empty, Facts, Loading, PageTitle, ProblemNote, Scroller, Section, Stat, Stats, TABLE } from "../components/basics";
import { Confirm } from "../components/dialog";
import { Check, Segments } from "../components/field";
import { QUOTAS, type QuotaName, movement } from "../logic/ledger_words";
import { formatBytes, formatCount } from "../logic/numbers";
import { formatDay } from "../logic/time";

export function AccountPage() {
  const me = useMe();
  if (me.isPending) return <Loading rows={5} />;
  if (me.isError) return <ProblemNote error={me.error} retry={() => void me.refetch()} />;
  const { data } = me;
  return (
    <>
      <PageTitle title="Account">
        <p className="mt-1 flex flex-wrap items-center gap-2 text-sm text-soft">
          <code className="font-mono wrap-anywhere">{data.address}</code>
          <Copy text={data.address} label="Copy the address" />
        </p>
      </PageTitle>
      <Stats>
        <Stat label="Available credit"><Credits micro={data.available_micro} /></Stat>
        <Stat label="Reserved for running tasks" note="the unused part comes back"><Credits micro={data.held_micro} /></Stat>
        <Stat label="Files stored" note={data.quota.max_blob_bytes === null ? undefined : `of ${formatBytes(data.quota.max_blob_bytes)}`}>{formatBytes(data.used_blob_bytes)}</Stat>
      </Stats>
      <div className="grid grid-cols-1 items-start gap-4 xl:grid-cols-2">
        <Roles me={data} />
        <Quota quota={data.quota} />
        <Sessions />
        <NodeKeys />
        <div className="min-w-0 xl:col-span-2"><Credit /></div>
      </div>
    </>
  );
}

function Roles({ me }: { me: Schemas["Me"] }) {
  const refreshAll = useRefresh();
  const [error, setError] = useState<unknown>(null);
  const toggle = async (role: "consumer" | "provider", has: boolean) => {
    setError(null);
    const kept = me.roles.filter((each) => each !== "admin" && each !== role);
    try {
      await value(api.PUT("/v1/me/roles", { body: { roles: has ? [...kept, role] : kept } }));
      await refreshAll(["me"]);
    } catch (problem) {
      setError(problem);
    }
  };
  return (
    <Section title="Roles">
      <div className="grid gap-2">
        <Check label="Consumer" hint="Submits tasks." checked={me.roles.includes("consumer")} onChange={(event) => void toggle("consumer", event.target.checked)} />
        <Check label="Provider" hint="Offers machines." checked={me.roles.includes("provider")} onChange={(event) => void toggle("provider", event.target.checked)} />
        {me.roles.includes("admin") && <p><Badge tone="busy">admin of this pool</Badge></p>}
      </div>
      <ProblemNote error={error} />
    </Section>
  );
}

const Quota = ({ quota }: { quota: Schemas["Quota"] }) => (
  <Section title="Limits of this account" about="An admin of the pool can change them.">
    <Facts items={QUOTAS.map(({ name, label, about }) => [<span key={name} title={about}>{label}</span>, limitText(name, quota[name])])} />
  </Section>
);

const limitText = (name: QuotaName, limit: number | null) =>
  limit === null ? "no limit" : name === "max_blob_bytes" ? formatBytes(limit) : formatCount(limit);

function Sessions() {
  const list = useQuery({ queryKey: ["sessions"], queryFn: ({ signal }) => value(api.GET("/v1/me/sessions", { signal })) });
  const refreshAll = useRefresh();
  const [ending, setEnding] = useState<Schemas["SessionView"] | null>(null);
  return (
    <Section title="Sessions" about="Where this wallet is signed in.">
      <ProblemNote error={list.error} />
      {list.isPending && <Loading />}
      <ul className="divide-y divide-line">
        {list.data?.sessions.map((session) => (
          <li key={session.id} className="flex items-center justify-between gap-3 py-2 text-sm">
            <span className="min-w-0">
              <span className="block font-medium wrap-anywhere">{session.machine || "unnamed"} {session.is_current && <Badge tone="good">this one</Badge>}</span>
              <span className="text-xs text-soft">used <Ago at={session.used_at} />, ends <Ago at={session.expires_at} /></span>
            </span>
            {!session.is_current && <Button weight="alarm" onClick={() => { setEnding(session); }}>End</Button>}
          </li>
        ))}
      </ul>
      <Confirm isOpen={ending !== null} onClose={() => { setEnding(null); }} title="End this session?" action="End it" isAlarming run={async () => { if (ending) await value(api.DELETE("/v1/me/sessions/{session_id}", { params: { path: { session_id: ending.id } } })); await refreshAll(["sessions"]); }}>
        <p>{ending?.machine || "That program"} has to sign in again.</p>
      </Confirm>
    </Section>
  );
}

function NodeKeys() {
  const list = useQuery({ queryKey: ["node-keys"], queryFn: ({ signal }) => value(api.GET("/v1/me/node-keys", { signal })) });
  const refreshAll = useRefresh();
  const [revoking, setRevoking] = useState<Schemas["NodeKeyView"] | null>(null);
  return (
    <Section title="Keys of machines" about="Each machine works for you with a key of its own, which your wallet authorised.">
      <ProblemNote error={list.error} />
      {list.isPending && <Loading />}
      {list.data?.node_keys.length === 0 && <p className="text-sm text-soft">No machine works for this wallet. <Link to="/join" className="text-accent underline">Add one</Link>.</p>}
      <ul className="divide-y divide-line">
        {list.data?.node_keys.map((key) => (
          <li key={key.id} className="flex items-center justify-between gap-3 py-2 text-sm">
            <span className="min-w-0">
              <span className="block font-medium wrap-anywhere">{key.machine || "unnamed"}</span>
              <span className="text-xs text-soft"><Address address={key.key} />, used <Ago at={key.used_at} otherwise="never" />, ends <Ago at={key.expires_at} /></span>
            </span>
            <Button weight="alarm" onClick={() => { setRevoking(key); }}>Revoke</Button>
          </li>
        ))}
      </ul>
      <Confirm isOpen={revoking !== null} onClose={() => { setRevoking(null); }} title="Revoke this key?" action="Revoke it" isAlarming run={async () => { if (revoking) await value(api.DELETE("/v1/me/node-keys/{node_key_id}", { params: { path: { node_key_id: revoking.id } } })); await refreshAll(["node-keys"], ["nodes"]); }}>
        <p>The machine {revoking?.machine} is refused at once, and its running tasks are lost.</p>
      </Confirm>
    </Section>
  );
}

const VIEWS = [["task", "By task"], ["day", "By day"], ["all", "Every movement"]] as const;

function Credit() {
  const [view, setView] = useState<(typeof VIEWS)[number][0]>("task");
  return (
    <Section title="Credit" actions={<Segments label="How to show it" value={view} options={VIEWS} onChange={setView} />}>
      {view === "all" ? <Ledger /> : <Totals by={view} />}
    </Section>
  );
}

/** What was granted, spent and earned in the last 30 days; reserves that came back cancel out. */
function Totals({ by }: { by: "task" | "day" }) {
  const summary = useQuery({
    queryKey: ["ledger", "summary", by],
    queryFn: ({ signal }) => value(api.GET("/v1/me/ledger/summary", { params: { query: { by } }, signal })),
  });
  if (summary.isPending) return <Loading />;
  if (summary.isError) return <ProblemNote error={summary.error} />;
  const { data } = summary;
  if (data.lines.length === 0) return <NoMovements isFree={data.is_free} />;
  return (
    <>
      <p className="mb-3 text-sm text-soft">
        In the last 30 days: <Credits micro={data.granted_micro} /> granted, <Credits micro={data.spent_micro} /> spent, <Credits micro={data.earned_micro} /> earned{data.deposited_micro > 0n && <>, <Credits micro={data.deposited_micro} /> deposited</>}{data.set_aside_micro > 0n && <>, <Credits micro={data.set_aside_micro} /> set aside for payouts</>}.
      </p>
      <Scroller label="Credit">
        <table className={TABLE}>
          <thead><tr><th scope="col">{by === "task" ? "Task" : "Day"}</th><th scope="col" className="num">Granted</th><th scope="col" className="num">Spent</th><th scope="col" className="num">Earned</th></tr></thead>
          <tbody>
            {data.lines.map((line, index) => (
              <tr key={line.task_id ?? line.day ?? `other ${String(index)}`}>
                <td className="max-w-80 truncate"><LineName line={line} /></td>
                <td className="num"><Credits micro={line.granted_micro} aligned /></td>
                <td className="num"><Credits micro={line.spent_micro} aligned /></td>
                <td className="num"><Credits micro={line.earned_micro} aligned /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroller>
    </>
  );
}

function LineName({ line }: { line: Schemas["LedgerLine"] }) {
  if (line.day !== null) return <>{formatDay(line.day)}</>;
  if (line.task_id === null) return <>Without a task</>;
  if (line.task_name === null) return <span className="text-soft">a task of another account, on your machine</span>;
  return <Link className="hover:text-accent" to="/tasks/$taskId" params={{ taskId: line.task_id }}>{line.task_name}</Link>;
}

const NoMovements = ({ isFree }: { isFree: boolean }) => (
  <Empty title="No movements yet.">{isFree ? "No device in this pool costs credit." : "What your tasks cost and your machines earn appears here."}</Empty>
);

function Ledger() {
  const list = useInfiniteQuery({
    queryKey: ["ledger"],
    queryFn: ({ pageParam, signal }) => value(api.GET("/v1/me/ledger", { params: { query: { limit: 50, ...(pageParam === null ? {} : { cursor: pageParam }) } }, signal })),
    initialPageParam: null as number | null,
    getNextPageParam: (page) => page.next_cursor,
  });
  const entries = list.data?.pages.flatMap((page) => page.entries) ?? [];
  return (
    <>
      <p className="mb-3 max-w-prose text-sm text-soft">Before a run starts, the credit for its next minutes is reserved. What it costs is paid out of that, and the rest comes back.</p>
      <ProblemNote error={list.error} />
      {list.isPending && <Loading />}
      {list.isSuccess && entries.length === 0 && <NoMovements isFree={false} />}
      {entries.length > 0 && (
        <Scroller label="Ledger">
          <table className={TABLE}>
            <thead><tr><th scope="col">When</th><th scope="col">What</th><th scope="col">Task or machine</th><th scope="col" className="num">Available</th><th scope="col" className="num">Reserved</th></tr></thead>
            <tbody>
              {entries.map((entry) => (
                <tr key={entry.id}>
                  <td className="whitespace-nowrap text-soft"><Ago at={entry.at} /></td>
                  <td className="whitespace-nowrap">{movement(entry.kind, entry.available_micro)}</td>
                  <td className="max-w-60 truncate">{entry.task_id && entry.task_name ? <Link className="hover:text-accent" to="/tasks/$taskId" params={{ taskId: entry.task_id }}>{entry.task_name}</Link> : (entry.node_name ?? "–")}</td>
                  <td className="num"><Credits micro={entry.available_micro} sign aligned /></td>
                  <td className="num"><Credits micro={entry.held_micro} sign aligned /></td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroller>
      )}
      {list.hasNextPage && <Button className="mt-3" onClick={() => void list.fetchNextPage()}>Older</Button>}
    </>
  );
}
