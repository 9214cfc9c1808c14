// What the page keeps for its user, by the settings of the API: the same on every machine.

import { effect, type Signal, signal } from "@preact/signals";
import { get, send } from "./api";
import { toastError } from "./notices";
import { user } from "./session";

interface Kept {
    key: string;
    value?: string;
    storagePath?: string;
}

const PATH = "muster";
const QUIET_MS = 500;

const known = signal<Map<string, string> | undefined>(undefined);
const made = new Map<string, Signal<unknown>>();
const unsaved = new Map<string, string>();
let timer: ReturnType<typeof setTimeout> | undefined;

async function read(): Promise<void> {
    try {
        const { settings } = await get<{ settings: Kept[] }>("/users/setting");
        const ours = settings.filter((one) => one.storagePath === PATH);
        known.value = new Map(ours.map((one) => [one.key, one.value ?? ""]));
    } catch {
        known.value = new Map(); // the page works without
    }
}

effect(() => {
    known.value = undefined;
    if (user.value) void read();
});

async function write(): Promise<void> {
    const settings = [...unsaved].map(([key, value]) => ({ storagePath: PATH, key, value }));
    unsaved.clear();
    try {
        await send("POST", "/users/setting", { settings });
    } catch (error) {
        toastError(error);
    }
}

function keep(key: string, value: string): void {
    known.peek()?.set(key, value);
    unsaved.set(key, value);
    clearTimeout(timer);
    timer = setTimeout(() => void write(), QUIET_MS);
}

/** A value by that name; `initial` until the user's own is known, and where he has none. */
export function setting<T>(key: string, initial: T): Signal<T> {
    const found = made.get(key);
    if (found) return found as Signal<T>;
    const value = signal<T>(initial);
    let stored = JSON.stringify(initial);
    made.set(key, value as Signal<unknown>);
    effect(() => {
        const text = known.value?.get(key);
        if (text === undefined) return;
        try {
            stored = text;
            value.value = JSON.parse(text) as T;
        } catch {
            // Kept by a page that wrote it otherwise; it is written anew with the next change.
        }
    });
    effect(() => {
        const text = JSON.stringify(value.value);
        if (text === stored || !known.peek()) return;
        stored = text;
        keep(key, text);
    });
    return value;
}
