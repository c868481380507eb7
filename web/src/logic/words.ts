// A command line as words, with the quotes of a POSIX shell.

export function splitWords(text: string): string[] | null {
  const words: string[] = [];
  let word: string | null = null;
  let quote = "";
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at] ?? "";
    if (quote !== "") {
      if (letter === quote) quote = "";
      else if (letter === "\\" && quote === '"') {
        at += 1;
        word = (word ?? "") + (text[at] ?? "");
      } else word = (word ?? "") + letter;
    } else if (letter === "'" || letter === '"') {
      quote = letter;
      word ??= "";
    } else if (letter === "\\") {
      at += 1;
      word = (word ?? "") + (text[at] ?? "");
    } else if (/\s/.test(letter)) {
      if (word !== null) words.push(word);
      word = null;
    } else word = (word ?? "") + letter;
  }
  if (quote !== "") return null;
  return word === null ? words : [...words, word];
}

/** Words as one line that splits into the same words again. */
export const joinWords = (words: readonly string[]) =>
  words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");
