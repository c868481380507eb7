// A return value as text, in the notation of Python.
//
// The values of functions are MessagePack with a few marked types (src/potluck/wire/plain_values/).
// They come from machines of strangers: the bytes are only ever turned into text, and reading stops
// at a limit.

const MOST_CHARACTERS = 20_000;
const MOST_DEPTH = 64;
const TUPLE = 2, SET = 3, FROZENSET = 4;
// The parts of an array are its type, its shape and its bytes; those of a scalar have no shape.
const ARRAY = 12;
const NAMES: Record<number, string> = { 5: "datetime", 6: "date", 7: "time", 8: "timedelta", 9: "Decimal", 10: "UUID", 11: "complex", 13: "numpy scalar", 14: "Arrow table" };

class TooLong extends Error {}

/** The text of a value; null if the bytes are not a plain value, such as a pickle. */
export function writeValue(data: Uint8Array): string | null {
  const reader = new Reader(data);
  try {
    reader.value(0);
    return reader.isAtEnd() ? reader.text : null;
  } catch (error) {
    if (error instanceof TooLong) return `${reader.text.slice(0, MOST_CHARACTERS)} …`;
    return null; // a RangeError of the view: the bytes are cut off
  }
}

class Reader {
  text = "";
  private readonly view: DataView;
  private at = 0;

  constructor(private readonly data: Uint8Array) {
    this.view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  }

  isAtEnd() {
    return this.at === this.data.length;
  }

  value(depth: number) {
    if (depth > MOST_DEPTH) throw new RangeError("too deep");
    const code = this.view.getUint8(this.at++);
    if (code < 0x80) this.write(String(code));
    else if (code < 0x90) this.map(code & 0x0f, depth);
    else if (code < 0xa0) this.list("[", code & 0x0f, "]", depth);
    else if (code < 0xc0) this.write(quote(this.string(code & 0x1f)));
    else if (code >= 0xe0) this.write(String(code - 0x100));
    else this.marked(code, depth);
  }

  private marked(code: number, depth: number) {
    if (code === 0xc0) this.write("None");
    else if (code === 0xc2) this.write("False");
    else if (code === 0xc3) this.write("True");
    else if (code >= 0xc4 && code <= 0xc6) this.write(writeBytes(this.bytes(this.length(code - 0xc4))));
    else if (code >= 0xc7 && code <= 0xc9) this.extension(this.length(code - 0xc7), depth);
    else if (code === 0xca || code === 0xcb) this.write(writeFloat(code === 0xca ? this.view.getFloat32(this.skip(4)) : this.view.getFloat64(this.skip(8))));
    else if (code >= 0xcc && code <= 0xce) this.write(String(this.length(code - 0xcc)));
    else if (code === 0xcf) this.write(this.view.getBigUint64(this.skip(8)).toString());
    else if (code === 0xd0) this.write(String(this.view.getInt8(this.skip(1))));
    else if (code === 0xd1) this.write(String(this.view.getInt16(this.skip(2))));
    else if (code === 0xd2) this.write(String(this.view.getInt32(this.skip(4))));
    else if (code === 0xd3) this.write(this.view.getBigInt64(this.skip(8)).toString());
    else if (code >= 0xd9 && code <= 0xdb) this.write(quote(this.string(this.length(code - 0xd9))));
    else if (code === 0xdc || code === 0xdd) this.list("[", this.length(code - 0xdb), "]", depth);
    else if (code === 0xde || code === 0xdf) this.map(this.length(code - 0xdd), depth);
    else throw new RangeError("no such type");
  }

  private extension(length: number, depth: number) {
    const kind = this.view.getUint8(this.at++);
    const end = this.at + length;
    if (kind === TUPLE) this.members("(", ")", depth);
    else if (kind === SET || kind === FROZENSET) this.members(kind === SET ? "{" : "frozenset({", kind === SET ? "}" : "})", depth);
    else if (kind === ARRAY) this.array(end);
    else if (kind === 1) this.write(bigInteger(this.bytes(length)));
    else if (kind >= 5 && kind <= 7) this.write(`${NAMES[kind] ?? ""}(${quote(latin(this.bytes(length)).slice(kind === 6 ? 0 : 1))})`);
    else if (kind === 9) this.write(`Decimal(${quote(latin(this.bytes(length)))})`);
    else if (kind === 10) this.write(`UUID(${quote(uuid(this.bytes(length)))})`);
    else if (kind in NAMES) {
      this.write(`<${NAMES[kind] ?? ""}, ${String(length)} bytes>`);
      this.skip(length);
    } else throw new RangeError("no such type");
    if (this.at !== end) throw new RangeError("the length is wrong");
  }

  private members(open: string, close: string, depth: number) {
    const code = this.view.getUint8(this.at++);
    const count = code >= 0x90 && code < 0xa0 ? code & 0x0f : this.length(code - 0xdb);
    this.list(open, count, open === "(" && count === 1 ? ",)" : close, depth);
  }

  /** Of an array only its type and shape: its bytes may be megabytes. */
  private array(end: number) {
    const inner = new Reader(this.data.subarray(this.at, end));
    inner.at = 1; // after the head of the list of its parts
    inner.value(0);
    const type = inner.text;
    inner.text = "";
    inner.value(0);
    this.write(`<array of shape ${inner.text} and type ${type}>`);
    this.skip(end - this.at);
  }

  private list(open: string, count: number, close: string, depth: number) {
    this.write(open);
    for (let index = 0; index < count; index += 1) {
      if (index > 0) this.write(", ");
      this.value(depth + 1);
    }
    this.write(close);
  }

  private map(count: number, depth: number) {
    this.write("{");
    for (let index = 0; index < count; index += 1) {
      if (index > 0) this.write(", ");
      this.value(depth + 1);
      this.write(": ");
      this.value(depth + 1);
    }
    this.write("}");
  }

  /** A length of 1, 2 or 4 bytes. */
  private length(power: number): number {
    if (power === 0) return this.view.getUint8(this.skip(1));
    return power === 1 ? this.view.getUint16(this.skip(2)) : this.view.getUint32(this.skip(4));
  }

  private string(length: number) {
    return new TextDecoder().decode(this.bytes(length));
  }

  private bytes(length: number): Uint8Array {
    const start = this.skip(length);
    return this.data.subarray(start, start + length);
  }

  private skip(length: number): number {
    const start = this.at;
    if (start + length > this.data.length) throw new RangeError("cut off");
    this.at += length;
    return start;
  }

  private write(part: string) {
    this.text += part;
    if (this.text.length > MOST_CHARACTERS) throw new TooLong();
  }
}

const quote = (text: string) => {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text.replace(/[\\\n\r\t]/g, (letter) => ({ "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" })[letter] ?? letter);
  return `${mark}${mark === "'" ? escaped.replaceAll("'", "\\'") : escaped}${mark}`;
};

const writeFloat = (number: number) => {
  if (Number.isNaN(number)) return "nan";
  if (!Number.isFinite(number)) return number > 0 ? "inf" : "-inf";
  return Number.isInteger(number) && Math.abs(number) < 1e16 ? number.toFixed(1) : String(number);
};

const latin = (data: Uint8Array) => String.fromCharCode(...data.subarray(0, 1_000));

const hex = (data: Uint8Array) => Array.from(data, (byte) => byte.toString(16).padStart(2, "0")).join("");

const uuid = (data: Uint8Array) => hex(data).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");

const bigInteger = (data: Uint8Array) =>
  data.length > 1_000 ? `<integer, ${String(data.length)} bytes>` : BigInt.asIntN(data.length * 8, BigInt(`0x${hex(data)}`)).toString();

const MOST_BYTES = 200;
const writeBytes = (data: Uint8Array) => {
  const shown = Array.from(data.subarray(0, MOST_BYTES), (byte) =>
    byte >= 0x20 && byte < 0x7f && byte !== 0x5c && byte !== 0x27 ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, "0")}`,
  ).join("");
  return data.length > MOST_BYTES ? `<${String(data.length)} bytes, which begin with b'${shown}'>` : `b'${shown}'`;
};

/** The value at this place of an item file (src/potluck/wire/item_file.py); null if it is damaged. */
export function valueAt(file: Uint8Array, index: number): Uint8Array | null {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  try {
    const number = (at: number) => Number(view.getBigUint64(8 * at, true));
    const count = number(0);
    const begin = 8 * (count + 2);
    const [start, end] = [begin + number(1 + index), begin + number(2 + index)];
    return index < count && start <= end && end <= file.length ? file.subarray(start, end) : null;
  } catch {
    return null;
  }
}
