import { expect, test } from "vitest";
import { type Reader, VALUE_KINDS, readGpus, readMilli, readSize, readTime, readVariables, readVolumes, writeSize } from "../src/logic/option_values";
import { refusedField } from "../src/logic/refused_field";
import { EMPTY_FORM, TASK_OPTIONS, type TaskRequest, formOf, readForm } from "../src/logic/request";

const script = (options: Record<string, string> = {}) => ({ ...EMPTY_FORM, source: "print()", options });

function requestOf(...given: Parameters<typeof readForm>): TaskRequest {
  const read = readForm(...given);
  if (!("request" in read)) throw new Error(JSON.stringify(read));
  return read.request;
}

test("the form of a task becomes a request", () => {
  const form = { ...script({ gpu: "2", vram: "24GB", "max-price": "0.5", array: "9", env: "SEED=42\nMODE=a b" }), words: "--n 3" };
  expect(requestOf(form)).toEqual({
    spec: { kind: "script", filename: "task.py", source: "print()", arguments: ["--n", "3"], environment: { SEED: "42", MODE: "a b" } },
    requirements: { device_kind: "gpu", device_count: 2, device_memory_bytes: 24e9, max_price_micro_per_hour: 500_000n },
    items: 9,
  });
  expect(readForm(script({ cores: "none", "max-price": "-1", "prepare-time": "long" }))).toEqual({
    problems: {
      cores: "A whole number from 1 to 4,096.",
      "max-price": "Write an amount of credits that is not negative, such as 0.5 or 1000.",
      "prepare-time": "Write it like 90s, 15m, 1h30m or 2d.",
    },
  });
  expect(readForm(EMPTY_FORM)).toHaveProperty("problems.source");
});

test("each option of the table is read, and written as it was", () => {
  const written: Record<Reader, string> = {
    choice: "gpu", credits: "0.25", flag: "yes", gpus: "a100:2", milli: "0.25", owners: `0x${"ab".repeat(20)}`, share: "0.95",
    size: "512MiB", text: "abc", time: "90m", variables: "A=1\nB=x y", volumes: "imagenet@3f9ac2d1:/data", whole: "5", words: "one 'two words'",
  };
  for (const option of TASK_OPTIONS) {
    const text = option.choices?.at(-1) ?? written[option.reader];
    const request = requestOf(script({ [option.name]: text }));
    const [part = "", field] = option.field.split(".");
    const value = (request as unknown as Record<string, Record<string, unknown>>)[part];
    expect(field === undefined ? value : value?.[field], option.name).toBeDefined();
    // Tasks that it came after are over, and secrets are not kept.
    const kept = ["after", "secret"].includes(option.name) ? undefined : text;
    expect(formOf(request).options[option.name], option.name).toBe(kept);
  }
});

test("what the server refuses is named as on the form", () => {
  const body = "The body is not valid: expected";
  expect(refusedField(`${body} a whole number of 16777216 or more - at \`$.requirements.memory_bytes\`.`)).toBe("RAM: expected 16 MiB or more.");
  expect(refusedField(`${body} a number of 2592000 or less - at \`$.limits.run_seconds\`.`)).toBe("Time: expected 30 d or less.");
  expect(refusedField(`${body} text that is the id of a task - at \`$.after[0]\`.`)).toBe("After: expected text that is the id of a task.");
  expect([refusedField(`${body} a list - at \`$.nowhere\`.`), refusedField("The server does not respond.")]).toEqual([null, null]);
});

test("values are written as on the command line", () => {
  expect(["8GB", "1.5 GiB", "512m", "100B", "8", "much", "5i"].map(readSize)).toEqual([8e9, 1.5 * 2 ** 30, 512e6, 100, null, null, null]);
  expect([8e9, 1.5 * 2 ** 30, 50e9, 2 ** 20, 1001, 0].map(writeSize)).toEqual(["8GB", "1536MiB", "50GB", "1MiB", "1001B", "0B"]);
  expect(["90", "15m", "1h30m", "1.5h", "2d", "soon", "1h x"].map(readTime)).toEqual([90, 900, 5400, 5400, 172_800, null, null]);
  expect(["2", "a100", "a100:2", "4090", "rtx 40*", "0", "65", "a100:0", "2 x RTX 4090", "a100x2", "rtx 40"].map(readGpus)).toEqual([
    { count: 2, model: null }, { count: 1, model: "a100" }, { count: 2, model: "a100" }, { count: 1, model: "4090" }, { count: 1, model: "rtx 40*" }, { count: 0, model: null }, null, null, { count: 2, model: "RTX 4090" }, { count: 2, model: "a100" }, { count: 1, model: "rtx 40" },
  ]);
  expect(["0.25", "250m", "25%", "2", "0.0001"].map(readMilli)).toEqual([250, 250, 250, null, null]);
  expect(readVariables("A=1\n\n B=2")).toEqual({ A: "1", B: "2" });
  expect(readVariables("1=2")).toBeNull();
  expect(readVolumes("data, other:in")).toEqual([{ name: "data", path: "/volumes/data" }, { name: "other", path: "/work/in" }]);
  const option = TASK_OPTIONS.find((each) => each.name === "time");
  expect(option && VALUE_KINDS.time.read(option.default, option)).toBe(21_600);
});

test("a template keeps its own needs unless the form says otherwise", () => {
  const template = { spec: { kind: "script" as const, filename: "a.py", source: "x" }, requirements: { memory_bytes: 5 }, limits: { run_seconds: 7 } };
  const form = (options: Record<string, string>) => ({ ...EMPTY_FORM, what: "template" as const, options });
  expect(requestOf(form({}), { template })).toMatchObject({ requirements: { memory_bytes: 5 }, limits: { run_seconds: 7 } });
  expect(requestOf(form({ time: "1h" }), { template })).toMatchObject({ requirements: { memory_bytes: 5 }, limits: { run_seconds: 3600 } });
  expect(template.limits.run_seconds).toBe(7);
});

test("a task that was submitted fills the form again, and an emptied field is the default", () => {
  const earlier = requestOf({ ...script({ gpu: "rtx 40*:3", vram: "24GB", "max-price": "0.5", array: "3", label: "x y", keep: "ckpt/**" }), words: "a 'b c'" });
  const again = formOf(earlier);
  expect(requestOf(again, { earlier })).toEqual(earlier);
  const emptied = requestOf({ ...again, options: { ...again.options, array: "", vram: "" } }, { earlier });
  expect(emptied.items).toBeUndefined();
  expect(emptied.requirements?.device_memory_bytes).toBeUndefined();
  expect(emptied.requirements?.device_count).toBe(3);
  const files = { ...earlier, spec: { ...earlier.spec, files: [{ path: "a.bin" }] } } as TaskRequest;
  expect(requestOf(formOf(files), { earlier: files }).spec.files).toHaveLength(1);
  const two = { ...earlier, requirements: { device_count: 2 } };
  expect(requestOf(formOf(two), { earlier: two }).requirements?.device_count, "there is no option for it").toBe(2);
});

test("me among the owners is the wallet that submits", () => {
  expect(requestOf(script({ owner: "me 0xab" }), { wallet: "0x12" }).requirements?.owners).toEqual(["0x12", "0xab"]);
});

test("a contradiction is told at a field", () => {
  expect(readForm(script({ gpu: "1", "device-kind": "cpu" }))).toHaveProperty("problems.device-kind");
  expect(readForm(script({ gpu: "a100", model: "rtx" }))).toHaveProperty("problems.model");
});
