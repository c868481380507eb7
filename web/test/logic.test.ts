import { expect, test } from "vitest";
import { parseCsv } from "../src/logic/csv";
import { EventParser } from "../src/logic/event_parser";
import { ItemFilter } from "../src/logic/item_log";
import { cellSize, countStates, itemCells, stateOf } from "../src/logic/items";
import { LogText, findLines } from "../src/logic/log_text";
import { mergeRanges } from "../src/logic/market";
import { formatBytes, parseBytes, readNumber } from "../src/logic/numbers";
import { readStates, refusal, writeStates } from "../src/logic/states";
import { defaults, withParameters } from "../src/logic/template";
import { formatAgo, formatDuration } from "../src/logic/time";
import { waterfall } from "../src/logic/waterfall";
import { splitWords } from "../src/logic/words";

const bytes = (text: string) => new TextEncoder().encode(text);

test("states in the address", () => {
  expect(readStates("running,queued,nonsense")).toEqual(["queued", "running"]);
  expect(writeStates(["running", "queued"])).toBe("queued,running");
  expect(writeStates([])).toBeUndefined();
  expect(refusal("cancel", "succeeded")).toBe("already succeeded");
  expect(refusal("retry", "failed")).toBeNull();
  expect(refusal("retry", "running")).toBe("still running");
});

test("durations and times", () => {
  expect(formatDuration(0.44)).toBe("0.4 s");
  expect(formatDuration(200)).toBe("3 min 20 s");
  expect(formatDuration(7200)).toBe("2 h");
  expect(formatDuration(90_061)).toBe("1 d 1 h");
  expect(formatAgo("2026-11-18T10:00:00Z", Date.parse("2026-11-18T12:30:00Z"), "en")).toBe("2 hr. ago");
  expect(formatAgo("2026-11-18T10:00:00Z", Date.parse("2026-11-18T10:00:03Z"), "en")).toBe("now");
});

test("numbers that are none, or outside of their bounds, are refused", () => {
  expect(["7", " 10 ", "0"].map((text) => readNumber(text, 0, 10))).toEqual([7, 10, 0]);
  expect(["0.5", "0,5", "10"].map((text) => readNumber(text, 0, 10, false))).toEqual([0.5, 0.5, 10]);
  for (const text of ["", "abc", "-1", "11", "1.5", "1e1", "0x5", "Infinity"]) expect(readNumber(text, 0, 10)).toBeNull();
  expect(readNumber("1,000", 0, 9999, false)).toBeNull();
});

test("sizes", () => {
  expect(formatBytes(25769803776, "en")).toBe("24 GiB");
  expect(parseBytes("24GB")).toBe(24e9);
  expect(parseBytes("512 MiB")).toBe(2 ** 29);
  expect(parseBytes("8")).toBe(2 ** 33);
  expect(parseBytes("much")).toBeNull();
});

test("server-sent events that arrive in pieces", () => {
  const parser = new EventParser();
  expect(parser.push(": still here\r\nid: 1\r\n\r\nevent: log\r\nid: 2\r\nda")).toEqual([{ event: "message", id: "1", data: "" }]);
  expect(parser.push('ta: {"a":1}\r\n\r\n')).toEqual([{ event: "log", id: "2", data: '{"a":1}' }]);
});

test("a log whose lines and letters are cut between pieces", () => {
  const log = new LogText();
  const umlaut = bytes("ü");
  log.push("stdout", bytes("one\ntw"), null);
  log.push("stderr", bytes("oops\n"), null);
  log.push("stdout", new Uint8Array([...bytes("o "), ...umlaut.slice(0, 1)]), null);
  log.push("stdout", new Uint8Array([...umlaut.slice(1), ...bytes("\n\nend")]), null);
  expect(log.lines.map((line) => line.text)).toEqual(["one", "two ü", "oops", "", "end"]);
  expect(findLines(log.lines, "O")).toEqual([0, 1, 2]);
});

test("progress bars and colours of a terminal", () => {
  const log = new LogText();
  log.push("stdout", bytes("10%\r50%\r100%\n\u001b[31mred\u001b[0m \u001b]0;title\u0007\u0000x\n"), null);
  expect(log.lines.map((line) => line.text)).toEqual(["100%", "red x"]);
});

test("tables", () => {
  expect(parseCsv('a;b\n"x;""y""";2\r\n', 10)).toEqual([["a", "b"], ['x;"y"', "2"]]);
  expect(parseCsv("a,b\n1,2\n3,4\n", 2)).toEqual([["a", "b"], ["1", "2"]]);
});

test("items of an array as cells", () => {
  const at = (start: number, end = start + 1) => ({ start, end });
  const states = { pending: [at(5, 7)], running: [at(3)], failed: [at(1)], cancelled: [at(2)] };
  expect(itemCells(states, 0, 7, 1).map((cell) => cell.state)).toEqual(["succeeded", "failed", "cancelled", "running", "succeeded", "pending", "pending"]);
  expect(itemCells(states, 4, 6, 1).map((cell) => cell.title)).toEqual(["Item 4: succeeded", "Item 5: pending"]);
  expect(stateOf(states, 3)).toBe("running");
  expect(countStates({ total: 9, pending: 2, succeeded: 3, failed: 1, cancelled: 1 }).running).toBe(2);
  const many = itemCells({ ...states, failed: [at(999_999)], pending: [] }, 0, 1_000_000, cellSize(1_000_000, 200, 1000));
  expect(many).toHaveLength(1000);
  expect(many.at(-1)).toEqual({ start: 999_000, end: 1_000_000, state: "failed", title: "Items 999000 to 999999: some failed" });
});

test("cells are whole blocks, so that no cell shows the state of another one's items", () => {
  expect(cellSize(7, 1, 1000)).toBe(1);
  expect(cellSize(7_000, 2, 1000)).toBe(8);
  const states = { pending: [], running: [], failed: [{ start: 6, end: 8 }], cancelled: [] }; // of item 6
  expect(itemCells(states, 0, 16, 8).map((cell) => cell.state)).toEqual(["failed", "succeeded"]);
});

test("the output of one item", () => {
  const filter = new ItemFilter(4, { start: 3, end: 6 });
  const given = [["stdout", "early"], ["potluck", "item 3:\n"], ["stdout", "three"], ["potluck", "item 4:\n"], ["stderr", "four"], ["potluck", "item 44:"], ["stdout", "no"]] as const;
  expect(given.filter(([stream, text]) => filter.accepts({ stream, data: bytes(text) })).map(([, text]) => text)).toEqual(["four"]);
  expect(new ItemFilter(3, { start: 3, end: 4 }).accepts({ stream: "stdout", data: bytes("x") })).toBe(true);
});

test("prices of a market", () => {
  const range = (from: bigint, to: bigint, devices: number) => ({ from_micro_per_hour: from, to_micro_per_hour: to, devices });
  expect(mergeRanges([range(5n, 9n, 1), range(0n, 0n, 2), range(5n, 9n, 3)])).toEqual([
    { from: 0n, to: 0n, devices: 2 },
    { from: 5n, to: 9n, devices: 4 },
  ]);
});

test("parameters of a template replace its defaults", () => {
  expect(defaults(["--width=1200", "--title=a=b"])).toEqual({ width: "1200", title: "a=b" });
  expect(withParameters(["--width=1200", "--x=1"], { width: " 90 ", x: "", new: "3" })).toEqual(["--width=90", "--x=1", "--new=3"]);
});

test("words of a command line", () => {
  expect(splitWords(`a 'b c' "d \\" e" f\\ g ''`)).toEqual(["a", "b c", 'd " e', "f g", ""]);
  expect(splitWords("a 'b")).toBeNull();
});

test("the way of a reward, as bars that hang from what was left", () => {
  const bars = waterfall({ earned_micro: 100n, fee_micro: 10n, in_epoch_micro: 25n, claimable_micro: 20n, paid_micro: 40n });
  expect(bars.map((bar) => bar.micro)).toEqual([100n, 10n, 25n, 5n, 20n, 40n]);
  expect(bars[1]).toMatchObject({ start: 0.9, end: 1 });
  expect(bars.at(-1)).toMatchObject({ start: 0, end: 0.4 });
  expect(waterfall({ earned_micro: 0n, fee_micro: 0n, in_epoch_micro: 0n, claimable_micro: 0n, paid_micro: 0n }).every((bar) => bar.end === 0)).toBe(true);
});
