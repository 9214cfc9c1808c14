// Settings of the user. The master stores them, so they are the same on every machine.

import { effect, type Signal, signal } from "@preact/signals";
import { get, send } from "./api";
import { toastError } from "./toasts";
import { user } from "./session";

interface StoredSetting {
    key: string;
    value?: string;
    storagePath?: string;
}

const STORAGE_PATH = "muster";
const WRITE_DELAY_MS = 500;

const stored = signal<Map<string, string> | undefined>(undefined);
const settings = new Map<string, Signal<unknown>>();
const unsaved = new Map<string, string>();
let timer: ReturnType<typeof setTimeout> | undefined;

async function readSettings(): Promise<void> {
    try {
        const { settings } = await get<{ settings: StoredSetting[] }>("/users/setting");
        const ours = settings.filter((one) => one.storagePath === STORAGE_PATH);
        stored.value = new Map(ours.map((one) => [one.key, one.value ?? ""]));
    } catch {
        stored.value = new Map(); // the page works without settings
    }
}

effect(() => {
    stored.value = undefined;
    if (user.value) void readSettings();
});

async function writeSettings(): Promise<void> {
    const settings = [...unsaved].map(([key, value]) => ({ storagePath: STORAGE_PATH, key, value }));
    unsaved.clear();
    try {
        await send("POST", "/users/setting", { settings });
    } catch (error) {
        toastError(error);
    }
}

function scheduleWrite(key: string, value: string): void {
    stored.peek()?.set(key, value);
    unsaved.set(key, value);
    clearTimeout(timer);
    timer = setTimeout(() => void writeSettings(), WRITE_DELAY_MS);
}

/** A setting as a signal. It has the value `initial` until the stored value is loaded, or if there is none. */
export function setting<T>(key: string, initial: T): Signal<T> {
    const found = settings.get(key);
    if (found) return found as Signal<T>;
    const value = signal<T>(initial);
    let lastText = JSON.stringify(initial);
    settings.set(key, value as Signal<unknown>);
    effect(() => {
        const text = stored.value?.get(key);
        if (text === undefined) return;
        try {
            lastText = text;
            value.value = JSON.parse(text) as T;
        } catch {
            // Another version of the page stored another format. The next change overwrites it.
        }
    });
    effect(() => {
        const text = JSON.stringify(value.value);
        if (text === lastText || !stored.peek()) return;
        lastText = text;
        scheduleWrite(key, text);
    });
    return value;
}
