// The arithmetic of charts. Pure.

import type { Series } from "./types";

/** So many colours there are in tokens.css, --c0 and on. */
export const COLOURS = 10;
const DASHES: readonly (readonly number[])[] = [[], [7, 4], [2, 3], [9, 3, 2, 3]];

export const colourOf = (kind: number) => `--c${kind % COLOURS}`;
export const dashOf = (kind: number) => DASHES[kind % DASHES.length]!;

export interface Line {
    id: string;
    label: string;
    /** Growing. */
    x: ArrayLike<number>;
    /** NaN where there is none. */
    y: ArrayLike<number>;
    /** Of how many points these are what is shown. */
    total?: number;
    /** Which colour and dash; by order without. */
    kind?: number;
    /** Drawn faint. */
    dim?: boolean;
}

export interface Range {
    from: number;
    to: number;
}

export type XKind = "step" | "time" | "elapsed" | "samples";

/** The wire writes what is no number as a word. */
export function toNumbers(values: readonly (number | string | null)[]): Float64Array {
    return Float64Array.from(values, (value) => (value === null ? NaN : Number(value)));
}

/** A series of the master as a line. `start`: seconds since 1970; `batch`: samples of a step. */
export function lineOf(
    series: Series,
    kind: XKind,
    more: Omit<Line, "x" | "y"> & { start?: number; batch?: number },
): Line {
    const { start, batch = 1, ...rest } = more;
    const zero = start ?? series.times[0] ?? 0;
    const x =
        kind === "time"
            ? series.times
            : kind === "elapsed"
              ? series.times.map((time) => time - zero)
              : kind === "samples"
                ? series.steps.map((step) => step * batch)
                : series.steps;
    return { total: series.total, ...rest, x, y: toNumbers(series.values) };
}

/** An average that follows, without the pull to zero at its beginning; 0 changes nothing. */
export function smoothed(y: ArrayLike<number>, weight: number): Float64Array {
    const out = new Float64Array(y.length);
    let last = 0;
    let sum = 0; // of the weights so far
    for (let i = 0; i < y.length; i++) {
        const value = y[i]!;
        if (!Number.isFinite(value)) {
            out[i] = NaN;
            continue;
        }
        last = last * weight + value * (1 - weight);
        sum = sum * weight + (1 - weight);
        out[i] = last / sum;
    }
    return out;
}

/** The first place whose x is at least `value`. */
export function lowerBound(x: ArrayLike<number>, value: number): number {
    let low = 0;
    let high = x.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (x[middle]! < value) low = middle + 1;
        else high = middle;
    }
    return low;
}

/** The place nearest to `value`; -1 without points. */
export function nearest(x: ArrayLike<number>, value: number): number {
    const at = lowerBound(x, value);
    if (at === x.length) return at - 1;
    return at > 0 && value - x[at - 1]! < x[at]! - value ? at - 1 : at;
}

/** The places of a range, and one more at both sides so that lines reach the edge. */
export function within(x: ArrayLike<number>, range: Range | null): readonly [number, number] {
    if (!range) return [0, x.length];
    const first = lowerBound(x, range.from);
    const end = lowerBound(x, range.to);
    return [Math.max(0, first - 1), Math.min(x.length, end + 2)];
}

const isUsable = (value: number, log: boolean) => Number.isFinite(value) && (!log || value > 0);

function extremes(
    lines: readonly Line[],
    log: boolean,
    each: (line: Line) => Iterable<number>,
): Range | null {
    let from = Infinity;
    let to = -Infinity;
    for (const line of lines)
        for (const value of each(line)) {
            if (!isUsable(value, log)) continue;
            if (value < from) from = value;
            if (value > to) to = value;
        }
    return from <= to ? { from, to } : null;
}

/** Never empty, so that there is something to draw on. */
function widen(range: Range | null, log: boolean, share: number): Range {
    if (!range) return log ? { from: 0.1, to: 1 } : { from: 0, to: 1 };
    const { from, to } = range;
    if (log) {
        const factor = from === to ? 2 : (to / from) ** share;
        return { from: from / factor, to: to * factor };
    }
    const room = from === to ? Math.abs(from) * 0.1 || 1 : (to - from) * share;
    return { from: from - room, to: to + room };
}

export function xRange(lines: readonly Line[], log: boolean): Range {
    function* ends({ x }: Line) {
        if (!log) {
            if (x.length) yield x[0]!;
        } else {
            yield* [x[lowerBound(x, Number.MIN_VALUE)] ?? NaN];
        }
        if (x.length) yield x[x.length - 1]!;
    }
    const found = extremes(lines, log, ends);
    return widen(found, log, found && found.from === found.to ? 0.05 : 0);
}

function* valuesSeen({ x, y }: Line, seen: Range | null): Iterable<number> {
    const [first, end] = within(x, seen);
    for (let i = first; i < end; i++) yield y[i]!;
}

/** Of what is seen of the lines. */
export function yRange(lines: readonly Line[], seen: Range | null, log: boolean): Range {
    return widen(extremes(lines, log, (line) => valuesSeen(line, seen)), log, 0.05);
}

const MANY = 40; // values, of which some can be said to be unlike the others
const AROUND = 4; // neighbours at either side of a value
const FAR = 3; // times the distance from their neighbours that nine of ten values keep

/** Every value as the middle one of itself and its neighbours: spikes are gone, steps are not. */
function medians(values: readonly number[]): number[] {
    return values.map((_, i) => {
        const some = values.slice(Math.max(0, i - AROUND), i + AROUND + 1).sort((a, b) => a - b);
        return some[some.length >> 1]!;
    });
}

export interface CalmRange {
    range: Range;
    /** So many values lie outside. */
    beyond: number;
}

/** A range of y that is filled by all but spikes, where there are such; else undefined. */
export function calmRange(lines: readonly Line[], seen: Range | null): CalmRange | undefined {
    const all = lines.map((line) => [...valuesSeen(line, seen)].filter(Number.isFinite));
    const values = all.flat();
    if (values.length < MANY) return undefined;
    const calm = all.flatMap(medians);
    const usual = Float64Array.from(values, (value, i) => Math.abs(value - calm[i]!)).sort();
    const room = FAR * usual[Math.floor(0.9 * usual.length)]!;
    const from = calm.reduce((least, value) => Math.min(least, value), Infinity) - room;
    const to = calm.reduce((most, value) => Math.max(most, value), -Infinity) + room;
    const inside = values.filter((value) => value >= from && value <= to);
    const beyond = values.length - inside.length;
    if (room === 0 || beyond === 0) return undefined;
    const range = inside.reduce(
        (found, value) => ({ from: Math.min(found.from, value), to: Math.max(found.to, value) }),
        { from: Infinity, to: -Infinity },
    );
    return { range: widen(range, false, 0.05), beyond };
}

const LEAST = 3; // ticks from which on one can read an axis

/** Round numbers in a range, about `most` of them, and as many as make an axis of it. */
export function ticks(range: Range, most: number, log: boolean): number[] {
    for (let wanted = most;; wanted++) {
        const found = log ? logTicks(range, wanted) : roundTicks(range, wanted);
        if (found.length >= LEAST || wanted > most + LEAST) return found;
    }
}

function roundTicks({ from, to }: Range, most: number): number[] {
    const rough = (to - from) / Math.max(1, most);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough * 0.999)!;
    const found: number[] = [];
    for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; i++)
        found.push(Number((i * step).toPrecision(12)));
    return found;
}

function logTicks({ from, to }: Range, most: number): number[] {
    const low = Math.floor(Math.log10(from));
    const high = Math.ceil(Math.log10(to));
    const every = Math.max(1, Math.ceil((high - low) / most));
    const between = high - low <= 2 ? [1, 2, 5] : [1];
    const found: number[] = [];
    for (let power = low; power <= high; power += every)
        for (const one of between) {
            const value = Number((one * 10 ** power).toPrecision(12));
            if (value >= from * 0.999 && value <= to * 1.001) found.push(value);
        }
    return found;
}

const SPANS = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
    172800, 604800, 2592000,
];

/** Times in seconds: at whole minutes, hours and days. */
export function timeTicks({ from, to }: Range, most: number, zone: number): number[] {
    const rough = (to - from) / Math.max(1, most);
    const step = rough < 1 ? 0 : (SPANS.find((span) => span >= rough) ?? SPANS.at(-1)!);
    if (!step) return ticks({ from, to }, most, false);
    const found: number[] = [];
    for (let i = Math.ceil((from - zone) / step); i * step + zone <= to; i++)
        found.push(i * step + zone);
    return found.length < LEAST && most <= 2 * LEAST ? timeTicks({ from, to }, most + 1, zone) : found;
}

/** "2,000 of 1,000,000 points shown"; "" when all are. */
export function thinnedText(lines: readonly Line[]): string {
    const shown = lines.reduce((sum, line) => sum + line.x.length, 0);
    const total = lines.reduce((sum, line) => sum + (line.total ?? line.x.length), 0);
    const said = (value: number) => value.toLocaleString("en");
    return total > shown ? `${said(shown)} of ${said(total)} points shown` : "";
}
