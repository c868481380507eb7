// What the devices of a pool cost, and how contended they are.

export function median(amounts: bigint[]): bigint | null {
  if (amounts.length === 0) return null;
  const sorted = amounts.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  return sorted[Math.floor((sorted.length - 1) / 2)] ?? null;
}

export interface Offer {
  kind: string;
  model: string;
  priceMicro: bigint;
  isFree: boolean;
}

export interface DeviceClass {
  kind: string;
  model: string;
  devices: number;
  free: number;
  lowest: bigint;
  middle: bigint;
  highest: bigint;
}

/** Offers by model, the most frequent first. */
export function classes(offers: readonly Offer[]): DeviceClass[] {
  const groups = new Map<string, Offer[]>();
  for (const offer of offers) {
    const key = `${offer.kind}\n${offer.model}`;
    groups.set(key, [...(groups.get(key) ?? []), offer]);
  }
  return [...groups.values()]
    .map((group) => {
      const prices = group.map((offer) => offer.priceMicro).toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0));
      return {
        kind: group[0]?.kind ?? "",
        model: group[0]?.model ?? "",
        devices: group.length,
        free: group.filter((offer) => offer.isFree).length,
        lowest: prices[0] ?? 0n,
        middle: median(prices) ?? 0n,
        highest: prices.at(-1) ?? 0n,
      };
    })
    .toSorted((a, b) => b.devices - a.devices || a.model.localeCompare(b.model));
}

export interface Step {
  from: bigint;
  to: bigint;
  count: number;
}

/** How many prices fall into each of a few equal steps; prices of 0 have a step of their own. */
export function distribution(prices: readonly bigint[], steps = 10): Step[] {
  const free = prices.filter((price) => price === 0n).length;
  const paid = prices.filter((price) => price > 0n);
  const found: Step[] = free > 0 ? [{ from: 0n, to: 0n, count: free }] : [];
  if (paid.length === 0) return found;
  const highest = paid.reduce((most, each) => (each > most ? each : most));
  const width = (highest + BigInt(steps) - 1n) / BigInt(steps);
  for (let step = 0n; step < BigInt(steps); step += 1n) {
    const from = step * width;
    const count = paid.filter((price) => price > from && price <= from + width).length;
    found.push({ from, to: from + width, count });
  }
  return found;
}
