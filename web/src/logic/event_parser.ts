// Server-sent events, from pieces of text as they arrive.

export interface ServerEvent {
  event: string;
  id: string;
  data: string;
}

export class EventParser {
  private rest = "";

  /** The events that are complete after this piece; comments only keep the connection alive. */
  push(piece: string): ServerEvent[] {
    const blocks = (this.rest + piece).split(/\r\n\r\n|\n\n/);
    this.rest = blocks.pop() ?? "";
    return blocks.map(parseBlock).filter((each) => each !== null);
  }
}

function parseBlock(block: string): ServerEvent | null {
  const found: ServerEvent = { event: "message", id: "", data: "" };
  const data: string[] = [];
  for (const line of block.split(/\r\n|\n/)) {
    if (line.startsWith(":")) continue;
    const colon = line.indexOf(":");
    const name = colon === -1 ? line : line.slice(0, colon);
    const text = colon === -1 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") data.push(text);
    else if (name === "event") found.event = text;
    else if (name === "id") found.id = text;
  }
  found.data = data.join("\n");
  return found.data === "" && found.id === "" ? null : found;
}
