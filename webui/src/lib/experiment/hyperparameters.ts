// Hyperparameters as flat names and values, and their correlation with a metric.

import { isObject } from "../json";
import type { Json } from "../types";

export type FlatValues = Map<string, number | string>;

/** {"optimizer": {"lr": 1}} as "optimizer.lr" -> 1. */
export function flatten(value: Json | undefined, prefix = "", out: FlatValues = new Map()): FlatValues {
    if (isObject(value))
        for (const [key, one] of Object.entries(value))
            flatten(one, prefix ? `${prefix}.${key}` : key, out);
    else if (typeof value === "number" || typeof value === "string") out.set(prefix, value);
    else if (value !== undefined) out.set(prefix, JSON.stringify(value));
    return out;
}

/** The names of the values that differ between trials. */
export function varyingNames(points: readonly FlatValues[]): string[] {
    const names = new Set(points.flatMap((point) => [...point.keys()]));
    return [...names].filter(
        (name) => new Set(points.map((point) => String(point.get(name)))).size > 1,
    );
}

// --- correlation ---------------------------------------------------------------------------------

/** The ranks of the values from 1. Equal values get the mean of their ranks. */
export function ranks(values: readonly number[]): number[] {
    const order = values.map((_, i) => i).sort((a, b) => values[a]! - values[b]!);
    const out = new Array<number>(values.length).fill(0);
    for (let i = 0; i < order.length;) {
        let end = i;
        while (end < order.length && values[order[end]!] === values[order[i]!]) end++;
        for (let k = i; k < end; k++) out[order[k]!] = (i + 1 + end) / 2;
        i = end;
    }
    return out;
}

const mean = (values: readonly number[]) =>
    values.reduce((sum, value) => sum + value, 0) / values.length;

/** Spearman's rank correlation, -1 to 1; 0 where one of them does not vary. */
export function spearman(x: readonly number[], y: readonly number[]): number {
    const [a, b] = [ranks(x), ranks(y)];
    const [ma, mb] = [mean(a), mean(b)];
    let [ab, aa, bb] = [0, 0, 0];
    for (let i = 0; i < a.length; i++) {
        ab += (a[i]! - ma) * (b[i]! - mb);
        aa += (a[i]! - ma) ** 2;
        bb += (b[i]! - mb) ** 2;
    }
    return aa && bb ? ab / Math.sqrt(aa * bb) : 0;
}

/** The correlation ratio of words with the ranks of y, 0 to 1. */
export function correlationRatio(words: readonly string[], y: readonly number[]): number {
    const r = ranks(y);
    const all = mean(r);
    const groups = new Map<string, number[]>();
    words.forEach((word, i) => groups.set(word, [...(groups.get(word) ?? []), r[i]!]));
    let between = 0;
    for (const group of groups.values()) between += group.length * (mean(group) - all) ** 2;
    const total = r.reduce((sum, value) => sum + (value - all) ** 2, 0);
    return total ? Math.sqrt(between / total) : 0;
}
