// Numbers and times as text. Pure functions, except for relative times, which read the clock.

import { type ReadonlySignal, signal } from "@preact/signals";

const currentTime = signal(Date.now());

/** Milliseconds since 1970, updated every second. */
export const now: ReadonlySignal<number> = currentTime;

if (typeof document !== "undefined")
    setInterval(() => {
        if (!document.hidden) currentTime.value = Date.now();
    }, 1000);

const integerFormat = new Intl.NumberFormat("en");
const dayFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const dateFormat = new Intl.DateTimeFormat("en-GB", {
    day: "numeric",
    month: "short",
    year: "numeric",
});
const timeFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const fullFormat = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

/** 1234567 -> "1,234,567". */
export function number(value: number): string {
    return integerFormat.format(value);
}

/** A measured value with its significant digits: 0.02345678 -> "0.02346". */
export function formatMetric(value: number | string | null | undefined): string {
    if (value === null || value === undefined || value === "") return "–";
    const parsed = typeof value === "string" ? Number(value) : value;
    if (Number.isNaN(parsed)) return String(value);
    if (!Number.isFinite(parsed)) return parsed > 0 ? "∞" : "−∞";
    const size = Math.abs(parsed);
    if (size !== 0 && (size >= 1e6 || size < 1e-4))
        return parsed.toExponential(3).replace("e+", "e").replace(/\.?0+e/, "e");
    if (Number.isInteger(parsed)) return number(parsed);
    return String(Number(parsed.toPrecision(size >= 1000 ? 6 : 4)));
}

const compactFormat = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 3 });

/** 1500000 -> "1.5M", for axes and legends; a value below 10,000 as formatMetric() writes it. */
export function compact(value: number | null): string {
    const size = Math.abs(value ?? 0);
    return size < 10_000 || size >= 1e15 ? formatMetric(value) : compactFormat.format(value!);
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

/** Seconds in the two largest units: "1h 04m", "12s", "3d 2h". */
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

/** A time of the API as milliseconds since 1970; NaN without one. */
export function millis(time: string | number | null | undefined): number {
    return typeof time === "number" ? time : time ? Date.parse(time) : NaN;
}

/** "14:03" today, "3 Nov 14:03" this year, otherwise "3 Nov 2025". */
export function shortTime(time: string | number | null | undefined): string {
    const at = millis(time);
    if (Number.isNaN(at)) return "–";
    const then = new Date(at);
    const today = new Date(currentTime.peek());
    if (then.toDateString() === today.toDateString()) return timeFormat.format(then);
    if (then.getFullYear() !== today.getFullYear()) return dateFormat.format(then);
    return `${dayFormat.format(then)} ${timeFormat.format(then)}`;
}

/** The full date and time, for tooltips. */
export function fullTime(time: string | number | null | undefined): string {
    const at = millis(time);
    return Number.isNaN(at) ? "" : fullFormat.format(at);
}

/** The time relative to now: "3m ago", "in 2h". It reads the signal `now`. */
export function relativeTime(time: string | number | null | undefined): string {
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

/** An estimated time: "in 2h", or "soon" if it is imminent or past. */
export function dueTime(time: string | number | null | undefined): string {
    const text = relativeTime(time);
    return text === "just now" || text.endsWith(" ago") ? "soon" : text;
}

/** "STATE_STOPPING_COMPLETED" -> "STOPPING_COMPLETED". */
export function stateName(state: string): string {
    return state.replace(/^(STATE|GENERIC_TASK_STATE|WORKSPACE_STATE)_/, "");
}
