// The items of an array as a grid: each cell is an item, or a run of items if there are many.

import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { type Schemas, api, value } from "../api/client";
import type { Task } from "../api/tasks";
import { Bar, Button, ProblemNote, Section, StateBadge } from "../components/basics";
import { type ItemState, itemCells } from "../logic/items";
import { formatCount, plural } from "../logic/numbers";
import { spell } from "../logic/states";

const COLORS: Record<ItemState, string> = {
  succeeded: "bg-good",
  failed: "bg-alarm",
  running: "bg-busy",
  pending: "bg-line",
};
const MOST_CELLS = 1_000;

export function ItemsTab({ task, items }: { task: Task; items: Schemas["ItemCounts"] }) {
  const failures = useInfiniteQuery({
    queryKey: ["task", task.id, "items", task.version],
    queryFn: ({ pageParam, signal }) =>
      value(api.GET("/v1/tasks/{task_id}/items", { params: { path: { task_id: task.id }, query: { cursor: pageParam, limit: 500 } }, signal })),
    initialPageParam: -1,
    getNextPageParam: (page) => page.next_cursor,
    enabled: items.failed > 0,
  });
  const failed = useMemo(() => failures.data?.pages.flatMap((page) => page.items) ?? [], [failures.data]);
  const [chosen, setChosen] = useState<number | null>(null);
  const cells = itemCells({
    total: items.total,
    pending: items.pending,
    failed: failed.map((each) => each.item),
    running: task.attempts.filter((each) => each.finished_at === null).flatMap((each) => each.items ?? []),
    isOver: task.finished_at !== null,
    mostCells: MOST_CELLS,
  });
  const inProgress = items.total - items.pending - items.succeeded - items.failed;
  const shown = chosen === null ? failed : failed.filter((each) => each.item === chosen);
  return (
    <div className="grid grid-cols-1 gap-4">
      <Section title={`${formatCount(items.succeeded)} of ${plural(items.total, "item")} succeeded`}>
        <Bar share={items.succeeded / items.total} tone="good" label="Items that succeeded" />
        <ul className="my-3 flex flex-wrap gap-x-4 gap-y-1 text-sm text-soft">
          {([["succeeded", items.succeeded], ["running", inProgress], ["failed", items.failed], ["pending", items.pending]] as const).map(([state, count]) => (
            <li key={state} className="flex items-center gap-1.5"><span aria-hidden className={`size-2.5 rounded-sm ${COLORS[state]}`} />{formatCount(count)} {state}</li>
          ))}
        </ul>
        <div className="flex flex-wrap gap-[3px]" role="group" aria-label="Items">
          {cells.map((cell) =>
            cell.state === "failed" ? (
              <button key={cell.start} type="button" aria-pressed={chosen === cell.start} aria-label={`Item ${String(cell.start)} failed`} title={cell.title} onClick={() => { setChosen(chosen === cell.start ? null : cell.start); }} className="size-3.5 rounded-sm bg-alarm aria-pressed:outline-2 aria-pressed:outline-ink" />
            ) : (
              <span key={cell.start} title={cell.title} className={`size-3.5 rounded-sm ${COLORS[cell.state]}`} />
            ),
          )}
        </div>
        {items.total > MOST_CELLS && <p className="mt-2 text-xs text-soft">A cell stands for {formatCount(Math.ceil(items.total / MOST_CELLS))} items.</p>}
      </Section>
      {items.failed > 0 && (
        <Section title="Failed items" actions={chosen !== null && <Button weight="quiet" onClick={() => { setChosen(null); }}>Show all</Button>}>
          <ProblemNote error={failures.error} />
          <ul className="divide-y divide-line">
            {shown.slice(0, 100).map((each) => (
              <li key={each.item} className="py-2 text-sm">
                <p className="flex flex-wrap items-center gap-2">
                  <span className="font-medium">Item {each.item}</span>
                  <StateBadge state={each.is_final ? "failed" : "pending"}>{each.is_final ? "failed" : "will be retried"}</StateBadge>
                  <span className="text-soft wrap-anywhere">{each.detail || spell(each.reason)}, {plural(each.failures, "failure")}</span>
                </p>
                {each.last_lines && <pre className="mt-1 max-h-40 overflow-auto rounded bg-sunken p-2 font-mono text-xs" tabIndex={0} aria-label={`The end of the error output of item ${String(each.item)}`}>{each.last_lines}</pre>}
              </li>
            ))}
          </ul>
          {failures.hasNextPage && <Button onClick={() => void failures.fetchNextPage()}>More</Button>}
        </Section>
      )}
    </div>
  );
}
