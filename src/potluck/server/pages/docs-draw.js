// Creates elements, prose and JSON. Text is never parsed as HTML.

export function make(kind, properties = {}, ...children) {
  const element = document.createElement(kind);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === false) continue;
    if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null));
  return element;
}

// The Markdown of descriptions: paragraphs, lists, `code` and **strong** words.
export function prose(text) {
  const blocks = text.split(/\n\s*\n/).filter((block) => block.trim());
  return make("div", { className: "prose" }, ...blocks.map(block));
}

function block(text) {
  const lines = text.trim().split("\n");
  if (!lines.every((line) => line.startsWith("- "))) return make("p", {}, ...inline(lines.join(" ")));
  return make("ul", {}, ...lines.map((line) => make("li", {}, ...inline(line.slice(2)))));
}

export function inline(text) {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*)/).filter(Boolean).map((piece) => {
    if (piece.startsWith("`")) return make("code", {}, piece.slice(1, -1));
    if (piece.startsWith("**")) return make("strong", {}, piece.slice(2, -2));
    return document.createTextNode(piece);
  });
}

const JSON_PIECE = /("(?:\\.|[^"\\])*")(\s*:)?|\b(?:true|false|null)\b|-?\d[\d.eE+-]*/g;

// A value as highlighted JSON.
export function json(value) {
  const text = JSON.stringify(value, null, 2);
  const found = [];
  let end = 0;
  for (const match of text.matchAll(JSON_PIECE)) {
    found.push(text.slice(end, match.index));
    const kind = match[2] ? "json-name" : match[1] ? "json-text" : "json-number";
    found.push(make("span", { className: kind }, match[1] ?? match[0]), match[2] ?? "");
    end = match.index + match[0].length;
  }
  return [...found, text.slice(end)];
}

// A dark panel with a copy button.
export function sample(title, ...content) {
  const body = make("pre", { tabIndex: 0 }, make("code", {}, ...content));
  const copy = make("button", { type: "button" }, "Copy");
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(body.textContent);
      copy.textContent = "Copied";
    } catch {
      copy.textContent = "Select and copy it";
    }
    setTimeout(() => (copy.textContent = "Copy"), 1500);
  });
  return make("div", { className: "sample" }, make("header", {}, make("span", {}, title), copy), body);
}
