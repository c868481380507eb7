// A price stays until the next one: two points for each, so that a plot has steps and no slopes.

import { approximate } from "./credits";

interface DevicePrice {
  since: string;
  price_micro_per_hour: bigint;
}

/** From newest first to columns of a plot, until `now` (milliseconds). */
export function stepsOf(prices: readonly DevicePrice[], now: number): { times: number[]; credits: number[] } {
  const oldestFirst = prices.toReversed();
  const times: number[] = [];
  const credits: number[] = [];
  oldestFirst.forEach((price, index) => {
    const start = Date.parse(price.since) / 1000;
    const next = oldestFirst[index + 1];
    const end = next === undefined ? Math.max(start, now / 1000) : Date.parse(next.since) / 1000;
    times.push(start, end);
    credits.push(approximate(price.price_micro_per_hour), approximate(price.price_micro_per_hour));
  });
  return { times, credits };
}
