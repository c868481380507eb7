// The pool for its operator: what is wrong first, then how it goes.

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { type Schemas, api, value } from "../../api/client";
import { Ago, Badge, Credits, Facts, Loading, PageTitle, ProblemNote, Scroller, Section, Stat, StateBadge, Stats, TABLE } from "../../components/basics";
import { Plot, type Series } from "../../components/plot";
import { formatBytes, formatCount, plural } from "../../logic/numbers";
import { spell } from "../../logic/states";
import { formatDuration } from "../../logic/time";

type Status = Schemas["PoolStatus"];
const EVERY = 15_000;
const MOST_POINTS = 240;

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
        <Stat label="Running attempts">{formatCount(status.running_attempts)}</Stat>
        <Stat label="Ended in 5 minutes" note={`${formatCount(bad)} failed`}>{formatCount(ended)}</Stat>
        <Stat label="Nodes online" note={`${formatCount(status.nodes.silent ?? 0)} silent, ${formatCount(status.cordoned_nodes)} cordoned`}>{formatCount(status.nodes.online ?? 0)}</Stat>
      </Stats>
      <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
        <Course status={status} />
        <Queue status={status} />
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
              ["Sum of the ledger", status.ledger_sum_micro === null ? "not added up" : <span key="sum" className={status.ledger_sum_micro === 0n ? "" : "text-alarm"}><Credits micro={status.ledger_sum_micro} /></span>],
            ]}
          />
        </Section>
      </div>
    </>
  );
}

/** Since the page was opened: the server keeps no history of these counts. */
function Course({ status }: { status: Status }) {
  const [points, setPoints] = useState<{ at: number; waiting: number; running: number; ended: number }[]>([]);
  const at = Date.parse(status.at) / 1000;
  if (points.at(-1)?.at !== at) {
    const ended = status.ended.reduce((total, each) => total + each.tasks, 0) / 5;
    const point = { at, waiting: status.waiting_tasks, running: status.running_attempts, ended };
    setPoints([...points, point].slice(-MOST_POINTS));
  }
  const times = useMemo(() => points.map((point) => point.at), [points]);
  const series = useMemo(
    (): Series[] => [
      { label: "Waiting", values: points.map((point) => point.waiting), color: "wait" },
      { label: "Running", values: points.map((point) => point.running), color: "busy" },
      { label: "Ended in a minute", values: points.map((point) => point.ended), color: "good" },
    ],
    [points],
  );
  return (
    <Section title="Since this page was opened">
      {points.length < 2 ? <p className="text-sm text-soft">The plot begins with the second reading.</p> : <Plot label="Waiting tasks, running attempts and tasks that ended, over time" times={times} series={series} height={180} />}
      <ul className="mt-2 flex flex-wrap gap-4 text-xs text-soft">
        {[["bg-wait", "waiting"], ["bg-busy", "running"], ["bg-good", "ended in a minute"]].map(([color, text]) => <li key={text} className="flex items-center gap-1.5"><span aria-hidden className={`size-2 rounded-full ${color ?? ""}`} />{text}</li>)}
      </ul>
    </Section>
  );
}

const Queue = ({ status }: { status: Status }) => (
  <Section title="Why tasks wait">
    {status.queue.length === 0 ? <p className="text-sm text-soft">{status.waiting_tasks === 0 ? "No task waits." : "The scheduler has not said yet."}</p> : (
      <Scroller label="Waiting tasks by reason">
        <table className={TABLE}>
          <thead><tr><th scope="col">Reason</th><th scope="col" className="num">Tasks</th><th scope="col" className="num">Oldest</th></tr></thead>
          <tbody>{status.queue.map((each) => <tr key={each.reason}><td>{spell(each.reason)}</td><td className="num">{formatCount(each.tasks)}</td><td className="num">{formatDuration(each.oldest_seconds)}</td></tr>)}</tbody>
        </table>
      </Scroller>
    )}
  </Section>
);

const Parts = ({ status }: { status: Status }) => (
  <Section title="Parts" actions={<Badge tone={status.readiness.status === "ok" ? "good" : "alarm"}>{status.readiness.status}</Badge>}>
    <Facts items={[...Object.entries(status.readiness.parts).map(([name, said]): [string, React.ReactNode] => [spell(name), <span key={name} className={said === "ok" ? "text-good" : "text-alarm"}>{said}</span>]), ["Clock ahead of the database", `${(Math.round(status.readiness.clock_skew_seconds * 1000) / 1000 || 0).toLocaleString()} s`]]} />
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
