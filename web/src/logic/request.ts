// The form of a new task as the request that the API takes. Its options are those of the one table,
// src/potluck/local/task_options.py; `make docs` writes them to task_options.json.

import type { Schemas } from "../api/client";
import { type GpuChoice, type TaskOption, VALUE_KINDS } from "./option_values";
import table from "./task_options.json";
import { joinWords, splitWords } from "./words";

export type TaskRequest = Schemas["TaskRequest"];

export const TASK_OPTIONS = table as readonly TaskOption[];

export interface Form {
  what: "template" | "script" | "command" | "container";
  filename: string;
  source: string;
  image: string;
  words: string;
  options: Record<string, string>; // by the names of the options; empty: the default, or the template's
}

export const EMPTY_FORM: Form = { what: "script", filename: "task.py", source: "", image: "", words: "", options: {} };

export type Problems = Partial<Record<string, string>>;
type Values = Record<string, unknown>;

/** What a request is made from besides the form. */
export interface Base {
  template?: TaskRequest | undefined; // brings its content, and options that the form may replace
  earlier?: TaskRequest | undefined; // what the form does not show stays as it was
  wallet?: string | undefined; // who `me` is
}

/** The request, or a sentence for each field that is wrong. */
export function readForm(form: Form, base: Base = {}): { request: TaskRequest } | { problems: Problems } {
  const problems: Problems = {};
  const spec = base.template?.spec ?? specOf(form, problems);
  const values: Values = {};
  for (const option of TASK_OPTIONS) {
    const text = form.options[option.name] ?? "";
    if (text.trim() === "") continue;
    const kind = VALUE_KINDS[option.reader];
    const value = kind.read(text, option);
    if (value === null) problems[option.name] = kind.sentence(option);
    else values[option.name] = option.reader === "owners" ? (value as string[]).map((owner) => (owner === "me" ? (base.wallet ?? owner) : owner)) : value;
  }
  const start = base.template ?? withoutOptions(base.earlier?.spec.kind === spec.kind ? base.earlier : undefined);
  const request = { ...start, spec: { ...start?.spec, ...spec } as TaskRequest["spec"] } as TaskRequest;
  for (const option of TASK_OPTIONS) {
    if (option.reader !== "gpus" && option.name in values) setField(request, option.field, values[option.name]);
  }
  setDevices(request, values, problems);
  return Object.keys(problems).length > 0 ? { problems } : { request };
}

/** 0 GPUs, or none of these options: what the request had. */
function setDevices(request: TaskRequest, values: Values, problems: Problems): void {
  const gpus = values.gpu as GpuChoice | undefined;
  if (gpus === undefined || gpus.count === 0) return;
  if (values["device-kind"] === "cpu") problems["device-kind"] = "A CPU has no GPUs. Leave one of them out.";
  if (gpus.model !== null && values.model !== undefined) problems.model = "GPU names a model too. Leave one of them out.";
  setField(request, "requirements.device_kind", "gpu");
  setField(request, "requirements.device_count", gpus.count);
  if (gpus.model !== null) setField(request, "requirements.device_model", gpus.model);
}

/** Parts on the way are copied: those of a template are not changed. */
function setField(request: TaskRequest, path: string, value: unknown): void {
  const whole = request as unknown as Values;
  const [part, field] = path.split(".");
  if (part === undefined) return;
  if (field === undefined) whole[part] = value;
  else whole[part] = { ...(whole[part] as Values | undefined), [field]: value };
}

function getField(request: TaskRequest, path: string): unknown {
  return path.split(".").reduce<unknown>((value, name) => (value as Values | null | undefined)?.[name], request);
}

/** The same request with what the form shows left out, so that an emptied field is the default. */
function withoutOptions(request: TaskRequest | undefined): TaskRequest | undefined {
  if (request === undefined) return undefined;
  const rest = { ...request, spec: { ...request.spec }, requirements: { ...request.requirements }, limits: { ...request.limits } };
  for (const option of TASK_OPTIONS) {
    // A number of devices that are no GPUs has no field.
    if (option.reader === "gpus" && request.requirements?.device_kind !== "gpu") continue;
    const [part = "", field] = option.field.split(".");
    Reflect.deleteProperty(field === undefined ? rest : rest[part as "spec"], field ?? part);
  }
  return rest as TaskRequest;
}

function specOf(form: Form, problems: Problems): TaskRequest["spec"] {
  const words = splitWords(form.words);
  if (words === null) problems.words = "A quote is not closed.";
  if (form.what === "container") {
    if (form.image.trim() === "") problems.image = "Name an image, such as docker.io/library/busybox:1.37.";
    return { kind: "container", image: form.image.trim(), command: words ?? [] };
  }
  if (form.what === "command") {
    if (words?.length === 0) problems.words = "Write the program and its arguments.";
    return { kind: "command", command: words ?? [] };
  }
  if (form.what === "script" && form.source.trim() === "") problems.source = "Drop a Python file here, or write one.";
  return { kind: "script", filename: form.filename.trim() || "task.py", source: form.source, arguments: words ?? [] };
}

/** The form of a request: what it shows is what would be submitted again. */
export function formOf(request: TaskRequest): Form {
  const { spec } = request;
  const words = spec.kind === "script" ? spec.arguments : spec.kind === "function" ? [] : spec.command;
  return {
    ...EMPTY_FORM,
    what: spec.kind === "container" || spec.kind === "command" ? spec.kind : "script",
    filename: spec.kind === "script" ? spec.filename : EMPTY_FORM.filename,
    source: spec.kind === "script" ? spec.source : "",
    image: spec.kind === "container" ? spec.image : "",
    words: joinWords(words ?? []),
    options: optionsOf(request),
  };
}

/** The options of a request that differ from their defaults, as they are written. */
export function optionsOf(request: TaskRequest): Record<string, string> {
  const options: Record<string, string> = {};
  const needs = request.requirements;
  const isOfGpus = needs?.device_kind === "gpu";
  for (const option of TASK_OPTIONS) {
    // Tasks that it came after are over, and secrets are not kept.
    if (["after", "secret"].includes(option.name) || (isOfGpus && ["device-kind", "model"].includes(option.name))) continue;
    const value = option.reader === "gpus" ? (isOfGpus ? { count: needs.device_count ?? 1, model: needs.device_model ?? null } : undefined) : getField(request, option.field);
    if (value === undefined || value === null || isEmpty(value)) continue;
    const kind = VALUE_KINDS[option.reader];
    const text = kind.write(value as never);
    const isDefault = option.default !== "" && isSame(kind.read(option.default, option), kind.read(text, option));
    if (text !== "" && !isDefault) options[option.name] = text;
  }
  return options;
}

const isEmpty = (value: unknown) => typeof value === "object" && value !== null && Object.keys(value).length === 0;
const isSame = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);
