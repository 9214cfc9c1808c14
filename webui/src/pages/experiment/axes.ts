// Axes of hyperparameters and metrics, for the charts of the tab "Hyperparameters".

import { formatMetric } from "../../lib/format";

/** A trial with its hyperparameters and its value of the metric. */
export interface Point {
    trialId: number;
    values: ReadonlyMap<number | string, number | string>;
    y: number;
}

/** A hyperparameter or the metric as an axis from 0, its smallest value, to 1. */
export interface Axis {
    name: string;
    isLog: boolean;
    /** The words of an axis of words, in order. */
    words?: readonly string[];
    low: number;
    high: number;
    /** The position of a value from 0 to 1. */
    position: (value: number | string | undefined) => number;
    /** The label at a position. */
    label: (position: number) => string;
}

function wordAxis(name: string, values: readonly string[]): Axis {
    const words = [...new Set(values)].sort();
    const high = Math.max(1, words.length - 1);
    return {
        name,
        isLog: false,
        words,
        low: 0,
        high,
        position: (value) => words.indexOf(String(value)) / high,
        label: (position) => words[Math.round(position * high)] ?? "",
    };
}

export function axisOf(name: string, values: readonly (number | string)[]): Axis {
    if (values.some((value) => typeof value !== "number"))
        return wordAxis(name, values.map(String));
    const numbers = values as readonly number[];
    const [min, max] = [Math.min(...numbers), Math.max(...numbers)];
    const isLog = min > 0 && max / min >= 100;
    const scale = (value: number) => (isLog ? Math.log10(value) : value);
    const [low, high] = [scale(min), scale(max)];
    const span = high - low || 1;
    return {
        name,
        isLog,
        low,
        high,
        position: (value) => (scale(Number(value)) - low) / span,
        label: (position) => formatMetric(isLog ? 10 ** (low + position * span) : low + position * span),
    };
}

/** The positions on an axis that get a label. */
export const labelPositions = (axis: Axis): number[] =>
    axis.words?.length ? axis.words.map((_, i) => i / axis.high) : [0, 0.5, 1];
