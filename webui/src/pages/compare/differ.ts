// What differs between runs, in their settings and in their values. Pure.

import { metric, percent } from "../../lib/format";
import type { Json } from "../../lib/types";

export type Flat = Map<string, string>;

/** {a: {b: 1}} -> "a.b": "1"; lists are one value. */
export function flatten(value: Json, path = "", out: Flat = new Map()): Flat {
    if (value !== null && typeof value === "object" && !Array.isArray(value))
        for (const [key, one] of Object.entries(value)) flatten(one, path ? `${path}.${key}` : key, out);
    else out.set(path, typeof value === "string" ? value : JSON.stringify(value));
    return out;
}

/** A number with as many digits as one reads; all of them are in the title. */
export function short(value: string): string {
    const isLong = value.length > 8 && /^-?\d*\.?\d+(e[-+]?\d+)?$/.test(value);
    return isLong ? String(Number(Number(value).toPrecision(6))) : value;
}

export interface SettingRow {
    path: string;
    values: (string | undefined)[];
    differs: boolean;
}

export function sideBySide(all: readonly Flat[]): SettingRow[] {
    const paths = [...new Set(all.flatMap((one) => [...one.keys()]))];
    return paths.map((path) => {
        const values = all.map((one) => one.get(path));
        return { path, values, differs: new Set(values).size > 1 };
    });
}

/** "+0.012 (+3.1 %)", or "+8.9 (×90)". */
export function deltaText(value: number, base: number): string {
    const delta = value - base;
    const sign = delta > 0 ? "+" : delta < 0 ? "−" : "±";
    const times = value / base;
    const share =
        !Number.isFinite(times) || times < 0
            ? ""
            : times >= 10
              ? ` (×${metric(Math.round(times))})`
              : ` (${sign}${percent(Math.abs(delta / base))})`;
    return sign + metric(Math.abs(delta)) + share;
}
