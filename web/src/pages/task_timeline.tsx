// The phases of a task as a line of steps, with how long each took.

import type { Task } from "../api/tasks";
import { Icon } from "../components/icons";
import { useNow } from "../components/now";
import { isFinal, spell } from "../logic/states";
import { formatDuration, formatMoment, secondsBetween } from "../logic/time";

/** An array has many attempts: from its first start to its end they are one phase. */
function wholeArray(task: Task): Pick<Task["attempts"][number], "assigned_at" | "started_at" | "finished_at" | "usage"> | undefined {
  const first = task.attempts[0];
  if (first === undefined) return undefined;
  const startedAt = task.started_at ?? first.started_at;
  return { assigned_at: startedAt ?? first.assigned_at, started_at: startedAt, finished_at: task.finished_at, usage: null };
}

interface Step {
  name: string;
  at: string | null;
  until: string | null;
}

function steps(task: Task): Step[] {
  const attempt = task.items === null ? task.attempts.at(-1) : wholeArray(task);
  const prepared = attempt?.usage?.prepare_seconds ?? 0;
  const found: Step[] = [{ name: "Queued", at: task.created_at, until: attempt?.assigned_at ?? task.finished_at }];
  if (attempt === undefined && isFinal(task.state)) {
    return [...found, { name: spell(task.state), at: task.finished_at, until: task.finished_at }];
  }
  const startedAt = attempt?.started_at ?? null;
  found.push({
    name: prepared > 0.05 || task.phase === "preparing" ? "Preparing" : "Assigned",
    at: attempt?.assigned_at ?? null,
    until: startedAt ?? attempt?.finished_at ?? null,
  });
  found.push({ name: "Running", at: startedAt, until: startedAt ? (attempt?.finished_at ?? null) : null });
  const end = isFinal(task.state) ? task.finished_at : null;
  found.push({ name: end === null ? "Result" : spell(task.state), at: end, until: end });
  return found;
}

export function Timeline({ task }: { task: Task }) {
  const now = useNow();
  const all = steps(task);
  const current = all.findLastIndex((step) => step.at !== null);
  const machine = task.attempts.at(-1);
  return (
    <div className="sheet mb-4 px-4 py-4 sm:px-5">
      <ol className="flex gap-x-2" aria-label="Phases">
        {all.map((step, index) => {
          const isDone = step.until !== null;
          const isNow = index === current && !isDone;
          const isBad = index === all.length - 1 && (task.state === "failed" || task.state === "expired");
          return (
            <li key={step.name} aria-current={isNow ? "step" : undefined} className="min-w-0 flex-1">
              <div className="mb-2 flex items-center">
                <span
                  className={`grid size-6 shrink-0 place-items-center rounded-full border-2 ${
                    isBad ? "border-alarm bg-alarm-ground text-alarm" : isDone ? "border-accent bg-accent text-on-accent" : isNow ? "border-accent bg-accent-ground" : "border-line"
                  }`}
                >
                  {isBad ? <Icon name="close" className="size-3" /> : isDone ? <Icon name="check" className="size-3" /> : isNow ? <span className="size-2 animate-pulse rounded-full bg-accent" /> : null}
                </span>
                {index < all.length - 1 && <span aria-hidden className={`ml-2 h-0.5 flex-1 rounded sm:mr-2 ${isDone ? "bg-accent" : "bg-line"}`} />}
              </div>
              <div className="min-w-0 sm:pr-3">
                <p className={`text-sm font-medium first-letter:uppercase ${step.at === null ? "text-soft" : ""}`}>{step.name}</p>
                <p className="text-xs text-soft" title={step.at ? formatMoment(step.at) : undefined}>
                  {step.at === null ? "" : index === all.length - 1 ? formatMoment(step.at) : formatDuration(secondsBetween(step.at, step.until, now))}
                </p>
              </div>
            </li>
          );
        })}
      </ol>
      {machine && (
        <p className="mt-3 border-t border-line pt-3 text-sm text-soft">
          {task.items ? "Newest attempt" : `Attempt ${String(machine.number)}`} on <span className="font-medium text-ink">{machine.node_name}</span>
          {machine.devices.length > 0 && ` (${machine.devices.map((device) => device.model).join(", ")})`}
          {machine.is_on_own_node && ", which is yours"}
        </p>
      )}
    </div>
  );
}
