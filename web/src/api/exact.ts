// JSON with exact amounts: `…_micro` and `…_micro_per_hour` are integers of up to 64 bits, which a
// JavaScript number cannot hold. They are read as bigint and written as plain digits.

// In valid JSON an unescaped quote after `{` or `,` begins a key: text inside of a string has its
// quotes escaped, so it never matches.
const AMOUNT = /(?<=[{,]\s*)"(\w*_micro(?:_per_hour)?)"\s*:\s*(-?\d+)(?=\s*[,}])/g;
const MARK = "potluck-bigint:";
const MARKED = /"potluck-bigint:(-?\d+)"/g;

export function parseExact(text: string): unknown {
  const marked = text.replace(AMOUNT, (_, key: string, digits: string) => `"${key}":"${MARK}${digits}"`);
  return JSON.parse(marked, (key, value: unknown) => {
    const isAmount = typeof value === "string" && /_micro(_per_hour)?$/.test(key);
    return isAmount && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value;
  });
}

export function writeExact(value: unknown): string {
  const text = JSON.stringify(value, (_, each: unknown) => {
    if (typeof each === "string" && each.startsWith(MARK)) throw new Error("This text is reserved.");
    return typeof each === "bigint" ? `${MARK}${each.toString()}` : each;
  });
  return text.replace(MARKED, "$1");
}
