// What one item of an array wrote. Its node precedes the output of each item with a remark that
// names it; in a range of one item all output is of that item (src/potluck/consumer/item_log.py).

const TITLE = /^item (0|[1-9][0-9]{0,8}):$/;
const STREAMS = ["stdout", "stderr"];

export interface Piece {
  stream: string;
  data: Uint8Array;
}

/** Takes the pieces of a log in order, and says which are of the item. */
export class ItemFilter {
  private current: number | null;

  constructor(private readonly item: number, range: { start: number; end: number }) {
    this.current = range.end - range.start === 1 ? range.start : null;
  }

  accepts(piece: Piece): boolean {
    if (STREAMS.includes(piece.stream)) return this.current === this.item;
    for (const line of new TextDecoder().decode(piece.data).split(/\r?\n/)) {
      const title = TITLE.exec(line);
      if (title) this.current = Number(title[1]);
    }
    return false;
  }
}
