// How the values of task options are read and written, as on the command line: see
// src/potluck/local/option_values.py. A reader returns null for a text that it does not accept.

import type { Schemas } from "../api/client";
import { formatCredits, parseCredits } from "./credits";
import { rangeSentence, readNumber } from "./numbers";
import { joinWords, splitWords } from "./words";

export type Reader = "choice" | "credits" | "flag" | "gpus" | "milli" | "owners" | "share" | "size" | "text" | "time" | "variables" | "volumes" | "whole" | "words";

export interface TaskOption {
  name: string;
  title: string;
  panel: string;
  field: string; // of the request
  reader: Reader;
  default: string;
  metavar: string;
  help: string;
  is_common: boolean;
  choices?: string[];
  least?: number;
  most?: number;
}

export interface GpuChoice {
  count: number;
  model: string | null;
}

interface ValueKind {
  read: (text: string, option: TaskOption) => unknown;
  write: (value: never) => string;
  sentence: (option: TaskOption) => string;
}

const UNITS = ["", "k", "m", "g", "t", "p"];
const SECONDS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400 };
const MOST_DEVICES = 64;

/** `8GB` or `512 MiB`. A number alone is refused, since people mean different units. */
export function readSize(text: string): number | null {
  const match = /^\s*(\d+(?:\.\d+)?)\s*([kmgtp]?)(i?)b?\s*$/i.exec(text);
  if (match === null || (!/[a-z]/i.test(text) && Number(match[1]) !== 0) || (match[3] && !match[2])) return null;
  const power = UNITS.indexOf((match[2] ?? "").toLowerCase());
  return Math.trunc(Number(match[1]) * (match[3] ? 1024 : 1000) ** power);
}

/** Exactly, in the largest unit that divides it: 8GB and not 7812500KiB. */
export function writeSize(bytes: number): string {
  for (const power of bytes > 0 ? [5, 4, 3, 2, 1] : []) {
    const unit = (UNITS[power] ?? "").toUpperCase();
    if (bytes % 1024 ** power === 0) return `${String(bytes / 1024 ** power)}${unit}iB`;
    if (bytes % 1000 ** power === 0) return `${String(bytes / 1000 ** power)}${unit}B`;
  }
  return `${String(bytes)}B`;
}

/** `90`, `90s`, `15m`, `1h30m`, `2d`. */
export function readTime(text: string): number | null {
  const given = /^\s*\d+(?:\.\d+)?\s*$/.test(text) ? `${text.trim()}s` : text.trim();
  if (!/^(?:\d+(?:\.\d+)?\s*[smhd]\s*)+$/i.test(given)) return null;
  const parts = [...given.matchAll(/(\d+(?:\.\d+)?)\s*([smhd])/gi)];
  const total = parts.reduce((sum, [, amount, unit]) => sum + Number(amount) * (SECONDS[(unit ?? "s").toLowerCase()] ?? 1), 0);
  return total > 0 ? total : null;
}

export function writeTime(seconds: number): string {
  const unit = ["d", "h", "m"].find((each) => seconds % (SECONDS[each] ?? 1) === 0) ?? "s";
  return `${String(seconds / (SECONDS[unit] ?? 1))}${unit}`;
}

// 2x4090, 2 x RTX 4090; a100x2, a100 x2. Not RTX 40, where the x belongs to a word.
const TIMES = /^(?:(\d{1,2})\s*[x×]\s*(.+)|(.+[\s\d×])[x×](\d{1,2}))$/i;

/** A number, a model, or both: 2, a100, a100:2, 2x4090. Four digits are a model: 4090. */
export function readGpus(text: string): GpuChoice | null {
  const times = TIMES.exec(text.trim());
  const given = times ? `${(times[2] ?? times[3] ?? "").trim()}:${times[1] ?? times[4] ?? ""}` : text.trim();
  if (!given.includes(":") && !/^-?\d{0,3}$/.test(given)) return { count: 1, model: given };
  const match = /^(?:(.*\S)\s*:)?\s*(\d{1,3})$/.exec(given);
  if (match === null) return null;
  const count = Number(match[2]);
  return count >= (match[1] ? 1 : 0) && count <= MOST_DEVICES ? { count, model: match[1] ?? null } : null;
}

/** `0.25`, `250m` or `25%`, in thousandths. */
export function readMilli(text: string): number | null {
  const match = /^\s*(\d+(?:\.\d+)?)\s*(m|%|)\s*$/.exec(text);
  if (match === null) return null;
  const milli = Number(match[1]) * (match[2] === "m" ? 1 : match[2] === "%" ? 10 : 1000);
  return milli >= 1 && milli <= 1000 && Math.abs(milli - Math.round(milli)) < 1e-6 ? Math.round(milli) : null;
}

function readShare(text: string): number | null {
  const share = /^\s*\d*\.?\d+\s*$/.test(text) ? Number(text) : Number.NaN;
  return share >= 0 && share <= 1 ? share : null;
}

/** A line for each variable. */
export function readVariables(text: string): Record<string, string> | null {
  const variables: Record<string, string> = {};
  for (const line of text.split("\n").filter((each) => each.trim() !== "")) {
    const [, name, value] = /^\s*([A-Za-z_][A-Za-z0-9_]*)=(.*)$/s.exec(line) ?? [];
    if (name === undefined || value === undefined) return null;
    variables[name] = value;
  }
  return variables;
}

const VOLUME = /^(?:(0x[0-9a-fA-F]{40})\/)?([a-z0-9][a-z0-9.-]{1,62})(?:@([0-9a-f]{4,64}))?(?::((?:\.?\/)?[A-Za-z0-9_][A-Za-z0-9._+/-]*))?$/;

type Mount = NonNullable<NonNullable<Schemas["TaskRequest"]["requirements"]>["volumes"]>[number];

/** `NAME[@VERSION][:PATH]`, with the owner's wallet before it if another account shares it. */
export function readVolumes(text: string): Mount[] | null {
  const mounts = splitList(text).map((word): Mount | null => {
    const [, owner, name, version, path] = VOLUME.exec(word) ?? [];
    if (name === undefined) return null;
    const place = path === undefined ? `/volumes/${name}` : path.replace(/\/$/, "");
    const whole = place.startsWith("/") ? place : `/work/${place.replace(/^\.\//, "")}`;
    return { name, path: whole, ...(version === undefined ? {} : { version }), ...(owner === undefined ? {} : { owner }) } as Mount;
  });
  return mounts.every((mount) => mount !== null) ? mounts : null;
}

export const writeVolumes = (mounts: readonly Mount[]) =>
  mounts.map((mount) => `${mount.owner ? `${mount.owner}/` : ""}${mount.name}${mount.version ? `@${mount.version.slice(0, 12)}` : ""}:${mount.path}`).join(" ");

const splitList = (text: string) => text.split(/[,\s]+/).filter(Boolean);

function readWords(text: string): string[] | null {
  const words = splitWords(text.replaceAll(",", " "));
  return words === null ? null : words.map((word) => word.replace(/^\.\//, "")).filter(Boolean);
}

const text = { read: (given: string) => given.trim(), write: (value: string) => value, sentence: () => "Write a text." };
const number = String as (value: number) => string;
const words = { read: readWords, write: (value: readonly string[]) => joinWords([...value]), sentence: () => "A quote is not closed." };
const bounds = ({ least = 0, most = Number.MAX_SAFE_INTEGER }: TaskOption) => [least, most] as const;

export const VALUE_KINDS: Record<Reader, ValueKind> = {
  choice: text,
  text,
  words,
  owners: words,
  credits: {
    read: (given) => {
      const micro = parseCredits(given);
      return micro === null || micro < 0n ? null : micro;
    },
    write: (micro: bigint) => formatCredits(micro, 0, "en").replaceAll(",", ""),
    sentence: () => "Write an amount of credits that is not negative, such as 0.5 or 1000.",
  },
  flag: { read: (given) => given === "yes", write: (value: boolean) => (value ? "yes" : ""), sentence: () => "Write yes." },
  gpus: { read: readGpus, write: ({ count, model }: GpuChoice) => (model === null ? String(count) : `${model}:${String(count)}`), sentence: () => `Write it like 2, a100, a100:2 or rtx 40*; at most ${String(MOST_DEVICES)}.` },
  milli: { read: readMilli, write: (milli: number) => String(milli / 1000), sentence: () => "Write it like 0.25 or 250m, from 1m to 1." },
  share: { read: readShare, write: number, sentence: () => "A number from 0 to 1, such as 0.95." },
  size: { read: readSize, write: writeSize, sentence: () => "Write it with its unit, like 8GB, 512MB or 1.5GiB." },
  time: { read: readTime, write: writeTime, sentence: () => "Write it like 90s, 15m, 1h30m or 2d." },
  variables: { read: readVariables, write: (value: Record<string, string>) => Object.entries(value).map(([name, each]) => `${name}=${each}`).join("\n"), sentence: () => "Write each on a line of its own, like SEED=42." },
  volumes: { read: readVolumes, write: writeVolumes, sentence: () => "Write it like imagenet:/data or imagenet@3f9ac2d1:/data." },
  whole: { read: (given, option) => readNumber(given, ...bounds(option)), write: number, sentence: (option) => rangeSentence(...bounds(option)) },
};
