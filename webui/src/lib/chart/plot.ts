// Computations for charts: ranges, ticks, smoothing. Pure functions.

import type { Series } from "../types";

/** The number of colours --c0, --c1, ... in style/tokens.css. */
export const COLOURS = 10;
const DASHES: readonly (readonly number[])[] = [[], [7, 4], [2, 3], [9, 3, 2, 3]];

export const colourOf = (index: number) => `--c${index % COLOURS}`;
export const dashOf = (index: number) => DASHES[index % DASHES.length]!;

export interface Line {
    id: string;
    label: string;
    /** Ascending. */
    x: ArrayLike<number>;
    /** NaN where a value is missing. */
    y: ArrayLike<number>;
    /** The number of points before thinning. */
    total?: number;
    /** Selects colour and dash; by default the index of the line. */
    styleIndex?: number;
    /** The line is drawn faint. */
    dim?: boolean;
}

export interface Range {
    from: number;
    to: number;
}

export type XKind = "step" | "time" | "elapsed" | "samples";

/** The API writes NaN and infinities as words. */
export function toNumbers(values: readonly (number | string | null)[]): Float64Array {
    return Float64Array.from(values, (value) => (value === null ? NaN : Number(value)));
}

/** A series of the master as a line. `start`: seconds since 1970; `batch`: samples per step. */
export function lineFromSeries(
    series: Series,
    xKind: XKind,
    more: Omit<Line, "x" | "y"> & { start?: number; batch?: number },
): Line {
    const { start, batch = 1, ...rest } = more;
    const zero = start ?? series.times[0] ?? 0;
    const x =
        xKind === "time"
            ? series.times
            : xKind === "elapsed"
              ? series.times.map((time) => time - zero)
              : xKind === "samples"
                ? series.steps.map((step) => step * batch)
                : series.steps;
    return { total: series.total, ...rest, x, y: toNumbers(series.values) };
}

/** An exponential moving average with bias correction. Weight 0 changes nothing. */
export function smoothedValues(y: ArrayLike<number>, weight: number): Float64Array {
    const out = new Float64Array(y.length);
    let last = 0;
    let sum = 0; // the sum of the weights so far
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

/** The first index whose x is at least `value`. */
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

/** The index whose x is nearest to `value`; -1 without points. */
export function nearest(x: ArrayLike<number>, value: number): number {
    const at = lowerBound(x, value);
    if (at === x.length) return at - 1;
    return at > 0 && value - x[at - 1]! < x[at]! - value ? at - 1 : at;
}

/** The first index and the end of a range, with one more point on either side so that lines reach the edge. */
export function indexRange(x: ArrayLike<number>, range: Range | null): readonly [number, number] {
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

/** Adds a margin. The result is never empty, so it can be drawn. */
function widen(range: Range | null, log: boolean, margin: number): Range {
    if (!range) return log ? { from: 0.1, to: 1 } : { from: 0, to: 1 };
    const { from, to } = range;
    if (log) {
        const factor = from === to ? 2 : (to / from) ** margin;
        return { from: from / factor, to: to * factor };
    }
    const room = from === to ? Math.abs(from) * 0.1 || 1 : (to - from) * margin;
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

function* visibleValues({ x, y }: Line, seen: Range | null): Iterable<number> {
    const [first, end] = indexRange(x, seen);
    for (let i = first; i < end; i++) yield y[i]!;
}

/** The range of y of the visible points. */
export function yRange(lines: readonly Line[], seen: Range | null, log: boolean): Range {
    return widen(extremes(lines, log, (line) => visibleValues(line, seen)), log, 0.05);
}

const MIN_VALUES = 40; // values needed to tell spikes from the others
const NEIGHBOURS = 4; // neighbours on either side of a value
const SPIKE_FACTOR = 3; // a spike is so many times farther from its neighbours than 90 % of the values

/** The running median. It removes spikes but keeps steps. */
function medians(values: readonly number[]): number[] {
    return values.map((_, i) => {
        const some = values.slice(Math.max(0, i - NEIGHBOURS), i + NEIGHBOURS + 1).sort((a, b) => a - b);
        return some[some.length >> 1]!;
    });
}

export interface ClippedRange {
    range: Range;
    /** The number of values outside of the range. */
    spikes: number;
}

/** The range of y without spikes; undefined: there are none. */
export function rangeWithoutSpikes(lines: readonly Line[], seen: Range | null): ClippedRange | undefined {
    const all = lines.map((line) => [...visibleValues(line, seen)].filter(Number.isFinite));
    const values = all.flat();
    if (values.length < MIN_VALUES) return undefined;
    const calm = all.flatMap(medians);
    const usual = Float64Array.from(values, (value, i) => Math.abs(value - calm[i]!)).sort();
    const room = SPIKE_FACTOR * usual[Math.floor(0.9 * usual.length)]!;
    const from = calm.reduce((least, value) => Math.min(least, value), Infinity) - room;
    const to = calm.reduce((most, value) => Math.max(most, value), -Infinity) + room;
    const inside = values.filter((value) => value >= from && value <= to);
    const spikes = values.length - inside.length;
    if (room === 0 || spikes === 0) return undefined;
    const range = inside.reduce(
        (found, value) => ({ from: Math.min(found.from, value), to: Math.max(found.to, value) }),
        { from: Infinity, to: -Infinity },
    );
    return { range: widen(range, false, 0.05), spikes };
}

const MIN_TICKS = 3; // an axis needs so many ticks to be readable

/** About `count` round numbers in a range; more if they are too few for an axis. */
export function ticks(range: Range, count: number, log: boolean): number[] {
    for (let targetCount = count;; targetCount++) {
        const found = log ? logTicks(range, targetCount) : roundTicks(range, targetCount);
        if (found.length >= MIN_TICKS || targetCount > count + MIN_TICKS) return found;
    }
}

function roundTicks({ from, to }: Range, count: number): number[] {
    const rough = (to - from) / Math.max(1, count);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough * 0.999)!;
    const found: number[] = [];
    for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; i++)
        found.push(Number((i * step).toPrecision(12)));
    return found;
}

function logTicks({ from, to }: Range, count: number): number[] {
    const low = Math.floor(Math.log10(from));
    const high = Math.ceil(Math.log10(to));
    const every = Math.max(1, Math.ceil((high - low) / count));
    const between = high - low <= 2 ? [1, 2, 5] : [1];
    const found: number[] = [];
    for (let power = low; power <= high; power += every)
        for (const one of between) {
            const value = Number((one * 10 ** power).toPrecision(12));
            if (value >= from * 0.999 && value <= to * 1.001) found.push(value);
        }
    return found;
}

const TIME_STEPS = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
    172800, 604800, 2592000,
];

/** Times in seconds, at whole minutes, hours and days. */
export function timeTicks({ from, to }: Range, count: number, zone: number): number[] {
    const rough = (to - from) / Math.max(1, count);
    const step = rough < 1 ? 0 : (TIME_STEPS.find((span) => span >= rough) ?? TIME_STEPS.at(-1)!);
    if (!step) return ticks({ from, to }, count, false);
    const found: number[] = [];
    for (let i = Math.ceil((from - zone) / step); i * step + zone <= to; i++)
        found.push(i * step + zone);
    return found.length < MIN_TICKS && count <= 2 * MIN_TICKS ? timeTicks({ from, to }, count + 1, zone) : found;
}

/** "2,000 of 1,000,000 points shown"; "" when all points are shown. */
export function thinningNote(lines: readonly Line[]): string {
    const shown = lines.reduce((sum, line) => sum + line.x.length, 0);
    const total = lines.reduce((sum, line) => sum + (line.total ?? line.x.length), 0);
    const format = (value: number) => value.toLocaleString("en");
    return total > shown ? `${format(shown)} of ${format(total)} points shown` : "";
}
