// A log as lines: pieces arrive as bytes of several streams, cut anywhere.

export interface LogLine {
  stream: string;
  text: string;
  at: string | null;
}

// Longer lines are cut for display; the download has everything.
const LONGEST_LINE = 10_000;

// Terminal control sequences are removed: a page is not a terminal.
const CONTROL = /\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/g;

export class LogText {
  readonly lines: LogLine[] = [];
  private readonly open = new Map<string, { index: number; decoder: TextDecoder }>();

  push(stream: string, data: Uint8Array, at: string | null) {
    const known = this.open.get(stream) ?? { index: -1, decoder: new TextDecoder() };
    this.open.set(stream, known);
    const parts = known.decoder.decode(data, { stream: true }).split("\n");
    parts.forEach((part, position) => {
      const text = lastRewrite(part);
      const current = known.index === -1 ? undefined : this.lines[known.index];
      if (position === 0 && current !== undefined) {
        current.text = `${current.text}${text}`.slice(0, LONGEST_LINE);
      } else if (text !== "" || position < parts.length - 1) {
        this.lines.push({ stream, text: text.slice(0, LONGEST_LINE), at });
        known.index = this.lines.length - 1;
      }
      if (position < parts.length - 1) known.index = -1;
    });
  }
}

/** What a terminal would show of a line that was rewritten with carriage returns. */
function lastRewrite(part: string): string {
  const rewrites = part.replace(/\r$/, "").split("\r");
  return (rewrites.at(-1) ?? "").replace(CONTROL, "");
}

export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** The numbers of the lines that contain the text, whatever its case. */
export function findLines(lines: readonly LogLine[], wanted: string): number[] {
  const needle = wanted.toLowerCase();
  if (needle === "") return [];
  return lines.flatMap((line, index) => (line.text.toLowerCase().includes(needle) ? [index] : []));
}
