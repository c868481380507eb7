// Sizes, counts and percentages, by the reader's locale.

// Making a formatter takes a hundred times as long as using it, and a list formats hundreds. The
// first one of a page takes 10 ms, and those for other options half as long.
const formats = new Map<string, Intl.NumberFormat>();

function formatOf(locale: string | undefined, digits: number, style: "decimal" | "percent" = "decimal"): Intl.NumberFormat {
  const key = `${locale ?? ""} ${String(digits)} ${style}`;
  const known = formats.get(key) ?? new Intl.NumberFormat(locale, { style, maximumFractionDigits: digits });
  formats.set(key, known);
  return known;
}

/** The one of plain numbers, for others who need its parts. */
export const numberFormat = (locale?: string) => formatOf(locale, 3);

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

export function formatBytes(bytes: number, locale?: string): string {
  let size = bytes;
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || size >= 100 ? 0 : 1;
  return `${formatOf(locale, digits).format(size)} ${UNITS[unit] ?? ""}`;
}

/** `1,000` is a thousand to most people, and one to those who write decimals with a comma. */
export const isAmbiguous = (text: string) => /^\s*-?[1-9]\d{0,2},\d{3}(?!\d)/.test(text);

const BYTES = /^\s*(\d+(?:[.,]\d+)?)\s*([kmgtp]?)(i?)b?\s*$/i;

/** `24GB`, `512 MiB`, `1.5g`; a plain number is in GiB, because people mean that. */
export function parseBytes(text: string): number | null {
  const match = BYTES.exec(text);
  if (match === null || isAmbiguous(text)) return null;
  const amount = Number(match[1]?.replace(",", "."));
  const unit = (match[2] ?? "").toLowerCase();
  if (unit === "") return Math.round(amount * 2 ** 30);
  const power = "kmgtp".indexOf(unit) + 1;
  return Math.round(amount * (match[3] ? 1024 : 1000) ** power);
}

/** What a person types as a number; null if it is none, or outside of the bounds. */
export function readNumber(text: string, least: number, most: number, isWhole = true): number | null {
  const form = isWhole ? /^\s*-?\d+\s*$/ : /^\s*\d+(?:[.,]\d+)?\s*$/;
  const number = form.test(text) && !isAmbiguous(text) ? Number(text.replace(",", ".")) : Number.NaN;
  return number >= least && number <= most ? number : null;
}

export const rangeSentence = (least: number, most: number, isWhole = true) =>
  `A ${isWhole ? "whole number" : "number"} from ${formatCount(least)} to ${formatCount(most)}.`;

export const formatCount = (count: number, locale?: string) =>
  formatOf(locale, 3).format(count);

export const formatPercent = (share: number, locale?: string) =>
  formatOf(locale, 1, "percent").format(share);

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}
