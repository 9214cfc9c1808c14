// Differences between runs, in their settings and their metrics. Pure functions.

import { formatMetric, percent } from "../../lib/format";
import type { Json } from "../../lib/types";

export type FlatSettings = Map<string, string>;

/** {a: {b: 1}} -> "a.b": "1". A list is one value. */
export function flattenSettings(value: Json, path = "", out: FlatSettings = new Map()): FlatSettings {
    if (value !== null && typeof value === "object" && !Array.isArray(value))
        for (const [key, one] of Object.entries(value)) flattenSettings(one, path ? `${path}.${key}` : key, out);
    else out.set(path, typeof value === "string" ? value : JSON.stringify(value));
    return out;
}

/** A number with at most six digits. The tooltip has all digits. */
export function shortNumber(value: string): string {
    const isLong = value.length > 8 && /^-?\d*\.?\d+(e[-+]?\d+)?$/.test(value);
    return isLong ? String(Number(Number(value).toPrecision(6))) : value;
}

export interface SettingRow {
    path: string;
    values: (string | undefined)[];
    differs: boolean;
}

export function compareSettings(all: readonly FlatSettings[]): SettingRow[] {
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
              ? ` (×${formatMetric(Math.round(times))})`
              : ` (${sign}${percent(Math.abs(delta / base))})`;
    return sign + formatMetric(Math.abs(delta)) + share;
}
