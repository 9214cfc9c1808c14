// Numbers and times for people. Pure, but for the clock that relative times read.

import { type ReadonlySignal, signal } from "@preact/signals";

const present = signal(Date.now());

/** Milliseconds since 1970, anew every second for whoever reads it. */
export const now: ReadonlySignal<number> = present;

if (typeof document !== "undefined")
    setInterval(() => {
        if (!document.hidden) present.value = Date.now();
    }, 1000);

const whole = new Intl.NumberFormat("en");
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const dayOfYear = new Intl.DateTimeFormat("en-GB", {
    day: "numeric",
    month: "short",
    year: "numeric",
});
const hour = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const exactly = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

/** 1234567 -> "1,234,567". */
export function number(value: number): string {
    return whole.format(value);
}

/** A measured value, with as many digits as say something: 0.02345678 -> "0.02346". */
export function metric(value: number | string | null | undefined): string {
    if (value === null || value === undefined || value === "") return "–";
    const given = typeof value === "string" ? Number(value) : value;
    if (Number.isNaN(given)) return String(value);
    if (!Number.isFinite(given)) return given > 0 ? "∞" : "−∞";
    const size = Math.abs(given);
    if (size !== 0 && (size >= 1e6 || size < 1e-4))
        return given.toExponential(3).replace("e+", "e").replace(/\.?0+e/, "e");
    if (Number.isInteger(given)) return number(given);
    return String(Number(given.toPrecision(size >= 1000 ? 6 : 4)));
}

const compactly = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 3 });

/** 1500000 -> "1.5M", for the ticks of both axes and the legend; less than 10,000 as `metric` says it. */
export function compact(value: number | null): string {
    const size = Math.abs(value ?? 0);
    return size < 10_000 || size >= 1e15 ? metric(value) : compactly.format(value!);
}

export function percent(share: number): string {
    const points = 100 * share;
    return `${points > 0 && points < 10 ? points.toFixed(1) : Math.floor(points)} %`;
}

export function bytes(value: number | string): string {
    let left = Number(value);
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = 0;
    for (; left >= 1024 && unit + 1 < units.length; unit++) left /= 1024;
    return `${left >= 100 || unit === 0 ? Math.round(left) : left.toFixed(1)} ${units[unit]}`;
}

/** count(1, "trial") -> "1 trial", count(2, "trial") -> "2 trials". */
export function count(value: number, one: string, many = `${one}s`): string {
    return `${number(value)} ${value === 1 ? one : many}`;
}

/** Seconds as the two units that matter: "1h 04m", "12s", "3d 2h". */
export function duration(seconds: number | null | undefined): string {
    if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
    const s = Math.max(0, seconds);
    if (s < 1) return `${Math.round(1000 * s)}ms`;
    if (s < 60) return `${s < 10 ? Number(s.toFixed(1)) : Math.floor(s)}s`;
    const pad = (value: number) => String(Math.floor(value)).padStart(2, "0");
    if (s < 3600) return `${Math.floor(s / 60)}m ${pad(s % 60)}s`;
    if (s < 86400) return `${Math.floor(s / 3600)}h ${pad((s % 3600) / 60)}m`;
    return `${Math.floor(s / 86400)}d ${Math.floor((s % 86400) / 3600)}h`;
}

/** Milliseconds since 1970 of a time of the wire; NaN without one. */
export function millis(time: string | number | null | undefined): number {
    return typeof time === "number" ? time : time ? Date.parse(time) : NaN;
}

/** When: "14:03" today, "3 Nov 14:03" this year, else "3 Nov 2025". */
export function clock(time: string | number | null | undefined): string {
    const at = millis(time);
    if (Number.isNaN(at)) return "–";
    const then = new Date(at);
    const today = new Date(present.peek());
    if (then.toDateString() === today.toDateString()) return hour.format(then);
    if (then.getFullYear() !== today.getFullYear()) return dayOfYear.format(then);
    return `${day.format(then)} ${hour.format(then)}`;
}

/** The whole time, for titles. */
export function fullTime(time: string | number | null | undefined): string {
    const at = millis(time);
    return Number.isNaN(at) ? "" : exactly.format(at);
}

/** How long ago, or in how long: "3m ago", "in 2h". Reads `now`. */
export function since(time: string | number | null | undefined): string {
    const at = millis(time);
    if (Number.isNaN(at)) return "–";
    const s = (now.value - at) / 1000;
    const size = Math.abs(s);
    if (size < 5) return "just now";
    const text =
        size < 60
            ? `${Math.floor(size)}s`
            : size < 3600
              ? `${Math.floor(size / 60)}m`
              : size < 86400
                ? `${Math.floor(size / 3600)}h`
                : `${Math.floor(size / 86400)}d`;
    return s > 0 ? `${text} ago` : `in ${text}`;
}

/** When something is foreseen to begin: "in 2h"; what is about to, or is late, begins "soon". */
export function due(time: string | number | null | undefined): string {
    const text = since(time);
    return text === "just now" || text.endsWith(" ago") ? "soon" : text;
}

/** "STATE_STOPPING_COMPLETED" -> "STOPPING_COMPLETED". */
export function stateWord(state: string): string {
    return state.replace(/^(STATE|GENERIC_TASK_STATE|WORKSPACE_STATE)_/, "");
}
