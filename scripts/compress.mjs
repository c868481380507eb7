// Writes a copy of each file of a folder in Brotli and in gzip: `node compress.mjs FOLDER`.
// The same input gives the same bytes. A copy that saves little is left out.
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const LEAST_BYTES = 256;
const WORTH = 0.95;
const TEXT = /\.(html|css|js|json|svg)$/;

const folder = process.argv[2];
for (const name of readdirSync(folder, { recursive: true })) {
  const path = join(folder, name);
  if (!TEXT.test(path) || !statSync(path).isFile()) continue;
  const data = readFileSync(path);
  if (data.length < LEAST_BYTES) continue;
  const quality = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY };
  const copies = { ".br": brotliCompressSync(data, { params: quality }), ".gz": gzipSync(data, { level: 9 }) };
  for (const [suffix, copy] of Object.entries(copies)) {
    if (copy.length < data.length * WORTH) writeFileSync(path + suffix, copy);
  }
}
