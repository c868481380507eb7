import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// Everything is a file of its own with a hash in its name: the page has no inline script or style,
// so that it works under `default-src 'self'`.
export default defineConfig({
  plugins: [react(), tailwindcss()],
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    reportCompressedSize: false,
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
