// The theme: light, dark, or as the system prefers. The browser stores the choice.

import { effect, type ReadonlySignal, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const KEY = "muster-theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const systemIsDark = signal(system.matches);

function storedTheme(): Theme {
    const kept = localStorage.getItem(KEY);
    return kept === "light" || kept === "dark" ? kept : "system";
}

export const theme = signal<Theme>(storedTheme());

const dark = signal(false);
export const isDark: ReadonlySignal<boolean> = dark;

export function watchTheme(): void {
    system.addEventListener("change", () => (systemIsDark.value = system.matches));
    effect(() => {
        const chosen = theme.value;
        const isNow = chosen === "dark" || (chosen === "system" && systemIsDark.value);
        if (chosen === "system") localStorage.removeItem(KEY);
        else localStorage.setItem(KEY, chosen);
        document.documentElement.dataset["theme"] = isNow ? "dark" : "light";
        dark.value = isNow;
    });
}
