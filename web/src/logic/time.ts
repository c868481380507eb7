// Times and durations, by the reader's locale and time zone.

import { formatCount } from "./numbers";

const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["second", 60],
  ["minute", 60],
  ["hour", 24],
  ["day", 30],
  ["month", 12],
  ["year", Number.POSITIVE_INFINITY],
];

// Making a formatter takes a hundred times as long as using it, and a list formats hundreds.
const relative = new Map<string | undefined, Intl.RelativeTimeFormat>();
const moments = new Map<string | undefined, Intl.DateTimeFormat>();

function kept<T>(formats: Map<string | undefined, T>, locale: string | undefined, make: () => T): T {
  const known = formats.get(locale) ?? make();
  formats.set(locale, known);
  return known;
}

export function formatAgo(moment: string, now: number, locale?: string): string {
  let distance = (Date.parse(moment) - now) / 1000;
  if (Math.abs(distance) < 5) return "now";
  const format = kept(relative, locale, () => new Intl.RelativeTimeFormat(locale, { numeric: "always", style: "short" }));
  for (const [unit, size] of STEPS) {
    if (Math.abs(distance) < size) return format.format(Math.trunc(distance), unit);
    distance /= size;
  }
  return "";
}

export function formatMoment(moment: string, locale?: string): string {
  const format = kept(moments, locale, () => new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "medium" }));
  return format.format(new Date(moment));
}

export function formatDay(day: string, locale?: string): string {
  return new Date(`${day}T12:00:00`).toLocaleDateString(locale, { month: "short", day: "numeric" });
}

/** `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`, `4 d 3 h`. */
export function formatDuration(seconds: number): string {
  if (!Number.isFinite(seconds) || seconds < 0) return "–";
  if (seconds < 10) return `${formatCount(Math.round(seconds * 10) / 10)} s`;
  const whole = Math.round(seconds);
  const parts: [number, string][] = [
    [Math.floor(whole / 86_400), "d"],
    [Math.floor(whole / 3600) % 24, "h"],
    [Math.floor(whole / 60) % 60, "min"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([amount]) => amount > 0);
  return parts
    .slice(first, first + 2)
    .filter(([amount]) => amount > 0)
    .map(([amount, unit]) => `${String(amount)} ${unit}`)
    .join(" ");
}

export function secondsBetween(from: string, to: string | null | undefined, now: number): number {
  return Math.max(0, ((to == null ? now : Date.parse(to)) - Date.parse(from)) / 1000);
}
