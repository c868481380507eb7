// One item of an array, or one call of a call stream: how it ended, what it returned and wrote.

import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, value } from "../api/client";
import { useRefresh } from "../api/hooks";
import { type Task, cancelTask, retryTask, useTask } from "../api/tasks";
import { Button, Copy, Facts, IconButton, Loading, Moment, ProblemNote, Section, StateBadge } from "../components/basics";
import { Confirm } from "../components/dialog";
import { useNow } from "../components/now";
import { ItemFilter } from "../logic/item_log";
import type { ItemState } from "../logic/items";
import { LogText, fromBase64 } from "../logic/log_text";
import { plural } from "../logic/numbers";
import { exitStatus, isFinal, refusal, spell } from "../logic/states";
import { formatDuration, secondsBetween } from "../logic/time";
import { ReturnValue } from "./task_value";

const MOST_LOG_PAGES = 40;
const MOST_LINES = 1_000;

/** `state` is what the grid shows: a change of it fetches the item anew. It is missing as
 * long as the state of this very item is not known. The panel shows what the server says of the item itself. */
export function ItemPanel({ task, item, isStream, state, onClose }: { task: Task; item: number; isStream: boolean; state: ItemState | undefined; onClose: () => void }) {
  const id = `${task.id}#${String(item)}`;
  const call = useTask(id, state);
  const view = call.data;
  const now = useNow();
  const attempt = view?.attempts.at(-1);
  return (
    <Section
      title={<span className="flex flex-wrap items-center gap-2">{isStream ? "Call" : "Item"} {item} {view && <StateBadge state={view.state}>{view.state === "queued" ? "pending" : undefined}</StateBadge>}</span>}
      actions={
        <>
          <Copy text={id} label="Copy the ID of the item" name="Copy the ID" />
          {view && isStream && <Actions call={view} task={task} />}
          <IconButton icon="close" label="Close the item" onClick={onClose} />
        </>
      }
    >
      {call.isPending && <Loading />}
      <ProblemNote error={call.error} />
      {view && (
        <div className="grid grid-cols-1 gap-4">
          <Facts
            items={[
              ...(attempt ? [["Machine", attempt.node_name] as [string, string]] : []),
              ...(view.attempt_count > 1 ? [["Attempts", String(view.attempt_count)] as [string, string]] : []),
              // An attempt runs many items, and the times of each are not kept.
              ...(attempt?.started_at ? [["Its attempt", <span key="at">started <Moment at={attempt.started_at} />, {attempt.finished_at ? "ran" : "has run"} {formatDuration(secondsBetween(attempt.started_at, attempt.finished_at, now))}</span>] as [string, React.ReactNode]] : []),
              ...(isFinal(view.state) && view.reason && view.reason !== "completed" ? [["Ended by", <span key="why" className={view.state === "failed" ? "text-alarm" : ""}>{view.detail || spell(view.reason)}{exitStatus(view.exit_code, view.detail)}</span>] as [string, React.ReactNode]] : []),
            ]}
          />
          {view.last_lines !== "" && <pre className="max-h-60 overflow-auto rounded-lg bg-alarm-ground p-3 font-mono text-xs whitespace-pre-wrap text-alarm wrap-anywhere" tabIndex={0} aria-label="Its error">{view.last_lines.trimEnd()}</pre>}
          {view.state === "succeeded" && task.kind === "function" && <ReturnValue id={id} item={item} />}
          {attempt && <ItemLog task={task} item={item} attempt={attempt} state={view.state} />}
        </div>
      )}
    </Section>
  );
}

function Actions({ call, task }: { call: Task; task: Task }) {
  const [asking, setAsking] = useState<"cancel" | "retry" | null>(null);
  const navigate = useNavigate();
  const refreshAll = useRefresh();
  return (
    <>
      {refusal("retry", call.state) === null && <Button icon="retry" onClick={() => { setAsking("retry"); }}>Retry the call</Button>}
      {refusal("cancel", call.state) === null && <Button weight="alarm" icon="stop" onClick={() => { setAsking("cancel"); }}>Cancel the call</Button>}
      <Confirm
        isOpen={asking === "cancel"}
        onClose={() => { setAsking(null); }}
        title="Cancel this call?"
        action="Yes, cancel it"
        isAlarming
        run={async () => {
          await cancelTask(call.id);
          await refreshAll(["task", task.id], ["task", call.id]);
        }}
      >
        <p>{call.state === "queued" ? "It has not started." : "It is stopped on its machine."} The other calls of the stream are not affected.</p>
      </Confirm>
      <Confirm
        isOpen={asking === "retry"}
        onClose={() => { setAsking(null); }}
        title="Retry this call?"
        action="Submit the call again"
        run={async () => {
          const again = await retryTask(call.id);
          await refreshAll(["tasks"]);
          await navigate({ to: "/tasks/$taskId", params: { taskId: again.id } });
        }}
      >
        <p>A new task calls the function with the same arguments. This call keeps its outcome.</p>
      </Confirm>
    </>
  );
}

function ItemLog({ task, item, attempt, state }: { task: Task; item: number; attempt: Task["attempts"][number]; state: string }) {
  const log = useQuery({
    queryKey: ["task", task.id, "item log", item, attempt.number, state],
    queryFn: ({ signal }) => readItemLog(task.id, item, attempt, signal),
  });
  const { data } = log;
  return (
    <div>
      <h3 className="mb-1 text-sm text-soft">{data && data.lines.length > 0 ? `Log, ${plural(data.lines.length, "line")}` : "Log"}</h3>
      <ProblemNote error={log.error} />
      {log.isPending ? <Loading rows={1} /> : data?.lines.length === 0 ? (
        <p className="text-sm text-soft">{data.isCleared ? "The log has been deleted: its time was over." : data.isWhole ? "It wrote nothing." : "Nothing in the beginning of the log. The tab Log has everything."}</p>
      ) : (
        <pre className="max-h-80 overflow-auto rounded-lg bg-sunken p-3 font-mono text-xs" tabIndex={0} aria-label="Log of the item">
          {data?.lines.slice(0, MOST_LINES).map((line, index) => <span key={index} className={line.stream === "stderr" ? "text-alarm" : ""}>{line.text}{"\n"}</span>)}
        </pre>
      )}
    </div>
  );
}

/** Of the whole log of the attempt only the lines of the item; of a very long one its beginning. */
async function readItemLog(taskId: string, item: number, attempt: Task["attempts"][number], signal: AbortSignal) {
  const filter = new ItemFilter(item, attempt.items ?? { start: 0, end: 0 });
  const text = new LogText();
  let isCleared = false;
  for (let offset = 0, pages = 0; pages < MOST_LOG_PAGES; pages += 1) {
    const page = await value(api.GET("/v1/tasks/{task_id}/logs", { params: { path: { task_id: taskId }, query: { attempt: attempt.number, offset } }, signal }));
    isCleared = page.cleared;
    for (const { stream, data, at } of page.pieces) {
      const piece = { stream, data: fromBase64(data) };
      if (filter.accepts(piece)) text.push(stream, piece.data, at);
    }
    if (page.next_offset <= offset || page.pieces.length === 0) return { lines: text.lines, isCleared, isWhole: true };
    offset = page.next_offset;
  }
  return { lines: text.lines, isCleared, isWhole: false };
}
