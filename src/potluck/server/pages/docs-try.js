// Tries one operation: the request as curl, a form for it, and the response.

import { json, make, sample } from "./docs-draw.js";

const JSON_KIND = "application/json";
const SHOWN_CHARACTERS = 20000;
const STREAM_SECONDS = 10;

export function bodyOf(operation) {
  const [kind, content] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
  return kind ? { kind, content } : null;
}

// The same request in a terminal.
export function curl({ method, path, operation, parameters }) {
  const named = path.replace(/{(\w+)}/g, (_, name) =>
    parameters.find((parameter) => parameter.name === name)?.example ?? name);
  const lines = [`curl ${method === "get" ? "" : `-X ${method.toUpperCase()} `}${location.origin}${named}`];
  if (operation.security?.length !== 0) lines.push(`-H "Authorization: Bearer $POTLUCK_TOKEN"`);
  for (const each of parameters) {
    if (each.in === "header" && each.required) lines.push(`-H "${each.name}: …"`);
  }
  const body = bodyOf(operation);
  if (body?.kind === JSON_KIND) {
    lines.push(`-H "Content-Type: ${JSON_KIND}"`);
    lines.push(`-d '${JSON.stringify(body.content.example, null, 2).replaceAll("'", "'\\''")}'`);
  } else if (body) {
    lines.push(`-H "Content-Type: ${body.kind}" --data-binary @FILE`);
  }
  return lines.join(" \\\n  ");
}

export function tryIt(described, token) {
  const fields = described.parameters.map((parameter) => [parameter, input(parameter)]);
  const body = bodyOf(described.operation);
  const text = body?.kind === JSON_KIND
    ? make("textarea", { rows: 8, spellcheck: false, value: JSON.stringify(body.content.example, null, 2) })
    : body ? make("input", { type: "file" }) : null;
  const send = make("button", { type: "submit" }, "Send");
  const form = make("form", {},
    ...fields.map(([parameter, field]) => make("label", {}, `${parameter.name} (${parameter.in})`, field)),
    text ? make("label", {}, "body", text) : null, send);
  const place = make("div", { ariaLive: "polite" });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    send.disabled = true;
    place.replaceChildren(await ask(described, fields, body, text, await token()));
    send.disabled = false;
  });
  return make("details", { className: "try" }, make("summary", {}, "Try it"), form, place);
}

function input(parameter) {
  const choices = parameter.schema?.enum;
  if (choices) {
    return make("select", {}, make("option", { value: "" }, ""), ...choices.map((each) =>
      make("option", { value: each }, each)));
  }
  const known = parameter.in === "path" ? parameter.example : "";
  return make("input", { type: "text", placeholder: String(known ?? ""), spellcheck: false });
}

async function ask({ method, path }, fields, body, text, token) {
  let url = path;
  const query = new URLSearchParams();
  const headers = new Headers(token ? { Authorization: `Bearer ${token}` } : {});
  try {
    for (const [parameter, field] of fields) {
      if (parameter.in === "path") {
        url = url.replace(`{${parameter.name}}`, encodeURIComponent(field.value || field.placeholder));
      } else if (field.value && parameter.in === "query") query.append(parameter.name, field.value);
      else if (field.value) headers.set(parameter.name, field.value);
    }
    if (body) headers.set("Content-Type", body.kind);
    const sent = body ? (body.kind === JSON_KIND ? text.value : text.files[0]) : undefined;
    const began = performance.now();
    const answer = await fetch(query.size ? `${url}?${query}` : url, {
      method: method.toUpperCase(),
      headers,
      body: sent,
      credentials: "omit",
      cache: "no-store",
      redirect: "manual",
    });
    return await shown(answer, Math.round(performance.now() - began));
  } catch (error) {
    return sample("No response", String(error.message ?? error));
  }
}

async function shown(answer, milliseconds) {
  const title = `${answer.status || "redirect"} · ${milliseconds} ms`;
  const kind = answer.headers.get("content-type") ?? "";
  if (kind.startsWith("text/event-stream")) return sample(title, await beginning(answer));
  const text = await answer.text();
  if (!kind.includes("json")) return sample(title, text.slice(0, SHOWN_CHARACTERS) || "(no body)");
  return sample(title, ...json(JSON.parse(text)));
}

// The first seconds of a stream.
async function beginning(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  const timer = setTimeout(() => reader.cancel(), 1000 * STREAM_SECONDS);
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done || text.length > SHOWN_CHARACTERS) return text;
      text += value;
    }
  } finally {
    clearTimeout(timer);
    await reader.cancel().catch(() => undefined);
  }
}
