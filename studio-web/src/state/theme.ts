// Light or dark: as the system says, until a person chooses.
import type { Theme } from "../model/scale.ts";
import { Store } from "./store.ts";

const KEY = "poolgrad-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function chosen(): Theme | null {
  try {
    const text = localStorage.getItem(KEY);
    return text === "light" || text === "dark" ? text : null;
  } catch {
    return null;
  }
}

const current = (): Theme => chosen() ?? (system.matches ? "dark" : "light");

export const themeStore = new Store<{ theme: Theme }>({ theme: current() });

function apply(): void {
  document.documentElement.dataset.theme = current();
  themeStore.set({ theme: current() });
}

export function toggleTheme(): void {
  const next = current() === "dark" ? "light" : "dark";
  try { localStorage.setItem(KEY, next); } catch { /* the choice then lasts until reload */ }
  document.documentElement.dataset.theme = next;
  themeStore.set({ theme: next });
}

system.addEventListener("change", apply);
apply();
