// Cancel or retry many tasks: an exact list of what will be touched and what will not, and why; then
// each result. A task that has changed meanwhile is left as it is.

import { useState } from "react";
import { type Schemas, api, newKey, value } from "../api/client";
import { Button, Id, ProblemNote, StateBadge } from "../components/basics";
import { Dialog } from "../components/dialog";
import { plural } from "../logic/numbers";
import { refusal } from "../logic/states";

export type Affected = Schemas["AffectedTask"];
const AT_ONCE = 100;

export function BulkDialog({
  action,
  tasks,
  hasMore = false,
  onClose,
}: {
  action: "cancel" | "retry";
  tasks: Affected[];
  hasMore?: boolean;
  onClose: (isDone: boolean) => void;
}) {
  // As it was when the dialog opened: the list may change behind it.
  const [list] = useState(tasks);
  const [results, setResults] = useState<ReadonlyMap<string, string>>(new Map());
  const [phase, setPhase] = useState<"preview" | "busy" | "done">("preview");
  const [error, setError] = useState<unknown>(null);
  const touched = list.filter((task) => refusal(action, task.state) === null);
  const left = list.filter((task) => refusal(action, task.state) !== null);
  const run = async () => {
    setPhase("busy");
    setError(null);
    try {
      for (let start = 0; start < touched.length; start += AT_ONCE) {
        const part = touched.slice(start, start + AT_ONCE).map(({ id, version }) => ({ id, version }));
        const answer = await value(
          api.POST("/v1/tasks/actions", { params: { header: { "Idempotency-Key": newKey() } }, body: { action, tasks: part } }),
        );
        setResults((known) => new Map([...known, ...answer.results.map((each): [string, string] => [each.id, said(action, each)])]));
      }
    } catch (problem) {
      setError(problem);
    }
    setPhase("done");
  };
  const verb = action === "cancel" ? "Cancel" : "Retry";
  return (
    <Dialog isOpen wide onClose={() => { onClose(phase !== "preview"); }} title={`${verb} ${plural(touched.length, "task")}`}>
      {touched.length === 0 ? (
        <p className="text-sm">None of these tasks can be {action === "cancel" ? "cancelled" : "retried"} now.</p>
      ) : (
        <ul className="max-h-72 divide-y divide-line overflow-y-auto rounded-lg border border-line text-sm">
          {touched.map((task) => (
            <li key={task.id} className="flex items-center justify-between gap-3 px-3 py-2">
              <span className="flex min-w-0 items-baseline gap-2"><span className="truncate">{task.name}</span><Id id={task.id} /></span>
              <span className="shrink-0">{results.get(task.id) ?? <StateBadge state={task.state} />}</span>
            </li>
          ))}
        </ul>
      )}
      {hasMore && <p className="mt-2 text-sm text-soft">Older tasks match too. Do these first, then ask again.</p>}
      {left.length > 0 && (
        <details className="mt-3 text-sm">
          <summary className="text-soft">{plural(left.length, "selected task")} will not be touched</summary>
          <ul className="mt-2 max-h-40 overflow-y-auto pl-4">
            {left.map((task) => (
              <li key={task.id} className="truncate">
                {task.name}: {refusal(action, task.state)}
              </li>
            ))}
          </ul>
        </details>
      )}
      <ProblemNote error={error} />
      <div className="mt-5 flex justify-end gap-2">
        <Button onClick={() => { onClose(phase !== "preview"); }}>{phase === "done" ? "Close" : "Back"}</Button>
        {phase !== "done" && (
          <Button weight={action === "cancel" ? "alarm" : "main"} disabled={phase === "busy" || touched.length === 0} onClick={() => void run()}>
            {phase === "busy" ? "One moment …" : `${verb} ${plural(touched.length, "task")}`}
          </Button>
        )}
      </div>
    </Dialog>
  );
}

function said(action: "cancel" | "retry", result: Schemas["ActionResult"]): string {
  if (result.outcome === "changed") return "has changed meanwhile";
  if (result.outcome === "refused") return result.detail;
  return action === "cancel" ? "cancelled" : `submitted again as …${(result.new_task_id ?? "").slice(-8)}`;
}
