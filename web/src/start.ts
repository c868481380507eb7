// The first script that runs. The session decides what the first page is, so it is asked for before
// the rest is evaluated; the browser fetches both at the same time (see vite.config.ts).

import { refresh } from "./api/session";
import "./styles.css"; // not with main.tsx, which would wait for it

void refresh().catch(() => undefined);
const drawn = () => void import("./main");
if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", drawn, { once: true });
else drawn();
