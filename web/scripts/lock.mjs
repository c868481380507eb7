// Completes package-lock.json after `npm install`.
//
// Some registries lack the packages for other platforms. npm then leaves these optional packages out
// of the lock, and `npm ci` refuses a lock without them. They are added by name and version; on the
// platform that needs one, npm fetches it from the registry there.

import { readFileSync, writeFileSync } from "node:fs";

const path = new URL("../package-lock.json", import.meta.url);
const lock = JSON.parse(readFileSync(path, "utf8"));
const SYSTEMS = ["android", "darwin", "freebsd", "linux", "win32"];
const PROCESSORS = ["arm64", "x64", "arm", "ia32", "wasm32"];

for (const entry of Object.values(lock.packages)) {
  for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
    const key = `node_modules/${name}`;
    if (lock.packages[key] !== undefined) continue;
    const system = SYSTEMS.find((each) => name.includes(each));
    const processor = PROCESSORS.find((each) => name.includes(each));
    lock.packages[key] = {
      version,
      ...(processor === undefined ? {} : { cpu: [processor] }),
      ...(entry.dev ? { dev: true } : {}),
      optional: true,
      ...(system === undefined ? {} : { os: [system] }),
    };
  }
}
const sorted = Object.entries(lock.packages).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
lock.packages = Object.fromEntries(sorted);
writeFileSync(path, `${JSON.stringify(lock, null, 2)}\n`);
