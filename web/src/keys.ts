// Keys: `/` goes to the search field of the page, `?` lists the keys, `g` and a letter goes to a page.

import { useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";

export const PLACES: Record<string, { to: "/" | "/tasks" | "/submit" | "/market" | "/machines" | "/account"; text: string }> = {
  h: { to: "/", text: "Start page" },
  t: { to: "/tasks", text: "Tasks" },
  s: { to: "/submit", text: "Submit" },
  m: { to: "/machines", text: "My machines" },
  k: { to: "/market", text: "Market" },
  a: { to: "/account", text: "Account" },
};
const PAUSE = 1000;

export function useKeys() {
  const [isOpen, setOpen] = useState(false);
  const navigate = useNavigate();
  useEffect(() => {
    let going = 0;
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (target.closest("input, textarea, select, [contenteditable], [role=dialog]")) return;
      const place = Date.now() - going < PAUSE ? PLACES[event.key] : undefined;
      going = 0;
      if (place !== undefined) void navigate({ to: place.to });
      else if (event.key === "g") going = Date.now();
      else if (event.key === "?") setOpen(true);
      else if (event.key === "/") document.querySelector<HTMLElement>("[data-search]")?.focus();
      else return;
      event.preventDefault();
    };
    window.addEventListener("keydown", press);
    return () => { window.removeEventListener("keydown", press); };
  }, [navigate]);
  return { isOpen, open: () => { setOpen(true); }, close: () => { setOpen(false); } };
}
