// Throughput and latency of the pool over time.

import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { type Schemas, api, value } from "../../api/client";
import { Loading, ProblemNote, Section } from "../../components/basics";
import { Segments } from "../../components/field";
import { Plot, type Series } from "../../components/plot";
import { formatCount } from "../../logic/numbers";
import { formatDuration } from "../../logic/time";
import { type Steps, fillSteps, sumOf } from "../../logic/history";

const TIMES = [["1", "Hour"], ["24", "Day"], ["168", "Week"]] as const;
const COLORS = { good: "bg-good", alarm: "bg-alarm", quiet: "bg-strong-line", accent: "bg-accent", busy: "bg-busy" } as const;

export function History() {
  const [hours, setHours] = useState<(typeof TIMES)[number][0]>("1");
  const history = useQuery({
    queryKey: ["status", "history", hours],
    queryFn: ({ signal }) => value(api.GET("/v1/pool/history", { params: { query: { hours: Number(hours) } }, signal })),
    refetchInterval: 60_000,
    placeholderData: (known) => known,
  });
  return (
    <Section title="Throughput and latency" actions={<Segments label="Time shown" value={hours} options={TIMES} onChange={setHours} />}>
      <ProblemNote error={history.error} />
      {history.isPending && <Loading />}
      {history.data && <Plots history={history.data} />}
    </Section>
  );
}

function Plots({ history }: { history: Schemas["PoolHistory"] }) {
  const steps: Steps = useMemo(() => fillSteps(history), [history]);
  const ended = useMemo(
    (): Series[] => [
      { label: "Succeeded", values: steps.succeeded, color: "good" },
      { label: "Failed", values: steps.failed, color: "alarm" },
    ],
    [steps],
  );
  const latency = useMemo(
    (): Series[] => [
      { label: "Half waited less", values: steps.waitMedian, color: "busy" },
      { label: "95 of 100 waited less", values: steps.waitMost, color: "accent" },
    ],
    [steps],
  );
  const { succeeded, failed, stopped } = sumOf(history.points);
  if (succeeded + failed + stopped === 0) return <p className="text-sm text-soft">No task ended in this time.</p>;
  const each = `in each ${formatDuration(history.step_seconds)}`;
  const slowest = Math.max(0, ...history.points.map((point) => point.wait_p95_seconds ?? 0));
  return (
    <>
      <div className="grid grid-cols-1 gap-5 lg:grid-cols-2">
        <figure className="min-w-0">
          <figcaption className="mb-1 flex flex-wrap justify-between gap-x-4 text-sm">
            <span className="text-soft">Tasks that ended, {each}</span>
            <Legend items={[["good", `${formatCount(succeeded)} succeeded`], ["alarm", `${formatCount(failed)} failed`]]} />
          </figcaption>
          <Plot label={`${formatCount(succeeded)} tasks succeeded and ${formatCount(failed)} failed in this time`} times={steps.times} series={ended} height={150} isFilled />
        </figure>
        <figure className="min-w-0">
          <figcaption className="mb-1 flex flex-wrap justify-between gap-x-4 text-sm">
            <span className="text-soft">How long tasks waited to start</span>
            <Legend items={[["busy", "half less than"], ["accent", "95 of 100 less than"]]} />
          </figcaption>
          <Plot label={`How long tasks waited to start; 95 of 100 at most ${formatDuration(slowest)}`} times={steps.times} series={latency} unit=" s" height={150} isFilled />
        </figure>
      </div>
      <p className="mt-3 text-xs text-soft">
        {stopped > 0 && `${formatCount(stopped)} were cancelled or expired. `}
        {!history.is_complete && "Only the newest 100,000 tasks of this time are counted. "}
        Metrics of the last weeks: <code className="font-mono">/metrics</code>, for Prometheus and Grafana.
      </p>
    </>
  );
}

const Legend = ({ items }: { items: [keyof typeof COLORS, string][] }) => (
  <ul className="flex flex-wrap gap-x-3 text-xs text-soft">
    {items.map(([color, text]) => <li key={text} className="flex items-center gap-1.5"><span aria-hidden className={`size-2 rounded-full ${COLORS[color]}`} />{text}</li>)}
  </ul>
);
