// The pool for its operator: what is wrong first, then how it goes.

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type Schemas, api, value } from "../../api/client";
import { Ago, Badge, Credits, Facts, Loading, PageTitle, ProblemNote, Scroller, Section, Stat, StateBadge, Stats, TABLE } from "../../components/basics";
import { formatBytes, formatCount, plural } from "../../logic/numbers";
import { partName, waitReason } from "../../logic/pool_words";
import { spell } from "../../logic/states";
import { formatDuration } from "../../logic/time";
import { RecentEvents } from "./events";
import { History } from "./history";

type Status = Schemas["PoolStatus"];
// Events make it current at once; this is for what no event tells.
const EVERY = 60_000;

export function HealthPage() {
  const status = useQuery({
    queryKey: ["status"],
    queryFn: ({ signal }) => value(api.GET("/v1/status", { signal })),
    refetchInterval: EVERY,
  });
  if (status.isPending) return <Loading rows={6} />;
  if (status.isError) return <ProblemNote error={status.error} retry={() => void status.refetch()} />;
  return <Health status={status.data} />;
}

function Health({ status }: { status: Status }) {
  const firing = Object.entries(status.firing_alerts);
  const ended = status.ended.reduce((total, each) => total + each.tasks, 0);
  const bad = status.ended.filter((each) => each.state === "failed").reduce((total, each) => total + each.tasks, 0);
  const isWell = status.readiness.status === "ok" && firing.length === 0;
  return (
    <>
      <PageTitle title="Health" actions={<Badge tone={isWell ? "good" : firing.length > 0 ? "alarm" : "wait"}>{isWell ? "all well" : firing.length > 0 ? `${plural(firing.length, "alert")} firing` : status.readiness.status}</Badge>} />
      {firing.length > 0 && (
        <div role="alert" className="mb-4 rounded-lg bg-alarm-ground px-4 py-3 text-sm text-alarm">
          {firing.map(([name, count]) => <p key={name}><Link to="/operator/alerts" className="font-medium underline">{spell(name)}</Link>{count > 1 && ` (${formatCount(count)})`}</p>)}
        </div>
      )}
      <Stats>
        <Stat label="Waiting tasks" note={status.oldest_waiting_at ? <>oldest <Ago at={status.oldest_waiting_at} /></> : "none waits"}>{formatCount(status.waiting_tasks)}</Stat>
        <Stat label="Running attempts" note={devicesBusy(status)}>{formatCount(status.running_attempts)}</Stat>
        <Stat label="Ended in 5 minutes" note={`${formatCount(bad)} failed`}>{formatCount(ended)}</Stat>
        <Stat label="Nodes online" note={`${formatCount(status.nodes.silent ?? 0)} silent, ${formatCount(status.cordoned_nodes)} cordoned`}>{formatCount(status.nodes.online ?? 0)}</Stat>
      </Stats>
      <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
        <div className="min-w-0 lg:col-span-2"><History /></div>
        <Queue status={status} />
        <RecentEvents />
        <Parts status={status} />
        <Instances status={status} />
        <Section title="Ended in the last 5 minutes">
          {status.ended.length === 0 ? <p className="text-sm text-soft">No task ended.</p> : (
            <table className={TABLE}>
              <thead><tr><th scope="col">State</th><th scope="col">Reason</th><th scope="col" className="num">Tasks</th></tr></thead>
              <tbody>{status.ended.map((each) => <tr key={`${each.state} ${each.reason ?? ""}`}><td><StateBadge state={each.state} /></td><td>{spell(each.reason ?? "–")}</td><td className="num">{formatCount(each.tasks)}</td></tr>)}</tbody>
            </table>
          )}
        </Section>
        <Section title="Storage">
          <Facts
            items={[
              ["Database", formatBytes(status.database_bytes)],
              ["Files", formatBytes(status.blob_bytes)],
              ["Free on the data disk", `${formatCount(status.readiness.free_gib)} GiB`],
              ["Schema", status.schema_version ?? "–"],
              ["Last backup", status.backup.is_running ? "running now" : <Ago key="at" at={status.backup.latest_at} otherwise="there is none" />],
              ["Sum of the ledger", status.ledger_sum_micro === null ? "not summed" : <span key="sum" className={status.ledger_sum_micro === 0n ? "" : "text-alarm"}><Credits micro={status.ledger_sum_micro} /></span>],
            ]}
          />
        </Section>
      </div>
    </>
  );
}

function devicesBusy(status: Status): string {
  const gpus = status.devices.gpu;
  return gpus === undefined ? "no GPU in the pool" : `${formatCount(gpus.busy)} of ${plural(gpus.busy + gpus.free + gpus.away, "GPU")} busy`;
}

const Queue = ({ status }: { status: Status }) => (
  <Section title="Why tasks wait">
    {status.queue.length === 0 ? <p className="text-sm text-soft">{status.waiting_tasks === 0 ? "No task waits." : "The scheduler has not said yet."}</p> : (
      <Scroller label="Waiting tasks by reason">
        <table className={TABLE}>
          <thead><tr><th scope="col">Reason</th><th scope="col" className="num">Tasks</th><th scope="col" className="num">Oldest</th></tr></thead>
          <tbody>{status.queue.map((each) => <tr key={each.reason}><td>{waitReason(each.reason)}</td><td className="num">{formatCount(each.tasks)}</td><td className="num">{formatDuration(each.oldest_seconds)}</td></tr>)}</tbody>
        </table>
      </Scroller>
    )}
  </Section>
);

const Parts = ({ status }: { status: Status }) => (
  <Section title="Parts" actions={<Badge tone={status.readiness.status === "ok" ? "good" : "alarm"}>{status.readiness.status}</Badge>}>
    <Facts items={[...Object.entries(status.readiness.parts).map(([name, said]): [string, React.ReactNode] => [partName(name), <span key={name} className={said === "ok" ? "text-good" : "text-alarm"}>{said}</span>]), ["Clock ahead of the database", `${(Math.round(status.readiness.clock_skew_seconds * 1000) / 1000 || 0).toLocaleString()} s`]]} />
  </Section>
);

const Instances = ({ status }: { status: Status }) => (
  <Section title="Server instances" about={`The leader has changed ${plural(Math.max(0, status.term - 1), "time")}.`}>
    <Scroller label="Instances">
      <table className={TABLE}>
        <thead><tr><th scope="col">Instance</th><th scope="col">Version</th><th scope="col">Started</th><th scope="col">Seen</th></tr></thead>
        <tbody>{status.instances.map((each) => <tr key={each.id}><td className="font-mono text-xs">{each.id} {each.is_leader && <Badge tone="busy">leads</Badge>}</td><td>{each.version}</td><td><Ago at={each.started_at} /></td><td><Ago at={each.seen_at} /></td></tr>)}</tbody>
      </table>
    </Scroller>
    <p className="mt-2 text-xs text-soft">Nodes by version: {Object.entries(status.node_versions).map(([version, count]) => `${version} (${formatCount(count)})`).join(", ") || "none"}</p>
  </Section>
);
