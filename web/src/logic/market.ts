// What the devices of a pool cost.

export interface Range {
  from: bigint;
  to: bigint;
  devices: number;
}

/** The price ranges of all models together, the cheapest first. */
export function mergeRanges(
  ranges: readonly { from_micro_per_hour: bigint; to_micro_per_hour: bigint; devices: number }[],
): Range[] {
  const found = new Map<string, Range>();
  for (const { from_micro_per_hour: from, to_micro_per_hour: to, devices } of ranges) {
    const key = `${String(from)} ${String(to)}`;
    found.set(key, { from, to, devices: (found.get(key)?.devices ?? 0) + devices });
  }
  return [...found.values()].toSorted((a, b) => (a.from < b.from ? -1 : a.from > b.from ? 1 : Number(a.to - b.to)));
}
