// Cancel or retry many tasks: an exact list of what will be touched and what will not, and why; then
// each result.

import { useState } from "react";
import { asProblem } from "../api/problem";
import { type Task, cancelTask, retryTask } from "../api/tasks";
import { Button, StateBadge } from "../components/basics";
import { Dialog } from "../components/dialog";
import { plural } from "../logic/numbers";
import { refusal } from "../logic/states";

const AT_ONCE = 4;

export function BulkDialog({
  action,
  tasks,
  onClose,
}: {
  action: "cancel" | "retry";
  tasks: Task[];
  onClose: (isDone: boolean) => void;
}) {
  // As it was when the dialog opened: the list may change behind it.
  const [list] = useState(tasks);
  const [results, setResults] = useState<ReadonlyMap<string, string>>(new Map());
  const [phase, setPhase] = useState<"preview" | "busy" | "done">("preview");
  const touched = list.filter((task) => refusal(action, task.state) === null);
  const left = list.filter((task) => refusal(action, task.state) !== null);
  const run = async () => {
    setPhase("busy");
    const waiting = [...touched];
    const work = async () => {
      for (let task = waiting.shift(); task !== undefined; task = waiting.shift()) {
        const { id } = task;
        const said = await (action === "cancel" ? cancelTask(id) : retryTask(id)).then(
          (view) => (action === "cancel" ? view.state : `submitted again as …${view.id.slice(-8)}`),
          (error: unknown) => asProblem(error).message,
        );
        setResults((known) => new Map(known).set(id, said));
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    setPhase("done");
  };
  const verb = action === "cancel" ? "Cancel" : "Retry";
  return (
    <Dialog isOpen wide onClose={() => { onClose(phase !== "preview"); }} title={`${verb} ${plural(touched.length, "task")}`}>
      {touched.length === 0 ? (
        <p className="text-sm">None of the selected tasks can be {action === "cancel" ? "cancelled" : "retried"} now.</p>
      ) : (
        <ul className="max-h-72 divide-y divide-line overflow-y-auto rounded-lg border border-line text-sm">
          {touched.map((task) => (
            <li key={task.id} className="flex items-center justify-between gap-3 px-3 py-2">
              <span className="min-w-0 truncate">{task.name}</span>
              <span className="shrink-0">{results.get(task.id) ?? <StateBadge state={task.state} />}</span>
            </li>
          ))}
        </ul>
      )}
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
