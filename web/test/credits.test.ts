import { expect, test } from "vitest";
import { formatCredits, parseCredits, sum } from "../src/logic/credits";
import { parseBytes } from "../src/logic/numbers";

test("credits are formatted exactly", () => {
  expect(formatCredits(0n, 2, "en")).toBe("0.00");
  expect(formatCredits(1n, 2, "en")).toBe("0.000001");
  expect(formatCredits(-1_500_000n, 2, "en")).toBe("−1.50");
  expect(formatCredits(9_223_372_036_854_775_807n, 2, "en")).toBe("9,223,372,036,854.775807");
  expect(formatCredits(1_234_500_000n, 2, "de")).toBe("1.234,50");
  expect(formatCredits(2_000_000n, 0, "en")).toBe("2");
});

test("what people type is read exactly", () => {
  expect(parseCredits("0.25")).toBe(250_000n);
  expect(parseCredits("0,25")).toBe(250_000n);
  expect(parseCredits("0,125")).toBe(125_000n);
  expect(parseCredits("1.125")).toBe(1_125_000n);
  expect(parseCredits(" 12 ")).toBe(12_000_000n);
  expect(parseCredits(".5")).toBe(500_000n);
  expect(parseCredits("-1.000001")).toBe(-1_000_001n);
  expect(parseCredits("9007199254.740993")).toBe(9_007_199_254_740_993n);
});

test("what is no amount is refused", () => {
  for (const text of ["", ".", "1e3", "0.1234567", "one", "1.2.3", "NaN"]) expect(parseCredits(text)).toBeNull();
});

test("what is a thousand to some and one to others is refused", () => {
  for (const text of ["1,000", "-1,000", " 12,500", "999,999"]) expect(parseCredits(text)).toBeNull();
  expect(parseBytes("1,500 GB")).toBeNull();
  expect(parseBytes("1,5 GB")).toBe(1_500_000_000);
});

test("sums do not round", () => {
  expect(sum([9_007_199_254_740_993n, 1n])).toBe(9_007_199_254_740_994n);
});
