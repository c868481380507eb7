// Every attempt of a task: where it ran, what it used, how it ended and what it cost.

import { useInfiniteQuery } from "@tanstack/react-query";
import { Suspense, lazy } from "react";
import { type Schemas, api, value } from "../api/client";
import { type Task } from "../api/tasks";
import { Ago, Bar, Button, Credits, Empty, Loading, ProblemNote, Section, StateBadge } from "../components/basics";
import { formatBytes } from "../logic/numbers";
import { spell } from "../logic/states";
import { formatDuration } from "../logic/time";

type Attempt = Schemas["AttemptView"];
const DevicePlots = lazy(() => import("./device_plots").then((module) => ({ default: module.DevicePlots })));

export function AttemptsTab({ task }: { task: Task }) {
  const list = useInfiniteQuery({
    queryKey: ["task", task.id, "attempts", task.version],
    queryFn: ({ pageParam, signal }) =>
      value(
        api.GET("/v1/tasks/{task_id}/attempts", {
          params: { path: { task_id: task.id }, query: { limit: 50, ...(pageParam === null ? {} : { cursor: pageParam }) } },
          signal,
        }),
      ),
    initialPageParam: null as number | null,
    getNextPageParam: (page) => page.next_cursor,
  });
  if (list.isPending) return <Loading />;
  if (list.isError) return <ProblemNote error={list.error} retry={() => void list.refetch()} />;
  const attempts = list.data.pages.flatMap((page) => page.attempts);
  if (attempts.length === 0) return <Empty title="No attempts yet.">The task has not been given to a machine.</Empty>;
  return (
    <div className="grid grid-cols-1 gap-3">
      {attempts.map((attempt) => <AttemptCard key={attempt.id} task={task} attempt={attempt} />)}
      {list.hasNextPage && <Button onClick={() => void list.fetchNextPage()}>Older attempts</Button>}
    </div>
  );
}

function AttemptCard({ task, attempt }: { task: Task; attempt: Attempt }) {
  const { usage } = attempt;
  const isRunning = attempt.finished_at === null;
  return (
    <Section
      title={<span className="flex flex-wrap items-center gap-2">Attempt {attempt.number} <StateBadge state={attempt.state} /></span>}
      actions={<span className="text-sm text-soft"><Ago at={attempt.assigned_at} /></span>}
    >
      <p className="mb-3 text-sm">
        {attempt.node_name}{attempt.devices.length > 0 && `: ${attempt.devices.map((device) => `${device.model}${device.milli < 1000 ? ` (${String(device.milli / 10)} %)` : ""}`).join(", ")}`}
        {attempt.items && `, items ${String(attempt.items.start)} to ${String(attempt.items.end - 1)}`}
      </p>
      {(attempt.detail || attempt.reason) && attempt.state !== "succeeded" && <p className="mb-3 text-sm text-alarm wrap-anywhere">{attempt.detail || spell(attempt.reason ?? "")}</p>}
      {usage && (
        <div className="grid grid-cols-2 gap-x-6 gap-y-3 text-sm sm:grid-cols-4">
          <Use name="Run" text={formatDuration(usage.run_seconds)} share={usage.run_seconds / task.limits.run_seconds} of={`of ${formatDuration(task.limits.run_seconds)}`} />
          <Use name="Memory peak" text={formatBytes(usage.memory_peak_bytes)} share={usage.memory_peak_bytes / task.requirements.memory_bytes} of={`of ${formatBytes(task.requirements.memory_bytes)}`} />
          <Use name="Processor" text={formatDuration(usage.cpu_seconds)} share={usage.run_seconds > 0 ? usage.cpu_seconds / usage.run_seconds / task.requirements.cores : 0} of={`on ${String(task.requirements.cores)} core${task.requirements.cores === 1 ? "" : "s"}`} />
          <Use name="Device" text={formatDuration(usage.device_seconds)} share={usage.run_seconds > 0 ? usage.device_seconds / usage.run_seconds : 0} of={usage.energy_joules === null ? "busy" : `busy, ${(usage.energy_joules / 3600).toLocaleString(undefined, { maximumFractionDigits: 1 })} Wh`} />
          <p className="col-span-full text-xs text-soft">
            Prepared in {formatDuration(usage.prepare_seconds)}, {formatBytes(usage.input_bytes)} in, {formatBytes(usage.output_bytes)} out, {formatBytes(usage.log_bytes)} of log{usage.network_bytes > 0 && `, ${formatBytes(usage.network_bytes)} over the network`}.
          </p>
        </div>
      )}
      {attempt.started_at !== null && attempt.is_on_own_node && attempt.devices.map((device) => (
        <div key={device.device_id} className="mt-4">
          <h3 className="mb-2 text-sm text-soft">{device.model}, while it {isRunning ? "runs" : "ran"}</h3>
          <Suspense fallback={<Loading />}><DevicePlots deviceId={device.device_id} from={attempt.started_at ?? ""} until={attempt.finished_at} /></Suspense>
        </div>
      ))}
      <p className="mt-3 text-sm">Cost: <Credits micro={attempt.charge_micro} />{attempt.is_on_own_node && attempt.charge_micro > 0n && " (paid to yourself)"}</p>
    </Section>
  );
}

function Use({ name, text, share, of }: { name: string; text: string; share: number; of: string }) {
  return (
    <div>
      <p className="text-soft">{name}</p>
      <p className="font-medium">{text} <span className="text-xs font-normal text-soft">{of}</span></p>
      <Bar share={share} tone={share > 0.95 ? "alarm" : "busy"} label={`${name}: share of the limit`} />
    </div>
  );
}
