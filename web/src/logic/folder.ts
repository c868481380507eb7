// A folder that was chosen in the browser, as the archive that a task unpacks. As on the command line
// (src/potluck/consumer/files/folder.py), `.git`, bytecode and what a `.gitignore` excludes are left out.

import ignore, { type Ignore } from "ignore";

const LEFT_OUT = [".git", "__pycache__"];
const BLOCK = 512;
const LONGEST_NAME = 100; // of a plain header, in bytes

/** The files to send, by their paths in the folder. */
export async function folderFiles(chosen: ReadonlyMap<string, File>): Promise<Map<string, File>> {
  const rules: [string, Ignore][] = [];
  for (const [path, file] of chosen) {
    if (/(?:^|\/)\.gitignore$/.test(path)) rules.push([path.slice(0, -".gitignore".length), ignore().add(await file.text())]);
  }
  rules.sort(([one], [other]) => one.length - other.length);
  const known = new Map<string, boolean>();
  const isLeftOut = (path: string): boolean => {
    const parent = parentOf(path);
    if (parent !== "" && isDirectoryLeftOut(parent)) return true;
    let isIgnored = LEFT_OUT.includes(path.slice(parent.length).replace("/", ""));
    // The last matching rule of the deepest directory decides.
    for (const [directory, rule] of rules) {
      if (!path.startsWith(directory) || path === directory || LEFT_OUT.includes(path.slice(parent.length, -1))) continue;
      const found = rule.test(path.slice(directory.length));
      isIgnored = found.ignored || (isIgnored && !found.unignored);
    }
    return isIgnored;
  };
  const isDirectoryLeftOut = (directory: string): boolean => {
    const found = known.get(directory) ?? isLeftOut(directory);
    known.set(directory, found);
    return found;
  };
  const kept = [...chosen].filter(([path]) => !isLeftOut(path));
  return new Map(kept.sort(([one], [other]) => (one < other ? -1 : 1)));
}

/** `a/` of `a/b` and of `a/b/`; empty at the top. */
const parentOf = (path: string) => path.slice(0, path.lastIndexOf("/", path.length - 2) + 1);

/** A tar archive; it stores no owner and no time, so that the same files always give the same bytes. */
export function packFolder(files: ReadonlyMap<string, Blob>): Blob {
  const parts: BlobPart[] = [];
  const directories = new Set<string>();
  for (const path of files.keys()) {
    for (let parent = parentOf(path); parent !== ""; parent = parentOf(parent)) directories.add(parent);
  }
  for (const directory of [...directories].sort()) parts.push(...entry(directory, 0, "5"));
  for (const [path, file] of files) parts.push(...entry(path, file.size, "0"), file, padding(file.size));
  parts.push(new Uint8Array(2 * BLOCK));
  return new Blob(parts);
}

function entry(path: string, size: number, type: "0" | "5"): BlobPart[] {
  const name = new TextEncoder().encode(path);
  // Any name but a short ASCII one goes into a record before the entry.
  if (name.length <= LONGEST_NAME && name.length === path.length) return [header(name, size, type)];
  const record = new TextEncoder().encode(nameRecord(path, name.length));
  return [header(new TextEncoder().encode("name"), record.length, "x"), record, padding(record.length), header(name.slice(0, LONGEST_NAME), size, type)];
}

/** `LENGTH path=NAME`, where the length counts its own digits too. */
function nameRecord(path: string, bytes: number): string {
  const rest = bytes + " path=\n".length;
  let length = rest + String(rest).length;
  length = rest + String(length).length;
  return `${String(length)} path=${path}\n`;
}

function header(name: Uint8Array, size: number, type: string): Uint8Array<ArrayBuffer> {
  const block = new Uint8Array(BLOCK);
  const write = (at: number, text: string) => { block.set(new TextEncoder().encode(text), at); };
  const octal = (number: number, digits: number) => `${number.toString(8).padStart(digits, "0")}\0`;
  block.set(name);
  write(100, octal(type === "5" ? 0o755 : 0o644, 7));
  write(108, octal(0, 7));
  write(116, octal(0, 7));
  write(124, octal(size, 11));
  write(136, octal(0, 11));
  write(148, " ".repeat(8));
  write(156, type);
  write(257, "ustar\x0000");
  write(148, `${octal(block.reduce((total, byte) => total + byte, 0), 6)} `);
  return block;
}

const padding = (size: number) => new Uint8Array((BLOCK - (size % BLOCK)) % BLOCK);
