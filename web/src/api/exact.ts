// JSON with exact amounts: `…_micro` and `…_micro_per_hour` are integers of up to 64 bits, which a
// JavaScript number cannot hold. They are read as bigint and written as plain digits.

// In valid JSON an unescaped quote after `{` or `,` begins a key: text inside of a string has its
// quotes escaped, so it never matches.
const AMOUNT = /"(?<=[{,]\s*")(\w*_micro(?:_per_hour)?)"\s*:\s*(-?\d+)(?=\s*[,}])/g;
const KEY = /_micro(?:_per_hour)?$/;
const MARK = "potluck-bigint:";
const MARKED = /"potluck-bigint:(-?\d+)"/g;

export function parseExact(text: string): unknown {
  const marked = text.replace(AMOUNT, (_, key: string, digits: string) => `"${key}":"${MARK}${digits}"`);
  const parsed: unknown = JSON.parse(marked);
  restore(parsed);
  return parsed;
}

/** In place: a reviver of JSON.parse takes several times as long for a page of a list. */
function restore(value: unknown) {
  if (typeof value !== "object" || value === null) return;
  if (Array.isArray(value)) {
    for (const each of value) restore(each);
    return;
  }
  const fields = value as Record<string, unknown>;
  for (const key in fields) {
    const field = fields[key];
    if (typeof field === "object") restore(field);
    else if (typeof field === "string" && field.startsWith(MARK) && KEY.test(key)) fields[key] = BigInt(field.slice(MARK.length));
  }
}

export function writeExact(value: unknown): string {
  const text = JSON.stringify(value, (_, each: unknown) => {
    if (typeof each === "string" && each.startsWith(MARK)) throw new Error("This text is reserved.");
    return typeof each === "bigint" ? `${MARK}${each.toString()}` : each;
  });
  return text.replace(MARKED, "$1");
}
