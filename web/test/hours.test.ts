import { expect, test } from "vitest";
import { parseHours, writeHours } from "../src/logic/hours";

const open = (text: string) => parseHours(text)?.grid.flatMap((is, hour) => (is ? [hour] : [])) ?? null;

test("empty means always", () => {
  expect(open("")).toHaveLength(168);
  expect(open(" Always ")).toHaveLength(168);
  expect(writeHours(parseHours("")?.grid ?? [])).toBe("");
});

test("a range past midnight continues on the next day, and wraps at the end of the week", () => {
  expect(open("sun 22:00-02:00")).toEqual([0, 1, 166, 167]);
  expect(open("fri-mon 23:00-24:00")).toEqual([23, 119, 143, 167]);
});

test("days may be spelled out, and parts are added up", () => {
  expect(open("Monday 8-9, tue")).toEqual([8, ...Array.from({ length: 24 }, (_, hour) => 24 + hour)]);
});

test("minutes are kept in mind", () => {
  expect(parseHours("mon 08:30-09:00")?.isExact).toBe(false);
  expect(parseHours("mon 08:00-09:00")?.isExact).toBe(true);
});

test("nonsense is refused, like on the server", () => {
  for (const text of ["abc", "mon 8-8", "mon 25:00-26:00", "mon,", "8:70-9", "24-1"]) expect(parseHours(text)).toBeNull();
});

test("a painted grid is written as short text that reads back the same", () => {
  for (const text of ["18:00-08:00", "mon-fri 18:00-08:00, sat, sun 10:00-12:00", "sat-sun", "wed 00:00-01:00"]) {
    const grid = parseHours(text)?.grid ?? [];
    const written = writeHours(grid);
    expect(parseHours(written ?? "abc")?.grid).toEqual(grid);
  }
  expect(writeHours(parseHours("sat-sun")?.grid ?? [])).toBe("sat-sun");
  expect(writeHours(Array<boolean>(168).fill(false))).toBeNull();
});

test("every single hour survives", () => {
  for (let hour = 0; hour < 168; hour += 1) {
    const grid = Array.from({ length: 168 }, (_, index) => index === hour);
    expect(parseHours(writeHours(grid) ?? "")?.grid).toEqual(grid);
  }
});
