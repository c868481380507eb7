import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { type Plugin, defineConfig } from "vite";

/** Lets the browser fetch what start.ts imports while it fetches start.ts. */
function preloadMain(): Plugin {
  return {
    name: "preload-main",
    transformIndexHtml: {
      order: "post",
      handler: (html, { bundle }) => {
        const chunks = Object.values(bundle ?? {}).filter((each) => each.type === "chunk");
        const main = chunks.find((chunk) => chunk.facadeModuleId?.endsWith("/src/main.tsx"));
        const files = new Set(main === undefined ? [] : [main.fileName]);
        for (const file of files) chunks.find((chunk) => chunk.fileName === file)?.imports.forEach((each) => files.add(each));
        const tags = [...files]
          .filter((file) => !html.includes(file))
          .map((file) => ({ tag: "link", attrs: { rel: "modulepreload", crossorigin: true, href: `/${file}` }, injectTo: "head" as const }));
        // It needs neither the rest of the page nor its styles.
        return { html: html.replace('<script type="module"', '<script type="module" async'), tags };
      },
    },
  };
}

const SESSION = /\/src\/api\/(session|exact|problem)\.ts$/;
const FRAME = /node_modules\/(react|react-dom|scheduler|use-sync-external-store|openapi-fetch|@tanstack\/(react-router|router-core|history|react-store|store|query-core|react-query))\/|\/src\/components\/(basics|icons|now)\.tsx?$/;

// Everything is a file of its own with a hash in its name: the page has no inline script or style,
// so that it works under `default-src 'self'`.
export default defineConfig({
  plugins: [react(), tailwindcss(), preloadMain()],
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    reportCompressedSize: false,
    // What every page needs is one file: each takes time of its own, on a slow processor 10 ms.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: "session", test: SESSION, priority: 1 }, { name: "frame", test: FRAME }] } } },
  },
  server: {
    proxy: Object.fromEntries(
      ["/v1", "/docs", "/device", "/pages", "/schema", "/healthz", "/readyz"].map((path) => [
        path,
        process.env.POTLUCK_URL ?? "http://127.0.0.1:8470",
      ]),
    ),
  },
});
