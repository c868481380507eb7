// Credits: exact integers in millionths, formatted without ever becoming a float.

import { isAmbiguous, numberFormat } from "./numbers";

export const MICRO = 1_000_000n;

interface Style {
  whole: Intl.NumberFormat;
  decimal: string;
}
// Making a formatter takes a hundred times as long as using it, and a list formats hundreds.
const styles = new Map<string | undefined, Style>();

function styleOf(locale?: string): Style {
  let style = styles.get(locale);
  if (style === undefined) {
    const whole = numberFormat(locale);
    const decimal = whole.formatToParts(1.5).find((part) => part.type === "decimal")?.value ?? ".";
    style = { whole, decimal };
    styles.set(locale, style);
  }
  return style;
}

/** All digits that are there, and at least `least` after the point. */
export function formatCredits(micro: bigint, least = 2, locale?: string): string {
  const size = micro < 0n ? -micro : micro;
  const style = styleOf(locale);
  const whole = style.whole.format(size / MICRO);
  let digits = (size % MICRO).toString().padStart(6, "0").replace(/0+$/, "");
  digits = digits.padEnd(least, "0");
  const sign = micro < 0n ? "−" : "";
  return digits === "" ? `${sign}${whole}` : `${sign}${whole}${style.decimal}${digits}`;
}

/** What a person types, as millionths; null if it is not an amount, or could be two. */
export function parseCredits(text: string): bigint | null {
  const match = /^\s*(-?)(\d{1,12})?(?:[.,](\d{0,6}))?\s*$/.exec(text);
  if (match === null || isAmbiguous(text) || (match[2] === undefined && !match[3])) return null;
  const micro = BigInt(match[2] ?? "0") * MICRO + BigInt((match[3] ?? "").padEnd(6, "0"));
  return match[1] === "-" ? -micro : micro;
}

/** As a plain number for bars and plots only. */
export const approximate = (micro: bigint) => Number(micro) / 1e6;

export const sum = (amounts: bigint[]) => amounts.reduce((total, each) => total + each, 0n);
