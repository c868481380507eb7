// Light or dark: as the system has it, until the reader chooses. A cookie keeps the choice; the page
// stores nothing else.

import { useSyncExternalStore } from "react";

export type Theme = "light" | "dark";
const NAME = "potluck_theme";
const system = window.matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set<() => void>();

function chosen(): Theme | null {
  const match = new RegExp(`(?:^|; )${NAME}=(light|dark)`).exec(document.cookie);
  return match === null ? null : (match[1] as Theme);
}

const current = (): Theme => chosen() ?? (system.matches ? "dark" : "light");

function apply() {
  document.documentElement.dataset.theme = current();
  for (const listener of listeners) listener();
}

export function startTheme() {
  apply();
  system.addEventListener("change", apply);
}

export function chooseTheme(theme: Theme) {
  const isSystem = theme === (system.matches ? "dark" : "light");
  const age = isSystem ? 0 : 366 * 86_400;
  document.cookie = `${NAME}=${theme}; Path=/; SameSite=Strict; Max-Age=${String(age)}`;
  apply();
}

export const useTheme = (): Theme =>
  useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, current);
