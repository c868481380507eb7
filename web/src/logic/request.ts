// The form of a new task as the request that the API takes.

import type { Schemas } from "../api/client";
import { formatCredits, parseCredits } from "./credits";
import { parseBytes } from "./numbers";
import { parseDuration } from "./time";
import { joinWords, splitWords } from "./words";

export type TaskRequest = Schemas["TaskRequest"];

export interface Form {
  what: "template" | "script" | "command" | "container";
  name: string;
  filename: string;
  source: string;
  image: string;
  words: string;
  device: "" | "gpu" | "cpu";
  count: string;
  memory: string;
  model: string;
  price: string;
  labels: string;
  cores: string;
  ram: string;
  disk: string;
  time: string;
  priority: string;
  items: string;
  volumes: string;
  network: string;
}

export const EMPTY_FORM: Form = {
  what: "script",
  name: "",
  filename: "task.py",
  source: "",
  image: "",
  words: "",
  device: "",
  count: "1",
  memory: "",
  model: "",
  price: "",
  labels: "",
  cores: "1",
  ram: "1 GiB",
  disk: "256 MiB",
  time: "6h",
  priority: "0",
  items: "",
  volumes: "",
  network: "",
};

export type Problems = Partial<Record<keyof Form, string>>;

/** The request, or a sentence for each field that is wrong. A template brings its own content. */
export function readForm(form: Form, template?: TaskRequest): { request: TaskRequest } | { problems: Problems } {
  const problems: Problems = {};
  const check = <T>(field: keyof Form, read: (text: string) => T | null, sentence: string): T | undefined => {
    // A template's own needs stay, unless the form says something else than it did at first.
    const text = template !== undefined && form[field] === EMPTY_FORM[field] ? "" : form[field];
    if (text.trim() === "") return undefined;
    const found = read(text);
    if (found === null) problems[field] = sentence;
    return found ?? undefined;
  };
  const whole = (least: number, most: number) => (text: string) => {
    const number = /^-?\d+$/.test(text.trim()) ? Number(text) : Number.NaN;
    return number >= least && number <= most ? number : null;
  };
  const arguments_ = check("words", splitWords, "A quote is not closed.") ?? [];
  const spec = specOf(form, arguments_, problems);
  const size = "Write it like 512 MiB or 24 GB.";
  const price = check("price", parseCredits, "Write an amount of credits, such as 0.5.");
  if (price !== undefined && price < 0n) problems.price = "A price is not negative.";
  const items = check("items", whole(1, 1_000_000), "A whole number from 1 to 1,000,000.");
  const requirements: TaskRequest["requirements"] = {
    ...template?.requirements,
    ...withValue("device_kind", form.device === "" ? undefined : form.device),
    ...withValue("device_count", check("count", whole(1, 64), "A whole number from 1 to 64.")),
    ...withValue("device_memory_bytes", check("memory", parseBytes, size)),
    ...withValue("device_model", form.model.trim() === "" ? undefined : form.model.trim()),
    ...withValue("max_price_micro_per_hour", price),
    ...withValue("labels", form.labels.trim() === "" ? undefined : form.labels.split(/[,\s]+/).filter(Boolean)),
    ...withValue("cores", check("cores", whole(1, 4096), "A whole number from 1 to 4096.")),
    ...withValue("memory_bytes", check("ram", parseBytes, size)),
    ...withValue("disk_bytes", check("disk", parseBytes, size)),
    ...withValue("network", form.network.trim() === "" ? undefined : form.network.split(/[,\s]+/).filter(Boolean)),
    ...withValue("volumes", check("volumes", readVolumes, "Write it like NAME:/data or NAME@VERSION:/data.")),
  };
  const seconds = check("time", parseDuration, "Write it like 30m, 6h or 2d.");
  const request: TaskRequest = {
    ...template,
    spec: template?.spec ?? spec,
    requirements,
    limits: { ...template?.limits, ...withValue("run_seconds", seconds) },
    ...withValue("name", form.name.trim() === "" ? undefined : form.name.trim()),
    ...withValue("priority", check("priority", whole(-100, 100), "A whole number from -100 to 100.")),
    ...withValue("items", items),
  };
  return Object.keys(problems).length > 0 ? { problems } : { request };
}

const VOLUME = /^(?:(0x[0-9a-fA-F]{40})\/)?([a-z0-9][a-z0-9.-]{1,62})(?:@([0-9a-f]{4,64}))?:((?:\/[A-Za-z0-9_][A-Za-z0-9._+-]*)+)$/;

type Mount = NonNullable<NonNullable<TaskRequest["requirements"]>["volumes"]>[number];

/** `NAME[@VERSION]:PATH`, with the owner's wallet before it if another account shares it. */
export function readVolumes(text: string): Mount[] | null {
  const mounts = text.split(/[\s,]+/).filter(Boolean).map((word): Mount | null => {
    const [, owner, name, version, path] = VOLUME.exec(word) ?? [];
    if (name === undefined || path === undefined) return null;
    return { name, path, ...(version === undefined ? {} : { version }), ...(owner === undefined ? {} : { owner }) } as Mount;
  });
  return mounts.every((mount) => mount !== null) ? mounts : null;
}

export const writeVolumes = (mounts: readonly { name: string; path: string; version?: string | null; owner?: string | null }[]) =>
  mounts.map((mount) => `${mount.owner ? `${mount.owner}/` : ""}${mount.name}${mount.version ? `@${mount.version.slice(0, 12)}` : ""}:${mount.path}`).join(" ");

function specOf(form: Form, words: string[], problems: Problems): TaskRequest["spec"] {
  if (form.what === "container") {
    if (form.image.trim() === "") problems.image = "Name an image, such as docker.io/library/busybox:1.37.";
    return { kind: "container", image: form.image.trim(), command: words };
  }
  if (form.what === "command") {
    if (words.length === 0) problems.words ??= "Write the program and its arguments.";
    return { kind: "command", command: words };
  }
  if (form.what === "script" && form.source.trim() === "") problems.source = "Drop a Python file here, or write one.";
  return { kind: "script", filename: form.filename.trim() || "task.py", source: form.source, arguments: words };
}

const withValue = <Name extends string, T>(name: Name, value: T | undefined) =>
  (value === undefined ? {} : { [name]: value }) as Partial<Record<Name, T>>;

/** The form of a request: what it shows is what would be submitted again. */
export function formOf(request: TaskRequest): Form {
  const { spec, requirements: needs = {}, limits = {} } = request;
  const bytes = (size: number | undefined, otherwise: string) => (size === undefined || size === 0 ? otherwise : `${String(size / 2 ** 20)} MiB`);
  const words = spec.kind === "script" ? spec.arguments : spec.kind === "function" ? [] : spec.command;
  return {
    ...EMPTY_FORM,
    what: spec.kind === "container" || spec.kind === "command" ? spec.kind : "script",
    name: request.name ?? "",
    filename: spec.kind === "script" ? spec.filename : EMPTY_FORM.filename,
    source: spec.kind === "script" ? spec.source : "",
    image: spec.kind === "container" ? spec.image : "",
    words: joinWords(words ?? []),
    device: needs.device_kind ?? "",
    count: String(needs.device_count ?? 1),
    memory: bytes(needs.device_memory_bytes, ""),
    model: needs.device_model ?? "",
    price: needs.max_price_micro_per_hour == null ? "" : formatCredits(needs.max_price_micro_per_hour, 0, "en").replaceAll(",", ""),
    labels: (needs.labels ?? []).join(", "),
    cores: String(needs.cores ?? 1),
    ram: bytes(needs.memory_bytes, EMPTY_FORM.ram),
    disk: bytes(needs.disk_bytes, EMPTY_FORM.disk),
    time: limits.run_seconds === undefined ? EMPTY_FORM.time : `${String(limits.run_seconds)}s`,
    priority: String(request.priority ?? 0),
    items: request.items == null ? "" : String(request.items),
    volumes: writeVolumes(needs.volumes ?? []),
    network: (needs.network ?? []).join(", "),
  };
}
