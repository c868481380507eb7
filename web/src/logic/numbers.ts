// Sizes, counts and percentages, by the reader's locale.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

export function formatBytes(bytes: number, locale?: string): string {
  let size = bytes;
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || size >= 100 ? 0 : 1;
  const number = new Intl.NumberFormat(locale, { maximumFractionDigits: digits }).format(size);
  return `${number} ${UNITS[unit] ?? ""}`;
}

const BYTES = /^\s*(\d+(?:[.,]\d+)?)\s*([kmgtp]?)(i?)b?\s*$/i;

/** `24GB`, `512 MiB`, `1.5g`; a plain number is in GiB, because people mean that. */
export function parseBytes(text: string): number | null {
  const match = BYTES.exec(text);
  if (match === null) return null;
  const amount = Number(match[1]?.replace(",", "."));
  const unit = (match[2] ?? "").toLowerCase();
  if (unit === "") return Math.round(amount * 2 ** 30);
  const power = "kmgtp".indexOf(unit) + 1;
  return Math.round(amount * (match[3] ? 1024 : 1000) ** power);
}

export const formatCount = (count: number, locale?: string) =>
  new Intl.NumberFormat(locale).format(count);

export const formatPercent = (share: number, locale?: string) =>
  new Intl.NumberFormat(locale, { style: "percent", maximumFractionDigits: 1 }).format(share);

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}
