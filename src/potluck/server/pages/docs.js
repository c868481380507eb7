// The API documentation, rendered from the server's OpenAPI document.

import { followTheme, sessionToken } from "./docs-dashboard.js";
import { json, make, prose, sample } from "./docs-draw.js";
import { Schemas } from "./docs-schema.js";
import { bodyOf, curl, tryIt } from "./docs-try.js";

const byId = (id) => document.getElementById(id);
const token = async () => byId("token").value.trim() || (await sessionToken());

async function begin() {
  followTheme();
  const answer = await fetch("/schema/openapi.json", { credentials: "omit" });
  if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
  draw(await answer.json());
  byId("search").addEventListener("input", filter);
  byId("credential").addEventListener("submit", (event) => event.preventDefault());
  watchPlace();
  if (location.hash) byId(location.hash.slice(1))?.scrollIntoView();
}

function draw(api) {
  byId("version").textContent = api.info.version;
  byId("summary").textContent = api.info.summary;
  byId("about").replaceChildren(prose(api.info.description));
  const schemas = new Schemas(api.components.schemas);
  const every = listed(api);
  for (const tag of api.tags) {
    const here = every.filter(({ operation }) => operation.tags.includes(tag.name));
    if (here.length === 0) continue;
    const id = `area-${tag.name.replaceAll(" ", "-")}`;
    byId("contents").append(entry(tag.name, id, here));
    byId("operations").append(make("section", { className: "area", id },
      make("header", {}, make("h2", {}, tag.name), prose(tag.description)),
      ...here.map((described) => article(described, api, schemas))));
  }
}

function listed(api) {
  return Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => {
      const own = (operation.parameters ?? []).filter((parameter) => !parameter.$ref);
      const shared = (operation.parameters ?? []).filter((parameter) => parameter.$ref)
        .map((parameter) => api.components.parameters[parameter.$ref.split("/").pop()]);
      return { path, method, operation, parameters: own, shared };
    }));
}

function entry(name, id, here) {
  return make("div", { className: "entry" },
    make("h2", {}, make("a", { href: `#${id}` }, name)),
    make("ul", {}, ...here.map(({ method, path, operation }) =>
      make("li", { "data-words": `${operation.summary} ${path} ${operation.operationId}`.toLowerCase() },
        make("a", { href: `#${operation.operationId}`, title: path }, badge(method), operation.summary)))));
}

function badge(method) {
  const short = method === "delete" ? "DEL" : method.toUpperCase();
  return make("span", { className: `method ${method}` }, short);
}

function article(described, api, schemas) {
  const { method, path, operation } = described;
  const parameters = [...described.parameters, ...described.shared];
  const [success] = Object.entries(operation.responses);
  const words = make("div", {},
    make("h3", {}, make("a", { href: `#${operation.operationId}` }, operation.summary)),
    make("span", { className: "path" }, badge(method), path),
    prose(operation.description),
    ...(parameters.length ? [make("h4", {}, "Parameters"), drawnParameters(parameters, schemas)] : []),
    ...drawnBody(operation, schemas),
    make("h4", {}, "Responses"),
    make("div", { className: "answers" }, ...drawnAnswers(operation, api, schemas)));
  const samples = make("div", { className: "samples" },
    sample("Request", curl(described)), answerSample(success), tryIt(described, token));
  return make("article", { id: operation.operationId }, words, samples);
}

function drawnParameters(parameters, schemas) {
  const items = parameters.map(({ name, in: place, schema, description, required }) => {
    const drawn = schemas.field(name, { ...schema, description }, required);
    drawn.querySelector(".name").after(make("span", { className: "type" }, place));
    return drawn;
  });
  return make("ul", { className: "fields" }, ...items);
}

function drawnBody(operation, schemas) {
  const body = bodyOf(operation);
  if (!body) return [];
  const fields = schemas.fields(body.content.schema);
  return [make("h4", {}, "Body"), fields ?? make("p", { className: "remark" }, body.kind)];
}

function drawnAnswers(operation, api, schemas) {
  return Object.entries(operation.responses).map(([status, given]) => {
    const answer = given.$ref ? api.components.responses[given.$ref.split("/").pop()] : given;
    const isGood = status < 400;
    const [content] = Object.values(answer.content ?? {});
    const fields = isGood && content?.schema ? schemas.fields(content.schema) : null;
    const title = make("span", { className: `status ${isGood ? "good" : "bad"}` }, status);
    if (isGood && !fields) return make("div", {}, title, answer.description);
    const summary = make("summary", {}, title, isGood ? answer.description : codes(content));
    return make("details", { className: "problem" }, summary,
      isGood ? fields : prose(answer.description));
  });
}

function codes(content) {
  return Object.keys(content?.examples ?? {}).join(", ");
}

function answerSample([status, answer]) {
  const [[kind, content] = []] = Object.entries(answer.content ?? {});
  if (!kind) return sample(`Response ${status}`, answer.description);
  if (typeof content.example === "object") return sample(`Response ${status}`, ...json(content.example));
  return sample(`Response ${status} · ${kind}`, content.example ?? answer.description);
}

function filter() {
  const wanted = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const entry of byId("contents").children) {
    const items = [...entry.querySelectorAll("li")];
    for (const item of items) {
      item.hidden = !wanted.every((word) => item.dataset.words.includes(word));
    }
    entry.hidden = items.every((item) => item.hidden);
  }
}

// Marks the visible operation in the list.
function watchPlace() {
  const links = new Map([...document.querySelectorAll("nav li a")].map((link) =>
    [link.getAttribute("href").slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      const link = links.get(target.id);
      link?.classList.toggle("here", isIntersecting);
      if (isIntersecting && link) keepInView(link);
    }
  }, { rootMargin: "-10% 0px -80% 0px" });
  for (const article of document.querySelectorAll("article")) seen.observe(article);
}

// Scrolls only the list, not the page.
function keepInView(link) {
  const list = document.querySelector("aside");
  const [box, at] = [list.getBoundingClientRect(), link.getBoundingClientRect()];
  if (at.top < box.top) list.scrollTop -= box.top - at.top;
  else if (at.bottom > box.bottom) list.scrollTop += at.bottom - box.bottom;
}

begin().catch((error) => {
  byId("trouble").textContent = `Cannot show the document: ${error.message}`;
  byId("trouble").hidden = false;
});
