import { expect, test } from "vitest";
import { parseExact, writeExact } from "../src/api/exact";

test("amounts keep every digit", () => {
  const text = '{"available_micro":9223372036854775807,"price_micro_per_hour" : -9007199254740993,"n":3}';
  expect(parseExact(text)).toEqual({
    available_micro: 9223372036854775807n,
    price_micro_per_hour: -9007199254740993n,
    n: 3,
  });
});

test("null amounts, nested amounts and lists", () => {
  expect(parseExact('[{"a_micro":null},{"b":{"a_micro":1}}, {"a_micro":2}]')).toEqual([
    { a_micro: null },
    { b: { a_micro: 1n } },
    { a_micro: 2n },
  ]);
});

test("text that looks like an amount stays text", () => {
  const name = '{"a_micro":5} ,"b_micro":6,';
  expect(parseExact(JSON.stringify({ name, a_micro: 7 }))).toEqual({ name, a_micro: 7n });
  expect(parseExact('{"detail":{"amount_micro":"5"}}')).toEqual({ detail: { amount_micro: "5" } });
});

test("amounts are written as digits, and read back the same", () => {
  const value = { a_micro: 9223372036854775807n, list: [{ price_micro_per_hour: 0n }], text: "x" };
  expect(writeExact(value)).toBe('{"a_micro":9223372036854775807,"list":[{"price_micro_per_hour":0}],"text":"x"}');
  expect(parseExact(writeExact(value))).toEqual(value);
});

test("text cannot become a number by looking like our mark", () => {
  expect(() => writeExact({ name: "potluck-bigint:5" })).toThrow();
});
