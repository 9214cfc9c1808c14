// Draws a chart with uPlot. uPlot draws the axes, the crosshair and the selection. This module draws the lines:
// each line has its own x values, so runs that reported at different steps need not be merged.

import uPlot from "uplot";
import { shortTime, compact, duration, fullTime, number } from "../../lib/format";
import {
    colourOf, dashOf, type Line, type Range, smoothedValues, ticks, timeTicks, indexRange, type XKind,
} from "../../lib/chart/plot";
import type { ChartProps } from "./chart";

const MARKED_POINTS = 40; // a line with at most so many points gets a dot at each

export function xText(kind: XKind, value: number): string {
    if (kind === "time") return fullTime(value * 1000);
    if (kind === "elapsed") return duration(value);
    return `${kind === "samples" ? "sample" : "step"} ${number(Math.round(value))}`;
}

export function tickText(kind: XKind, value: number): string {
    if (kind === "time") return shortTime(value * 1000);
    if (kind === "elapsed") return duration(value);
    return compact(value);
}

/** The value of a CSS variable in the current theme. */
export function cssVariable(name: string): string {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const averages = new WeakMap<object, { weight: number; y: ArrayLike<number> }>();

/** The smoothed values, computed once for each array and weight. */
export function smoothedOnce(y: ArrayLike<number>, weight: number): ArrayLike<number> {
    if (weight <= 0) return y;
    const known = averages.get(y);
    if (known?.weight === weight) return known.y;
    const made = { weight, y: smoothedValues(y, weight) };
    averages.set(y, made);
    return made.y;
}

// --- drawing -------------------------------------------------------------------------------------

export interface Picture {
    props: Pick<ChartProps, "x" | "logX" | "logY">;
    shown: readonly Line[];
    /** The smoothed values of each line; undefined: the line is not smoothed. */
    smooth: readonly (ArrayLike<number> | undefined)[];
    /** The id of the highlighted line; "": none. */
    highlighted: string;
    x: Range;
    y: Range;
}

function tracePath(u: uPlot, line: Line, y: ArrayLike<number>, seen: Range): Path2D {
    const path = new Path2D();
    const [first, end] = indexRange(line.x, seen);
    let isPen = false;
    for (let i = first; i < end; i++) {
        const value = y[i]!;
        if (!Number.isFinite(value)) {
            isPen = false;
            continue;
        }
        const px = u.valToPos(line.x[i]!, "x", true);
        const py = u.valToPos(value, "y", true);
        if (isPen) path.lineTo(px, py);
        else path.moveTo(px, py);
        isPen = true;
    }
    return path;
}

function markPoints(u: uPlot, line: Line, seen: Range): void {
    const [first, end] = indexRange(line.x, seen);
    if (end - first > MARKED_POINTS) return;
    for (let i = first; i < end; i++) {
        if (!Number.isFinite(line.y[i]!)) continue;
        u.ctx.beginPath();
        const px = u.valToPos(line.x[i]!, "x", true);
        u.ctx.arc(px, u.valToPos(line.y[i]!, "y", true), 2.5 * devicePixelRatio, 0, 7);
        u.ctx.fill();
    }
}

function drawLine(u: uPlot, picture: Picture, at: number): void {
    const { ctx } = u;
    const line = picture.shown[at]!;
    const isFaint = line.dim || (picture.highlighted !== "" && picture.highlighted !== line.id);
    const soft = picture.smooth[at];
    ctx.strokeStyle = ctx.fillStyle = cssVariable(colourOf(line.styleIndex ?? at));
    ctx.globalAlpha = isFaint ? 0.2 : 1;
    if (soft) {
        ctx.globalAlpha *= 0.28;
        ctx.lineWidth = devicePixelRatio;
        ctx.setLineDash([]);
        ctx.stroke(tracePath(u, line, line.y, picture.x));
        ctx.globalAlpha = isFaint ? 0.2 : 1;
    }
    ctx.lineWidth = (picture.highlighted === line.id ? 2.5 : 1.6) * devicePixelRatio;
    ctx.setLineDash(dashOf(line.styleIndex ?? at).map((part) => part * devicePixelRatio));
    ctx.stroke(tracePath(u, line, soft ?? line.y, picture.x));
    ctx.setLineDash([]);
    if (!soft) markPoints(u, line, picture.x);
}

function drawLines(u: uPlot, picture: Picture): void {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.lineJoin = "round";
    for (let i = 0; i < picture.shown.length; i++) drawLine(u, picture, i);
    ctx.restore();
}

export function xTicks(kind: XKind, range: Range, count: number, log: boolean): number[] {
    if (kind === "time")
        return timeTicks(range, count, new Date(range.from * 1000).getTimezoneOffset() * 60);
    return kind === "elapsed" && !log ? timeTicks(range, count, 0) : ticks(range, count, log);
}

function axis(side: "x" | "y", picture: () => Picture): uPlot.Axis {
    const isX = side === "x";
    const labelSize = isX ? 90 : 42; // pixels per label
    return {
        stroke: () => cssVariable("--muted"),
        grid: { stroke: () => cssVariable("--line"), width: 1 },
        ticks: { stroke: () => cssVariable("--line"), width: 1, size: 4 },
        font: "11px system-ui, sans-serif",
        size: isX ? 26 : 58,
        gap: 4,
        splits: (u) => {
            const { props, x, y } = picture();
            const size = isX ? u.bbox.width : u.bbox.height;
            const count = Math.max(2, Math.floor(size / devicePixelRatio / labelSize));
            return isX
                ? xTicks(props.x ?? "step", x, count, props.logX ?? false)
                : ticks(y, count, props.logY ?? false);
        },
        values: (_, found) =>
            found.map((value) =>
                isX ? tickText(picture().props.x ?? "step", value) : compact(value),
            ),
        filter: (_, found) => found,
    };
}

export function makePlot(
    box: HTMLElement,
    picture: () => Picture,
    on: { cursor: (x: number | undefined) => void; zoom: (range: Range | null) => void },
): uPlot {
    const { logX, logY } = picture().props;
    const scale = (side: "x" | "y", log: boolean): uPlot.Scale => ({
        time: false,
        auto: false,
        distr: log ? 3 : 1,
        range: () => [picture()[side].from, picture()[side].to],
    });
    const onSelect = (u: uPlot) => {
        const { left, width } = u.select;
        if (width < 4) return;
        const range = { from: u.posToVal(left, "x"), to: u.posToVal(left + width, "x") };
        u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        on.zoom(range);
    };
    const options: uPlot.Options = {
        width: box.clientWidth || 300,
        height: box.clientHeight || 200,
        legend: { show: false },
        padding: [8, 20, 0, 0],
        scales: { x: scale("x", logX ?? false), y: scale("y", logY ?? false) },
        axes: [axis("x", picture), axis("y", picture)],
        series: [{}, { show: true, points: { show: false }, paths: () => null }],
        cursor: {
            drag: { x: true, y: false, setScale: false },
            points: { show: false },
            y: false,
            bind: { dblclick: () => () => (on.zoom(null), null) },
        },
        hooks: {
            draw: [(u) => drawLines(u, picture())],
            setSelect: [onSelect],
            setCursor: [
                (u) => {
                    const left = u.cursor.left ?? -1;
                    on.cursor(left < 0 ? undefined : u.posToVal(left, "x"));
                },
            ],
        },
    };
    const { x, y } = picture();
    return new uPlot(
        options,
        [
            [x.from, x.to],
            [y.from, y.to],
        ],
        box,
    );
}
