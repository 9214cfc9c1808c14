// Images, histograms, tables and texts of a trial, by name and step. Pure functions.

export type MediaType = "image" | "histogram" | "table" | "text";

export interface MediaName {
    name: string;
    type: MediaType;
    count: number;
    firstStep: number;
    lastStep: number;
}

export interface MediaItem {
    step: number;
    name: string;
    type: MediaType;
    digest: string;
    size: number;
    time: string;
}

/** The content of a histogram: bin i lies between edges i and i + 1. */
export interface Histogram {
    edges: number[];
    counts: number[];
}

/** The content of a table. */
export interface Table {
    columns: string[];
    rows: (string | number | boolean | null)[][];
}

/** The index of the newest item at or before the step; the first item if all are later, the last without a step. */
export function itemAt(items: readonly { step: number }[], step: number | undefined): number {
    if (step === undefined) return items.length - 1;
    let low = 0;
    let high = items.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (items[middle]!.step <= step) low = middle + 1;
        else high = middle;
    }
    return Math.max(0, low - 1);
}

/** At most `most` of the items, evenly spread, with the first and the last. */
export function thin<T>(items: readonly T[], most: number): T[] {
    if (items.length <= most) return [...items];
    return Array.from({ length: most }, (_, i) => items[Math.round((i * (items.length - 1)) / (most - 1))]!);
}

/** The lowest and the highest edge of all histograms. */
export function valueRange(histograms: readonly Histogram[]): [number, number] {
    const low = Math.min(...histograms.map(({ edges }) => edges[0]!));
    const high = Math.max(...histograms.map(({ edges }) => edges.at(-1)!));
    return [low, high];
}

/** The counts in `rows` bins of equal width over the range; a bin that crosses an edge is divided by its parts. */
export function rebin({ edges, counts }: Histogram, [low, high]: readonly [number, number], rows: number): number[] {
    const out = new Array<number>(rows).fill(0);
    const width = (high - low) / rows;
    counts.forEach((count, i) => {
        const from = edges[i]!;
        const to = edges[i + 1]!;
        const first = Math.min(rows - 1, Math.max(0, Math.floor((from - low) / width)));
        for (let row = first; row < rows && low + row * width < to; row++) {
            const overlap = Math.min(to, low + (row + 1) * width) - Math.max(from, low + row * width);
            out[row]! += (count * Math.max(0, overlap)) / (to - from);
        }
    });
    return out;
}
