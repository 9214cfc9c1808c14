// A chart of lines. uPlot draws axes, crosshair and the range that is dragged; the lines are drawn
// here, each with its own x, so that runs which reported at other steps need no joining.

import { useComputed, useSignal, useSignalEffect } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import uPlot from "uplot";
import { clock, compact, count, duration, fullTime, metric, number } from "../lib/format";
import {
    calmRange,
    colourOf,
    COLOURS,
    dashOf,
    type Line,
    nearest,
    type Range,
    smoothed,
    thinnedText,
    ticks,
    timeTicks,
    within,
    type XKind,
    xRange,
    yRange,
} from "../lib/plot";
import { isDark } from "../lib/theme";
import { Button } from "./button";
import { type Drawing, exports } from "./chart_export";
import { Menu } from "./menu";
import "uplot/dist/uPlot.min.css";
import "./chart.css";

export interface ChartProps {
    title: string;
    lines: readonly Line[];
    x?: XKind;
    logX?: boolean;
    logY?: boolean;
    /** 0 to 0.99; the raw line stays, faint. */
    smooth?: number;
    /** Spikes may lie outside, so that one sees the usual values; it says how many do. */
    calm?: boolean;
    /** The range of x that is shown, which can be shared: when it changes, more detailed lines may come. */
    zoom?: { value: Range | null };
    /** They have not come yet. */
    busy?: boolean;
    height?: number;
    legend?: boolean;
}

const FEW = 40; // points of a line that are marked each

const xWords: Record<XKind, string> = {
    step: "step",
    time: "time",
    elapsed: "time since the start",
    samples: "samples",
};

export function xText(kind: XKind, value: number): string {
    if (kind === "time") return fullTime(value * 1000);
    if (kind === "elapsed") return duration(value);
    return `${kind === "samples" ? "sample" : "step"} ${number(Math.round(value))}`;
}

function tickText(kind: XKind, value: number): string {
    if (kind === "time") return clock(value * 1000);
    if (kind === "elapsed") return duration(value);
    return compact(value);
}

/** Colours of the theme, read when something is drawn. */
function css(name: string): string {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const averages = new WeakMap<object, { weight: number; y: ArrayLike<number> }>();

/** The values as they are drawn: smoothed, once for each array and weight. */
function drawn(y: ArrayLike<number>, weight: number): ArrayLike<number> {
    if (weight <= 0) return y;
    const known = averages.get(y);
    if (known?.weight === weight) return known.y;
    const made = { weight, y: smoothed(y, weight) };
    averages.set(y, made);
    return made.y;
}

// --- what is drawn -------------------------------------------------------------------------------

interface Picture {
    props: ChartProps;
    shown: readonly Line[];
    smooth: readonly (ArrayLike<number> | undefined)[];
    lit: string; // the id of the line that stands out; "": none
    x: Range;
    y: Range;
}

function tracePath(u: uPlot, line: Line, y: ArrayLike<number>, seen: Range): Path2D {
    const path = new Path2D();
    const [first, end] = within(line.x, seen);
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
    const [first, end] = within(line.x, seen);
    if (end - first > FEW) return;
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
    const isFaint = line.dim || (picture.lit !== "" && picture.lit !== line.id);
    const soft = picture.smooth[at];
    ctx.strokeStyle = ctx.fillStyle = css(colourOf(line.kind ?? at));
    ctx.globalAlpha = isFaint ? 0.2 : 1;
    if (soft) {
        ctx.globalAlpha *= 0.28;
        ctx.lineWidth = devicePixelRatio;
        ctx.setLineDash([]);
        ctx.stroke(tracePath(u, line, line.y, picture.x));
        ctx.globalAlpha = isFaint ? 0.2 : 1;
    }
    ctx.lineWidth = (picture.lit === line.id ? 2.5 : 1.6) * devicePixelRatio;
    ctx.setLineDash(dashOf(line.kind ?? at).map((part) => part * devicePixelRatio));
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

function xTicks(kind: XKind, range: Range, most: number, log: boolean): number[] {
    if (kind === "time")
        return timeTicks(range, most, new Date(range.from * 1000).getTimezoneOffset() * 60);
    return kind === "elapsed" && !log ? timeTicks(range, most, 0) : ticks(range, most, log);
}

function axis(side: "x" | "y", picture: () => Picture): uPlot.Axis {
    const isX = side === "x";
    const room = isX ? 90 : 42; // pixels of a label
    return {
        stroke: () => css("--muted"),
        grid: { stroke: () => css("--line"), width: 1 },
        ticks: { stroke: () => css("--line"), width: 1, size: 4 },
        font: "11px system-ui, sans-serif",
        size: isX ? 26 : 58,
        gap: 4,
        splits: (u) => {
            const { props, x, y } = picture();
            const size = isX ? u.bbox.width : u.bbox.height;
            const most = Math.max(2, Math.floor(size / devicePixelRatio / room));
            return isX
                ? xTicks(props.x ?? "step", x, most, props.logX ?? false)
                : ticks(y, most, props.logY ?? false);
        },
        values: (_, found) =>
            found.map((value) =>
                isX ? tickText(picture().props.x ?? "step", value) : compact(value),
            ),
        filter: (_, found) => found,
    };
}

function makePlot(
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

// --- the legend ----------------------------------------------------------------------------------

export function Swatch({ kind }: { kind: number }) {
    return (
        <svg class={`swatch swatch-${kind % COLOURS}`} viewBox="0 0 22 8" aria-hidden="true">
            <path d="M1 4H21" stroke-dasharray={dashOf(kind).join(" ")} />
        </svg>
    );
}

function Legend(props: {
    lines: readonly Line[];
    hidden: ReadonlySet<string>;
    smooth: number;
    at: number | undefined;
    onLit: (id: string) => void;
    onToggle: (id: string) => void;
}) {
    return (
        <ul class="legend">
            {props.lines.map((line, i) => {
                const place = props.at === undefined ? line.x.length - 1 : nearest(line.x, props.at);
                const y = drawn(line.y, props.smooth);
                return (
                    <li key={line.id}>
                        <button
                            type="button"
                            class="legend-line"
                            aria-pressed={!props.hidden.has(line.id)}
                            title={`Show or hide ${line.label}`}
                            onClick={() => props.onToggle(line.id)}
                            onPointerEnter={() => props.onLit(line.id)}
                            onPointerLeave={() => props.onLit("")}
                            onFocus={() => props.onLit(line.id)}
                            onBlur={() => props.onLit("")}
                        >
                            <Swatch kind={line.kind ?? i} />
                            <span class="cut">{line.label}</span>
                            <span class="legend-value num">{compact(y[place] ?? null)}</span>
                        </button>
                    </li>
                );
            })}
        </ul>
    );
}

// --- the chart -----------------------------------------------------------------------------------

export function Chart(props: ChartProps) {
    const { lines, title, x = "step", height = 240, smooth = 0 } = props;
    const box = useRef<HTMLDivElement>(null);
    const plot = useRef<uPlot | undefined>(undefined);
    const at = useSignal<number | undefined>(undefined);
    const lit = useSignal("");
    const hidden = useSignal<ReadonlySet<string>>(new Set());
    const own = useSignal<Range | null>(null);
    const zoom = props.zoom ?? own;
    const picture = useRef<Picture | undefined>(undefined);

    // Colours go by the place among all lines, so that hiding one changes no other.
    const shown = lines
        .map((line, i) => ({ ...line, kind: line.kind ?? i }))
        .filter((line) => !hidden.value.has(line.id));
    const whole = xRange(shown, props.logX ?? false);
    const showsSpikes = useSignal(false);
    const calm = useMemo(
        () => (props.calm && !props.logY ? calmRange(shown, zoom.value) : undefined),
        [lines, hidden.value, zoom.value, props.calm, props.logY],
    );
    picture.current = {
        props,
        shown,
        smooth: shown.map((line) => (smooth > 0 ? drawn(line.y, smooth) : undefined)),
        lit: lit.peek(),
        x: zoom.value ?? whole,
        y: calm && !showsSpikes.value ? calm.range : yRange(shown, zoom.value, props.logY ?? false),
    };

    const setZoom = (range: Range | null) => void (zoom.value = range);
    const latest = useRef(setZoom);
    latest.current = setZoom;

    // Drawn with what is around it, not a frame later.
    useLayoutEffect(() => {
        const made = makePlot(box.current!, () => picture.current!, {
            cursor: (value) => (at.value = value),
            zoom: (range) => latest.current(range),
        });
        plot.current = made;
        const watcher = new ResizeObserver(() => {
            if (!box.current) return;
            const { clientWidth: width, clientHeight: height } = box.current;
            const isOther = width !== made.width || height !== made.height;
            if (width && height && isOther) made.setSize({ width, height });
        });
        watcher.observe(box.current!);
        return () => {
            watcher.disconnect();
            made.destroy();
        };
    }, [props.logX, props.logY]);
    useLayoutEffect(() => {
        const { x: across, y: up } = picture.current!;
        plot.current!.setScale("x", { min: across.from, max: across.to });
        plot.current!.setScale("y", { min: up.from, max: up.to });
        plot.current!.redraw(false, true); // once for all three
    }, [lines, smooth, x, hidden.value, zoom.value, showsSpikes.value, props.logX, props.logY]);
    const isNew = useRef(true);
    useSignalEffect(() => {
        void isDark.value;
        picture.current!.lit = lit.value;
        if (!isNew.current) plot.current?.redraw(false, true);
        isNew.current = false;
    });

    const drawing = (): Drawing => ({
        ...picture.current!,
        title,
        kind: x,
        css,
        xTicks: (most) => xTicks(x, picture.current!.x, most, props.logX ?? false),
        xText: (value) => tickText(x, value),
    });
    const onKey = (event: KeyboardEvent) => {
        const { from, to } = picture.current!.x;
        const part = (to - from) / 4;
        const next: Record<string, Range | null> = {
            "+": { from: from + part, to: to - part },
            "-": { from: from - 2 * part, to: to + 2 * part },
            ArrowLeft: { from: from - part, to: to - part },
            ArrowRight: { from: from + part, to: to + part },
            "0": null,
        };
        const range = next[event.key];
        if (range === undefined || event.target !== event.currentTarget) return;
        event.preventDefault();
        event.stopPropagation();
        const all = range && (range.from < whole.from || range.to > whole.to) && !zoom.value;
        setZoom(all ? null : range);
    };
    const note = useComputed(() => (at.value === undefined ? "" : xText(x, at.value)));
    return (
        <figure class="chart card">
            <figcaption class="chart-head">
                <h3 class="cut">{title}</h3>
                <span class="chart-note muted num">
                    {note.value || thinnedText(shown) || `by ${xWords[x]}`}
                </span>
                {calm && (
                    <Button
                        kind="quiet"
                        pressed={showsSpikes.value}
                        title="Few values lie so far from the others that these would be a flat line"
                        onClick={() => (showsSpikes.value = !showsSpikes.value)}
                    >
                        {showsSpikes.value ? "With spikes" : `${count(calm.beyond, "spike")} cut off`}
                    </Button>
                )}
                {zoom.value && (
                    <Button kind="quiet" onClick={() => setZoom(null)}>
                        Show all
                    </Button>
                )}
                <Menu
                    kind="quiet"
                    icon="more"
                    label={`Chart of ${title}: export`}
                    items={exports(drawing)}
                />
            </figcaption>
            <div
                ref={box}
                class="chart-plot"
                style={{ height: `${height}px` }}
                role="img"
                tabIndex={0}
                aria-label={summary(title, shown)}
                aria-busy={props.busy ?? false}
                onKeyDown={onKey}
            />
            {props.legend !== false && (
                <Legend
                    lines={lines}
                    hidden={hidden.value}
                    smooth={smooth}
                    at={at.value}
                    onLit={(id) => (lit.value = id)}
                    onToggle={(id) => {
                        const next = new Set(hidden.peek());
                        if (!next.delete(id)) next.add(id);
                        hidden.value = next;
                    }}
                />
            )}
        </figure>
    );
}

const SPOKEN = 6;

/** What the chart shows, for who does not see it. */
function summary(title: string, lines: readonly Line[]): string {
    const said = lines
        .slice(0, SPOKEN)
        .map((line) => `${line.label} last ${metric(line.y[line.y.length - 1] ?? null)}`);
    const more = lines.length > SPOKEN ? `, and ${lines.length - SPOKEN} more` : "";
    return `Chart of ${title}: ${said.join(", ")}${more}. Keys: plus, minus, arrows, 0.`;
}
