// Credits: exact integers in millionths, formatted without ever becoming a float.

export const MICRO = 1_000_000n;

function separators(locale?: string) {
  const parts = new Intl.NumberFormat(locale).formatToParts(11_111.5);
  const of = (type: string, otherwise: string) =>
    parts.find((part) => part.type === type)?.value ?? otherwise;
  return { decimal: of("decimal", ".") };
}

/** All digits that are there, and at least `least` after the point. */
export function formatCredits(micro: bigint, least = 2, locale?: string): string {
  const size = micro < 0n ? -micro : micro;
  const whole = new Intl.NumberFormat(locale).format(size / MICRO);
  let digits = (size % MICRO).toString().padStart(6, "0").replace(/0+$/, "");
  digits = digits.padEnd(least, "0");
  const sign = micro < 0n ? "−" : "";
  return digits === "" ? `${sign}${whole}` : `${sign}${whole}${separators(locale).decimal}${digits}`;
}

/** What a person types, as millionths; null if it is no amount. */
export function parseCredits(text: string): bigint | null {
  const match = /^\s*(-?)(\d{1,12})?(?:[.,](\d{0,6}))?\s*$/.exec(text);
  if (match === null || (match[2] === undefined && !match[3])) return null;
  const micro = BigInt(match[2] ?? "0") * MICRO + BigInt((match[3] ?? "").padEnd(6, "0"));
  return match[1] === "-" ? -micro : micro;
}

/** As a plain number for bars and plots only. */
export const approximate = (micro: bigint) => Number(micro) / 1e6;

export const sum = (amounts: bigint[]) => amounts.reduce((total, each) => total + each, 0n);
