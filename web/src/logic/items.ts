// The items of an array as cells of a grid. With more items than cells, a cell is a run of items.

import type { Schemas } from "../api/client";

export const ITEM_STATES = ["succeeded", "running", "failed", "cancelled", "pending"] as const;
export type ItemState = (typeof ITEM_STATES)[number];
type States = Pick<Schemas["ItemStates"], "pending" | "running" | "failed" | "cancelled">;

export interface Cell {
  start: number;
  end: number;
  state: ItemState;
  title: string;
}

// A cell of several items shows the first of these that one of its items has.
const STRONGEST = ["failed", "running", "pending", "cancelled"] as const;

/** Items of each cell: whole blocks, because the states of the items in one block are not told apart. */
export const cellSize = (items: number, blockItems: number, mostCells: number) =>
  blockItems * Math.max(1, Math.ceil(items / mostCells / blockItems));

/** Cells of `size` items each, from `start` up to `end`. */
export function itemCells(states: States, start: number, end: number, size: number): Cell[] {
  const cells: Cell[] = [];
  for (let first = start; first < end; first += size) {
    const last = Math.min(end, first + size);
    const state = STRONGEST.find((each) => overlaps(states[each], first, last)) ?? "succeeded";
    const title =
      last - first === 1
        ? `Item ${String(first)}: ${state}`
        : `Items ${String(first)} to ${String(last - 1)}: ${state === "succeeded" ? "" : "some "}${state}`;
    cells.push({ start: first, end: last, state, title });
  }
  return cells;
}

export const stateOf = (states: States, item: number): ItemState =>
  STRONGEST.find((each) => overlaps(states[each], item, item + 1)) ?? "succeeded";

/** By halving: the ranges are in order, and there may be thousands. */
function overlaps(ranges: readonly { start: number; end: number }[], start: number, end: number): boolean {
  let [low, high] = [0, ranges.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ranges[middle]?.end ?? 0) <= start) low = middle + 1;
    else high = middle;
  }
  const range = ranges[low];
  return range !== undefined && range.start < end;
}

/** How many items are in each state. Those in none of the other counts are with a node. */
export function countStates({ total, pending, succeeded, failed, cancelled }: Schemas["ItemCounts"]): Record<ItemState, number> {
  return { pending, succeeded, failed, cancelled, running: Math.max(0, total - pending - succeeded - failed - cancelled) };
}
