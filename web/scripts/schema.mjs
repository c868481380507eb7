// Writes src/api/schema.d.ts from the server's own OpenAPI document.
//
// `node scripts/schema.mjs [FILE]`: without a file, the project's Python prints the document.
// Amounts in micro-credits are exact integers: `src/api/exact.ts` reads them as bigint, so they
// have that type here.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import openapiTS, { astToString } from "openapi-typescript";

const web = dirname(dirname(fileURLToPath(import.meta.url)));
const own = join(web, "..", ".venv", "bin", "python");
const python = process.env.PYTHON ?? (existsSync(own) ? own : "python3");

function readDocument() {
  if (process.argv[2] !== undefined) return readFileSync(process.argv[2], "utf8");
  return execFileSync(python, [join(web, "..", "scripts", "openapi.py")], { maxBuffer: 2 ** 26 });
}

const ast = await openapiTS(JSON.parse(readDocument().toString()), { defaultNonNullable: false });
const types = astToString(ast).replace(
  /^(\s+\w*_micro(?:_per_hour)?\??: )number( \| null)?;$/gm,
  (_, name, orNull) => `${name}bigint${orNull ?? ""};`,
);
writeFileSync(join(web, "src", "api", "schema.d.ts"), types);
