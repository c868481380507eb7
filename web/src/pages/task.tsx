// One task: where it is, why it waits, what it wrote, what it made, what it cost.

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { api, value } from "../api/client";
import { useRefresh } from "../api/hooks";
import { type Task, cancelTask, retryTask, useTask } from "../api/tasks";
import { Ago, Button, Copy, Credits, Facts, LinkButton, Loading, Moment, PageTitle, ProblemNote, Section, StateBadge, Words } from "../components/basics";
import { Confirm } from "../components/dialog";
import { useNow } from "../components/now";
import { formatBytes, formatCount, plural } from "../logic/numbers";
import { exitStatus, isFinal, refusal, spell } from "../logic/states";
import { writeVolumes } from "../logic/option_values";
import { formatDuration, secondsBetween } from "../logic/time";
import { AttemptsTab } from "./task_attempts";
import { FilesTab } from "./task_files";
import { ItemsTab } from "./task_items";
import { LogTab } from "./task_log";
import { ReturnValue } from "./task_value";
import { Timeline } from "./task_timeline";

const TABS = [
  ["log", "Log"],
  ["files", "Files"],
  ["attempts", "Attempts and usage"],
  ["items", "Items"],
  ["details", "Details"],
] as const;

export function TaskPage() {
  const { taskId } = useParams({ from: "/tasks/$taskId" });
  const search = useSearch({ from: "/tasks/$taskId" });
  const navigate = useNavigate({ from: "/tasks/$taskId" });
  const task = useTask(taskId);
  if (task.isPending) return <Loading rows={6} />;
  if (task.isError) return <ProblemNote error={task.error} retry={() => void task.refetch()} />;
  const view = task.data;
  const tabs = TABS.filter(([name]) => name !== "items" || view.items !== null);
  const tab = tabs.find(([name]) => name === search.tab)?.[0] ?? (view.items === null ? "log" : "items");
  return (
    <>
      <nav aria-label="Path" className="mb-2 text-sm text-soft">
        <Link to="/tasks" className="hover:text-accent">Tasks</Link>
      </nav>
      <PageTitle title={view.name} actions={<Actions task={view} />}>
        <p className="mt-1.5 flex flex-wrap items-center gap-x-3 gap-y-1 text-sm text-soft">
          {isIdle(view) ? <StateBadge state="idle" /> : <StateBadge state={view.state}>{view.phase === view.state ? undefined : spell(view.phase)}</StateBadge>}
          <span>{view.kind}</span>
          <span>submitted <Ago at={view.created_at} /></span>
          {view.charge_micro > 0n && <span><Credits micro={view.charge_micro} /> credits</span>}
          {view.retry_of && <span>retry of <Link className="text-accent underline" to="/tasks/$taskId" params={{ taskId: view.retry_of }}>…{view.retry_of.slice(-8)}</Link></span>}
          <code className="font-mono text-xs">{view.id}</code>
        </p>
      </PageTitle>
      <Timeline task={view} />
      <Outcome task={view} />
      {view.state === "queued" && <Why key={String(isIdle(view))} taskId={view.id} sentence={isIdle(view) ? undefined : view.waiting?.sentence} />}
      <div role="tablist" aria-label="Parts of the task" className="mb-3 flex gap-1 overflow-x-auto overflow-y-hidden border-b border-line">
        {tabs.map(([name, text]) => (
          <button
            key={name}
            type="button"
            role="tab"
            id={`tab-${name}`}
            aria-selected={name === tab}
            aria-controls="tab-panel"
            onClick={() => void navigate({ search: { tab: name }, replace: true })}
            className="-mb-px min-h-10 border-b-2 border-transparent px-3 text-sm whitespace-nowrap text-soft aria-selected:border-accent aria-selected:font-medium aria-selected:text-ink"
          >
            {text}
          </button>
        ))}
      </div>
      <div role="tabpanel" id="tab-panel" aria-labelledby={`tab-${tab}`}>
        {tab === "log" && <LogTab key={taskId} task={view} />}
        {tab === "files" && <FilesTab task={view} />}
        {tab === "attempts" && <AttemptsTab task={view} />}
        {tab === "items" && view.items !== null && <ItemsTab task={view} />}
        {tab === "details" && <Details task={view} />}
      </div>
    </>
  );
}

/** A call stream between its calls: all that came are done, and no machine has it. */
const isIdle = (task: Task) => task.state === "queued" && task.items?.pending === 0;

function Actions({ task }: { task: Task }) {
  const [asking, setAsking] = useState<"cancel" | "retry" | null>(null);
  const navigate = useNavigate();
  const refreshAll = useRefresh();
  return (
    <>
      <Copy text={task.id} label="Copy the ID of the task" name="Copy the ID" />
      {task.kind !== "function" && <LinkButton to="/submit" search={{ from: task.id }} weight="quiet" icon="plus">Again, with changes</LinkButton>}
      {refusal("retry", task.state) === null && <Button icon="retry" onClick={() => { setAsking("retry"); }}>Retry</Button>}
      {refusal("cancel", task.state) === null && <Button weight="alarm" icon="stop" onClick={() => { setAsking("cancel"); }}>Cancel</Button>}
      <Confirm
        isOpen={asking === "cancel"}
        onClose={() => { setAsking(null); }}
        title="Cancel this task?"
        action="Cancel the task"
        isAlarming
        run={async () => {
          await cancelTask(task.id);
          await refreshAll(["task", task.id], ["tasks"]);
        }}
      >
        <p>
          {task.state === "queued"
            ? "It has not started, so it costs nothing."
            : "It stops on its machine. You pay for the time it ran; its log and the files that were sent stay."}
        </p>
      </Confirm>
      <Confirm
        isOpen={asking === "retry"}
        onClose={() => { setAsking(null); }}
        title="Retry this task?"
        action="Submit it again"
        run={async () => {
          const again = await retryTask(task.id);
          await refreshAll(["tasks"]);
          await navigate({ to: "/tasks/$taskId", params: { taskId: again.id } });
        }}
      >
        <p>
          A new task with the same content is submitted{task.items ? ", for the items that have not succeeded" : ""}. Secrets
          are deleted when a task ends: a task that had some is retried with <code className="font-mono">potluck retry</code>.
        </p>
      </Confirm>
    </>
  );
}

function Outcome({ task }: { task: Task }) {
  if (task.silence) {
    return (
      <p role="status" className="mb-4 rounded-lg bg-wait-ground px-4 py-3 text-sm text-wait">
        Its machine has been silent since <Moment at={task.silence.since} />. The task goes elsewhere after <Moment at={task.silence.until} /> unless it returns.
      </p>
    );
  }
  if (task.state === "succeeded" && task.kind === "function" && task.items === null) {
    return <Section className="mb-4"><ReturnValue id={task.id} item={0} /></Section>;
  }
  if (!isFinal(task.state) || task.state === "succeeded") return null;
  const lines = task.last_lines.trimEnd();
  return (
    <div className={`mb-4 rounded-lg px-4 py-3 text-sm ${task.state === "failed" ? "bg-alarm-ground text-alarm" : "bg-sunken"}`}>
      <p className="font-medium wrap-anywhere">
        {task.detail || spell(task.reason ?? task.state)}
        {exitStatus(task.exit_code, task.detail)}
      </p>
      {lines !== "" && <pre className="mt-2 max-h-48 overflow-auto font-mono text-xs whitespace-pre-wrap wrap-anywhere" tabIndex={0} aria-label="The end of its error output">{lines}</pre>}
    </div>
  );
}

function Why({ taskId, sentence }: { taskId: string; sentence: string | undefined }) {
  const why = useQuery({
    queryKey: ["task", taskId, "explain"],
    queryFn: ({ signal }) => value(api.GET("/v1/tasks/{task_id}/explain", { params: { path: { task_id: taskId } }, signal })),
    refetchInterval: 30_000,
  });
  const { data } = why;
  return (
    <Section title="Why it waits" className="mb-4">
      <p className="font-medium">{data?.sentence ?? sentence ?? (why.isPending ? "One moment …" : "The scheduler has not looked at it yet.")}</p>
      <ProblemNote error={why.error} />
      {data && (
        <div className="mt-2 grid gap-3 text-sm sm:grid-cols-2">
          {data.changes.length > 0 && (
            <div>
              <h3 className="mb-1 text-soft">What would help</h3>
              <ul className="list-disc pl-5">{data.changes.map((change) => <li key={change}><Words text={change} /></li>)}</ul>
            </div>
          )}
          {data.refusals.length > 0 && (
            <div>
              <h3 className="mb-1 text-soft">{plural(data.nodes, "machine")} considered</h3>
              <ul className="list-disc pl-5">{data.refusals.map((each) => <li key={each.code}>{each.sentence}</li>)}</ul>
            </div>
          )}
          <p className="text-soft empty:hidden sm:col-span-2">
            {data.position !== null && `Position ${formatCount(data.position)} in the queue. `}
            {data.estimated_start !== null && <>Expected to start <Ago at={data.estimated_start} />{data.basis && ` (${data.basis})`}.</>}
          </p>
        </div>
      )}
    </Section>
  );
}

function Details({ task }: { task: Task }) {
  const now = useNow();
  const needs = task.requirements;
  const rows: [string, React.ReactNode][] = [
    ["Priority", String(task.priority)],
    ["Devices", `${plural(needs.device_count, needs.device_kind ?? "device")}${needs.device_milli ? `, ${String(needs.device_milli / 10)} % of it` : ""}`],
    ...(needs.device_model ? [["Model", needs.device_model] as [string, string]] : []),
    ...(needs.device_memory_bytes > 0 ? [["Device memory", formatBytes(needs.device_memory_bytes)] as [string, string]] : []),
    ...(needs.max_price_micro_per_hour !== null ? [["Highest price", <><Credits micro={needs.max_price_micro_per_hour} /> an hour</>] as [string, React.ReactNode]] : []),
    ["Cores, memory, disk", `${plural(needs.cores, "core")}, ${formatBytes(needs.memory_bytes)}, ${formatBytes(needs.disk_bytes)}`],
    ...(needs.network.length > 0 ? [["Network", `${needs.network.join(", ")}, at most ${formatBytes(needs.network_bytes)}`] as [string, string]] : []),
    ...(needs.volumes.length > 0 ? [["Volumes", writeVolumes(needs.volumes)] as [string, string]] : []),
    ...(needs.labels.length > 0 ? [["Labels", needs.labels.join(", ")] as [string, string]] : []),
    ["Time limit", formatDuration(task.limits.run_seconds)],
    ["Submitted", <Moment key="at" at={task.created_at} />],
    ["Started", task.started_at ? <Moment at={task.started_at} /> : "–"],
    ["Finished", task.finished_at ? <Moment at={task.finished_at} /> : "–"],
    ["Duration", task.started_at ? formatDuration(secondsBetween(task.started_at, task.finished_at, now)) : "–"],
    ["Cost", <Credits key="cost" micro={task.charge_micro} />],
    ["Log and files kept until", task.kept_until ? <Moment at={task.kept_until} /> : "the task has ended, and then for a while"],
    ...(task.after.length > 0
      ? [["Starts after", task.after.map((id) => <Link key={id} className="mr-2 text-accent underline" to="/tasks/$taskId" params={{ taskId: id }}>…{id.slice(-8)}</Link>)] as [string, React.ReactNode]]
      : []),
  ];
  return <Section><Facts items={rows} /></Section>;
}
