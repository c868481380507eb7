// Schemas as lists of fields, expanded one level at a time.

import { inline, make } from "./docs-draw.js";

export class Schemas {
  constructor(components) {
    this.components = components;
  }

  resolved(schema) {
    const name = schema.$ref?.split("/").pop();
    return name ? { name, ...this.components[name], ...rest(schema) } : schema;
  }

  // A short name of a type: "list of TaskView", "whole number, 1 to 64, or null".
  type(given) {
    const schema = this.resolved(given);
    if (schema.anyOf ?? schema.oneOf) return this.choice(schema);
    if (schema.const !== undefined) return JSON.stringify(schema.const);
    if (schema.type === "array") return `list of ${schema.items ? this.type(schema.items) : "values"}`;
    const said = schema.name ?? WORDS[schema.format] ?? WORDS[schema.contentEncoding] ??
      WORDS[schema.type] ?? "anything";
    return `${said}${bounds(schema)}`;
  }

  choice(schema) {
    const choices = (schema.anyOf ?? schema.oneOf).map((each) => this.type(each));
    return [...choices.filter((each) => each !== "null"), ...choices.filter((each) => each === "null")]
      .join(" or ");
  }

  // The fields of an object, a list of objects, or a choice between objects.
  fields(given) {
    const schema = this.resolved(given);
    const several = schema.anyOf ?? schema.oneOf;
    if (several) {
      const drawn = several.map((each) => this.labelled(each, several.length)).filter(Boolean);
      return drawn.length ? make("div", {}, ...drawn) : null;
    }
    if (schema.type === "array") return schema.items ? this.fields(schema.items) : null;
    if (schema.enum) return make("p", {}, ...spaced(schema.enum));
    if (!schema.properties) return null;
    const must = new Set(schema.required ?? []);
    const items = Object.entries(schema.properties).map(([name, field]) =>
      this.field(name, field, must.has(name)));
    return make("ul", { className: "fields" }, ...items);
  }

  labelled(schema, count) {
    const drawn = this.fields(schema);
    if (!drawn || count === 1) return drawn;
    return make("div", {}, make("p", { className: "remark" }, this.type(schema)), drawn);
  }

  field(name, given, isRequired) {
    const schema = this.resolved(given);
    const item = make("li", {},
      make("code", { className: "name" }, name),
      make("span", { className: "type" }, this.type(given)),
      isRequired ? make("span", { className: "must" }, "required") : null,
      schema.default === undefined ? null
        : make("span", { className: "type" }, `default ${JSON.stringify(schema.default)}`));
    const said = given.description ?? (schema.name ? "" : schema.description);
    if (said) item.append(make("p", {}, ...inline(said)));
    if (this.hasFields(given)) item.append(this.folded(given));
    return item;
  }

  hasFields(given) {
    const schema = this.resolved(given);
    const inner = schema.anyOf ?? schema.oneOf;
    if (inner) return inner.some((each) => this.hasFields(each));
    if (schema.type === "array") return schema.items !== undefined && this.hasFields(schema.items);
    return schema.properties !== undefined || (schema.enum?.length ?? 0) > 1;
  }

  // Rendered when opened: some types are large and used in many places.
  folded(schema) {
    const shown = make("details", {}, make("summary", {}, "more"));
    shown.addEventListener("toggle", () => {
      if (shown.open && shown.children.length === 1) shown.append(this.fields(schema) ?? "");
    });
    return shown;
  }
}

const WORDS = {
  integer: "whole number",
  number: "number",
  string: "text",
  boolean: "true or false",
  object: "object",
  null: "null",
  "date-time": "time (RFC 3339)",
  date: "date",
  binary: "bytes",
  base64: "bytes (base64)",
};

function rest({ $ref, ...others }) {
  return others;
}

function bounds(schema) {
  const low = schema.minimum ?? schema.exclusiveMinimum ?? schema.minLength;
  const most = schema.maximum ?? schema.exclusiveMaximum ?? schema.maxLength;
  const high = most > Number.MAX_SAFE_INTEGER ? undefined : most; // the limit of a column
  const unit = schema.maxLength !== undefined ? " characters" : "";
  if (high === undefined) return low ? `, from ${low.toLocaleString("en")}${unit}` : "";
  const end = high.toLocaleString("en");
  return low ? `, ${low.toLocaleString("en")} to ${end}${unit}` : `, up to ${end}${unit}`;
}

function spaced(values) {
  return values.flatMap((value) => [make("code", {}, String(value)), " "]);
}
