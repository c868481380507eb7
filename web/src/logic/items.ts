// The items of an array as cells of a grid.
//
// The server says how many are pending, which failed and which ranges run; the others have
// succeeded, in the order of the items. With more items than cells, a cell is a run of items.

export type ItemState = "succeeded" | "failed" | "running" | "pending";

export interface Cell {
  start: number;
  end: number;
  state: ItemState;
  title: string;
}

export function itemCells(given: {
  total: number;
  pending: number;
  failed: readonly number[];
  running: readonly { start: number; end: number }[];
  isOver: boolean;
  mostCells: number;
}): Cell[] {
  const size = Math.max(1, Math.ceil(given.total / given.mostCells));
  const failed = new Set(given.failed.map((item) => Math.floor(item / size)));
  const isRunning = (start: number, end: number) =>
    !given.isOver && given.running.some((range) => range.start < end && start < range.end);
  const count = Math.ceil(given.total / size);
  const cells: Cell[] = [];
  // Items are granted in order, so the pending ones are the last.
  const firstPending = given.total - given.pending;
  for (let index = 0; index < count; index += 1) {
    const start = index * size;
    const end = Math.min(given.total, start + size);
    const state: ItemState = failed.has(index)
      ? "failed"
      : isRunning(start, end)
        ? "running"
        : start >= firstPending
          ? "pending"
          : "succeeded";
    const name = size === 1 ? `Item ${String(start)}` : `Items ${String(start)} to ${String(end - 1)}`;
    cells.push({ start, end, state, title: `${name}: ${state}` });
  }
  return cells;
}
