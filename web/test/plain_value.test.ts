import { expect, test } from "vitest";
import { valueAt, writeValue } from "../src/logic/plain_value";

const bytes = (hex: string) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));

// As src/potluck/wire/plain_values/ encodes them.
test.each([
  ["c0", "None"],
  ["c3", "True"],
  ["fd", "-3"],
  ["ce0000012c", "300"],
  ["d3fffffffffffeee90", "-70000"],
  ["c70901008000000000000000", "9223372036854775808"],
  ["c70901c00000000000000000", "-1180591620717411303424"],
  ["cb3ff0000000000000", "1.0"],
  ["cb3fb999999999999a", "0.1"],
  ["cb7ff0000000000000", "inf"],
  ["a469742773", "\"it's\""],
  ["a5610a226222", "'a\\n\"b\"'"],
  ["c403006162", "b'\\x00ab'"],
  ["92019102", "[1, [2]]"],
  ["c702029101", "(1,)"],
  ["c704029201a178", "(1, 'x')"],
  ["82a16101 02c0".replace(" ", ""), "{'a': 1, 2: None}"],
  ["c702039103", "{3}"],
])("the value %s is %s", (hex, text) => {
  expect(writeValue(bytes(hex))).toBe(text);
});

test("what is not a plain value is not shown as one", () => {
  expect(writeValue(bytes("80049501"))).toBeNull(); // a pickle
  expect(writeValue(bytes("93ff"))).toBeNull(); // cut off
  expect(writeValue(bytes(`${"91".repeat(100)}c0`))).toBeNull();
  expect(writeValue(bytes("c1"))).toBeNull();
});

test("a long value is cut", () => {
  const text = writeValue(bytes(`dd00004000${"07".repeat(16_384)}`));
  expect(text).toMatch(/^\[7, 7, .* …$/);
  expect(text?.length).toBeLessThan(20_010);
});

test("the value at a place of an item file", () => {
  const file = bytes("03000000000000000000000000000000020000000000000002000000000000000300000000000000616263");
  expect([0, 1, 2].map((place) => new TextDecoder().decode(valueAt(file, place) ?? undefined))).toEqual(["ab", "", "c"]);
  expect(valueAt(file, 3)).toBeNull();
  expect(valueAt(file.subarray(0, 20), 0)).toBeNull();
});
