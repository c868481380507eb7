// An owner's hours of the week: the text of `provider.toml`, and a grid of 7 × 24 cells.
//
// The same grammar as `model/hours.py`: parts separated by commas, each a day or a range of days,
// a range of times, or both; empty means always. A grid has whole hours only.

export const DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"] as const;
const NAMES = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
const WEEK = 7 * 24 * 60;

/** 168 cells, Monday 0:00 first. */
export type Grid = readonly boolean[];

const PART =
  /^(?:([a-z]+)(?:\s*-\s*([a-z]+))?)?\s*(?:(\d{1,2}(?::\d\d)?)\s*-\s*(\d{1,2}(?::\d\d)?))?$/;

/** The grid, and whether the text has minutes that whole hours cannot show; null if invalid. */
export function parseHours(text: string): { grid: Grid; isExact: boolean } | null {
  if (["", "always"].includes(text.trim().toLowerCase())) return { grid: Array<boolean>(168).fill(true), isExact: true };
  const minutes = new Uint8Array(WEEK);
  for (const part of text.toLowerCase().split(",")) {
    const match = PART.exec(part.trim());
    if (match === null || part.trim() === "") return null;
    const days = dayList(match[1], match[2]);
    const begin = match[3] === undefined ? 0 : minuteOf(match[3]);
    let end = match[4] === undefined ? 24 * 60 : minuteOf(match[4]);
    if (days === null || begin === null || end === null || begin === end || begin === 1440) return null;
    if (end < begin) end += 24 * 60;
    for (const day of days) {
      for (let at = begin; at < end; at += 1) minutes[(day * 1440 + at) % WEEK] = 1;
    }
  }
  const grid: boolean[] = [];
  let isExact = true;
  for (let hour = 0; hour < 168; hour += 1) {
    const open = minutes.subarray(hour * 60, hour * 60 + 60).reduce((total, each) => total + each, 0);
    grid.push(open > 0);
    if (open !== 0 && open !== 60) isExact = false;
  }
  return { grid, isExact };
}

/** The shortest readable text for a grid; null if no hour is open, which no text can say. */
export function writeHours(grid: Grid): string | null {
  if (grid.every(Boolean)) return "";
  if (!grid.some(Boolean)) return null;
  const byTimes = new Map<string, number[]>();
  for (let day = 0; day < 7; day += 1) {
    for (const [begin, end] of runs(grid.slice(day * 24, day * 24 + 24))) {
      const times = begin === 0 && end === 24 ? "" : `${clock(begin)}-${clock(end)}`;
      byTimes.set(times, [...(byTimes.get(times) ?? []), day]);
    }
  }
  const parts: string[] = [];
  for (const [times, days] of byTimes) {
    for (const name of dayNames(days)) parts.push([name, times].filter(Boolean).join(" "));
  }
  return parts.join(", ");
}

function runs(hours: readonly boolean[]): [number, number][] {
  const found: [number, number][] = [];
  let begin = -1;
  for (let hour = 0; hour <= 24; hour += 1) {
    const open = hour < 24 && hours[hour] === true;
    if (open && begin === -1) begin = hour;
    if (!open && begin !== -1) {
      found.push([begin, hour]);
      begin = -1;
    }
  }
  return found;
}

function dayNames(days: number[]): string[] {
  if (days.length === 7) return [""];
  return runsOf(days).map(([first, last]) =>
    first === last ? (DAYS[first] ?? "") : `${DAYS[first] ?? ""}-${DAYS[last] ?? ""}`,
  );
}

function runsOf(days: number[]): [number, number][] {
  const found: [number, number][] = [];
  for (const day of days) {
    const last = found.at(-1);
    if (last !== undefined && last[1] === day - 1) last[1] = day;
    else found.push([day, day]);
  }
  return found;
}

const clock = (hour: number) => `${String(hour).padStart(2, "0")}:00`;

function dayList(first: string | undefined, last: string | undefined): number[] | null {
  if (first === undefined) return [0, 1, 2, 3, 4, 5, 6];
  const begin = dayOf(first);
  const end = last === undefined ? begin : dayOf(last);
  if (begin === null || end === null) return null;
  return Array.from({ length: ((end - begin + 7) % 7) + 1 }, (_, offset) => (begin + offset) % 7);
}

function dayOf(name: string): number | null {
  const short = (DAYS as readonly string[]).indexOf(name);
  const index = short === -1 ? NAMES.indexOf(name) : short;
  return index === -1 ? null : index;
}

function minuteOf(text: string): number | null {
  const [hour = "0", minute = "0"] = text.split(":");
  const minutes = Number(hour) * 60 + Number(minute);
  return Number(minute) > 59 || minutes > 1440 ? null : minutes;
}
