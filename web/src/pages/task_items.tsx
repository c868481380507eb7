// The items of an array, or the calls of a call stream, as a grid: one is chosen to see it.

import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { type KeyboardEvent, type ReactNode, useRef, useState } from "react";
import { type Schemas, api, value } from "../api/client";
import { useRefresh } from "../api/hooks";
import { useLive } from "../api/live";
import type { Task } from "../api/tasks";
import { Ago, Bar, Button, Loading, ProblemNote, Section, StateBadge } from "../components/basics";
import { Confirm } from "../components/dialog";
import { type Cell, ITEM_STATES, type ItemState, cellSize, countStates, itemCells, stateOf } from "../logic/items";
import { formatCount, plural } from "../logic/numbers";
import { isFinal, spell } from "../logic/states";
import { ItemPanel } from "./task_item";

type States = Schemas["ItemStates"];

// Failed items are round, so that they differ by more than their colour.
const LOOKS: Record<ItemState, string> = {
  succeeded: "rounded-sm bg-good",
  failed: "rounded-full bg-alarm",
  running: "rounded-sm bg-busy",
  cancelled: "rounded-sm bg-strong-line",
  pending: "rounded-sm border border-strong-line",
};
const MOST_CELLS = 1_000;
const BUSY_MS = 2_000;
const IDLE_MS = 15_000;

interface Span {
  start: number;
  end: number;
}

export function ItemsTab({ task }: { task: Task }) {
  const states = useStates(task, null);
  const { item } = useSearch({ from: "/tasks/$taskId" });
  const navigate = useNavigate({ from: "/tasks/$taskId" });
  const all = states.data;
  const chosen = all !== undefined && item !== undefined && item < all.total ? item : null;
  const size = all === undefined ? 1 : cellSize(all.total, all.block_items, MOST_CELLS);
  const span = all === undefined || chosen === null ? null : spanOf(chosen, size, all.total);
  // The ranges of a large array are rounded, those of a few items are exact.
  const cell = useStates(task, span, size > 1 && span !== null);
  if (states.isPending) return <Loading />;
  if (states.isError) return <ProblemNote error={states.error} retry={() => void states.refetch()} />;
  const choose = (next: number | null) =>
    void navigate({ search: { tab: "items", ...(next === null ? {} : { item: next }) }, replace: true, resetScroll: false });
  const exact = states.data.block_items === 1 ? states.data : cell.data;
  return (
    <div className="grid grid-cols-1 gap-4">
      <Overview task={task} states={states.data} size={size} chosen={chosen} choose={choose}>
        {size > 1 && span !== null && chosen !== null && (
          <div className="mt-3 border-t border-line pt-3">
            {cell.isPending && <Loading rows={1} />}
            <ProblemNote error={cell.error} />
            {cell.data && <Grid label="Items of the chosen cell" cells={itemCells(cell.data, span.start, span.end, cell.data.block_items)} chosen={chosen} choose={choose} />}
          </div>
        )}
      </Overview>
      {chosen !== null && <ItemPanel key={chosen} task={task} item={chosen} isStream={states.data.is_stream} state={exact && stateOf(exact, chosen)} onClose={() => { choose(null); }} />}
      {states.data.counts.failed > 0 && <Failures task={task} failed={states.data.counts.failed} choose={choose} />}
    </div>
  );
}

/** The cell of an item. */
function spanOf(item: number, size: number, total: number): Span {
  const start = Math.floor(item / size) * size;
  return { start, end: Math.min(total, start + size) };
}

/** Of all items, or of those in the span. */
function useStates(task: Task, span: Span | null, enabled = true) {
  const { isPaused } = useLive();
  return useQuery({
    queryKey: ["task", task.id, "states", span],
    queryFn: ({ signal }) =>
      value(api.GET("/v1/tasks/{task_id}/items/states", { params: { path: { task_id: task.id }, query: span ?? {} }, signal })),
    enabled,
    refetchInterval: ({ state: { data } }) => {
      if (isPaused || isFinal(task.state)) return false;
      return data === undefined || data.counts.total > doneItems(data.counts) ? BUSY_MS : IDLE_MS;
    },
  });
}

const doneItems = ({ succeeded, failed, cancelled }: States["counts"]) => succeeded + failed + cancelled;

function Overview({ task, states, size, chosen, choose, children }: { task: Task; states: States; size: number; chosen: number | null; choose: (item: number) => void; children: ReactNode }) {
  const counts = countStates(states.counts);
  const name = states.is_stream ? "call" : "item";
  return (
    <Section title={`${formatCount(counts.succeeded)} of ${plural(states.total, name)} succeeded`} actions={<GoTo total={states.total} choose={choose} />}>
      {states.is_stream && <StreamState task={task} states={states} />}
      <Bar share={counts.succeeded / states.total} tone="good" label="Items that succeeded" />
      <ul className="my-3 flex flex-wrap gap-x-4 gap-y-1 text-sm text-soft">
        {ITEM_STATES.filter((state) => state !== "cancelled" || states.is_stream).map((state) => (
          <li key={state} className="flex items-center gap-1.5">
            <span aria-hidden className={`size-2.5 ${LOOKS[state]}`} />
            {formatCount(counts[state])} {state === "pending" && isFinal(task.state) ? "not run" : state}
          </li>
        ))}
      </ul>
      <Grid label="Items" cells={itemCells(states, 0, states.total, size)} chosen={chosen} choose={choose} />
      {size > 1 && <p className="mt-2 text-xs text-soft">A cell stands for {formatCount(size)} items. Choose one to see them.</p>}
      {children}
    </Section>
  );
}

/** Whether a stream takes calls, in words; an open one can be closed. */
function StreamState({ task, states }: { task: Task; states: States }) {
  const [isAsking, setAsking] = useState(false);
  const refreshAll = useRefresh();
  if (isFinal(task.state)) return <p className="mb-3 text-sm text-soft">This call stream is closed, and each of its calls has an outcome.</p>;
  if (states.open_until === null) return <p className="mb-3 text-sm text-soft">This call stream is closed: it takes no more calls, and ends when each has an outcome.</p>;
  return (
    <div className="mb-3 flex flex-wrap items-center justify-between gap-2 text-sm">
      <p>This call stream is open. It closes when idle: <span className="text-soft"><Ago at={states.open_until} />, unless another call comes before.</span></p>
      <Button weight="quiet" onClick={() => { setAsking(true); }}>Close it now</Button>
      <Confirm
        isOpen={isAsking}
        onClose={() => { setAsking(false); }}
        title="Close this call stream?"
        action="Close the stream"
        run={async () => {
          await value(api.POST("/v1/tasks/{task_id}/close", { params: { path: { task_id: task.id } } }));
          await refreshAll(["task", task.id]);
        }}
      >
        <p>Its calls still run, and then it ends. A program that goes on calling opens another stream by itself.</p>
      </Confirm>
    </div>
  );
}

function GoTo({ total, choose }: { total: number; choose: (item: number) => void }) {
  return (
    <label className="flex items-center gap-2 text-sm text-soft">
      Go to
      <input type="number" min={0} max={total - 1} className="field w-24!" aria-label="Number of an item" placeholder={`0–${String(total - 1)}`} onChange={(event) => { if (event.target.value !== "" && event.target.validity.valid) choose(event.target.valueAsNumber); }} />
    </label>
  );
}

const ARROWS: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1 };

/** One stop for the Tab key; the arrows go from cell to cell. */
function Grid({ label, cells, chosen, choose }: { label: string; cells: Cell[]; chosen: number | null; choose: (item: number) => void }) {
  const place = useRef<HTMLDivElement>(null);
  const at = cells.findIndex((cell) => chosen !== null && cell.start <= chosen && chosen < cell.end);
  const go = (event: KeyboardEvent) => {
    const columns = columnsOf(place.current);
    const step = ARROWS[event.key] ?? (event.key === "ArrowDown" ? columns : event.key === "ArrowUp" ? -columns : 0);
    const next = cells[at === -1 ? 0 : at + step];
    if (step === 0 || next === undefined) return;
    event.preventDefault();
    choose(next.start);
    place.current?.querySelector<HTMLElement>(`[data-start="${String(next.start)}"]`)?.focus();
  };
  return (
    <div ref={place} role="listbox" aria-label={label} aria-orientation="horizontal" className="flex flex-wrap" onKeyDown={go}>
      {cells.map((cell, index) => (
        <span
          key={cell.start}
          role="option"
          data-start={cell.start}
          aria-selected={index === at}
          aria-label={cell.title}
          title={cell.title}
          tabIndex={index === Math.max(at, 0) ? 0 : -1}
          onClick={() => { choose(cell.start); }}
          className="group cursor-pointer p-[2px] outline-offset-0"
        >
          <span aria-hidden className={`block size-3.5 ${LOOKS[cell.state]} group-aria-selected:outline-2 group-aria-selected:outline-ink`} />
        </span>
      ))}
    </div>
  );
}

/** How many cells are in the first row. */
function columnsOf(grid: HTMLElement | null): number {
  const cells = Array.from(grid?.children ?? []) as HTMLElement[];
  const second = cells.findIndex((cell) => cell.offsetTop !== cells[0]?.offsetTop);
  return second === -1 ? cells.length : second;
}

function Failures({ task, failed, choose }: { task: Task; failed: number; choose: (item: number) => void }) {
  const list = useInfiniteQuery({
    queryKey: ["task", task.id, "items", failed],
    queryFn: ({ pageParam, signal }) =>
      value(api.GET("/v1/tasks/{task_id}/items", { params: { path: { task_id: task.id }, query: { cursor: pageParam, limit: 50 } }, signal })),
    initialPageParam: -1,
    getNextPageParam: (page) => page.next_cursor,
  });
  const items = list.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <Section title="Failed items">
      <ProblemNote error={list.error} />
      {list.isPending && <Loading />}
      <ul className="divide-y divide-line">
        {items.map((each) => (
          <li key={each.item} className="flex flex-wrap items-center gap-2 py-1.5 text-sm">
            <Button weight="quiet" className="font-medium" onClick={() => { choose(each.item); }}>Item {each.item}</Button>
            <StateBadge state={each.is_final ? "failed" : "pending"}>{each.is_final ? "failed" : "will be retried"}</StateBadge>
            <span className="min-w-0 text-soft wrap-anywhere">{each.detail || lastLine(each.last_lines) || spell(each.reason)}{each.failures > 1 && `, ${plural(each.failures, "failure")}`}</span>
          </li>
        ))}
      </ul>
      {list.hasNextPage && <Button onClick={() => void list.fetchNextPage()}>More</Button>}
    </Section>
  );
}

const lastLine = (text: string) => text.trimEnd().split("\n").at(-1) ?? "";
