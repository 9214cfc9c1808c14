// A line chart with legend, zoom by mouse and keyboard, and export.

import { type Signal, useComputed, useSignal, useSignalEffect } from "@preact/signals";
import type { RefObject } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type uPlot from "uplot";
import { count, formatMetric } from "../../lib/format";
import {
    rangeWithoutSpikes, type ClippedRange, type Line, type Range, thinningNote, type XKind, xRange, yRange,
} from "../../lib/chart/plot";
import { isDark } from "../../lib/theme";
import { Button } from "../basic/button";
import { Menu } from "../overlay/menu";
import { type Drawing, exportActions } from "./chart_export";
import { cssVariable, makePlot, type Picture, smoothedOnce, tickText, xText, xTicks } from "./drawing";
import { Legend } from "./legend";
import "uplot/dist/uPlot.min.css";
import "./chart.css";

export interface ChartProps {
    title: string;
    lines: readonly Line[];
    x?: XKind;
    logX?: boolean;
    logY?: boolean;
    /** Smoothing from 0 to 0.99. The raw line stays visible, faint. */
    smooth?: number;
    /** Cuts off spikes, so that the usual values fill the chart. A button says how many are cut off. */
    clipSpikes?: boolean;
    /** The visible range of x; charts may share it. The caller may pass more detailed lines when it changes. */
    zoom?: { value: Range | null };
    /** New lines are being loaded. */
    busy?: boolean;
    height?: number;
    legend?: boolean;
}

const xTitles: Record<XKind, string> = {
    step: "step",
    time: "time",
    elapsed: "time since start",
    samples: "samples",
};

// --- state ---------------------------------------------------------------------------------------

interface ChartState {
    /** The x under the mouse; undefined: the mouse is elsewhere. */
    cursorX: Signal<number | undefined>;
    /** The id of the highlighted line; "": none. */
    highlighted: Signal<string>;
    hidden: Signal<ReadonlySet<string>>;
    zoom: { value: Range | null };
    showsSpikes: Signal<boolean>;
}

function useChartState({ zoom }: ChartProps): ChartState {
    const cursorX = useSignal<number | undefined>(undefined);
    const highlighted = useSignal("");
    const hidden = useSignal<ReadonlySet<string>>(new Set());
    const ownZoom = useSignal<Range | null>(null);
    const showsSpikes = useSignal(false);
    return { cursorX, highlighted, hidden, zoom: zoom ?? ownZoom, showsSpikes };
}

interface View {
    picture: RefObject<Picture>;
    shown: readonly Line[];
    /** The range of x of all lines. */
    fullRange: Range;
    /** The range of y without spikes, if there are any. */
    clipped: ClippedRange | undefined;
}

/** The lines and ranges to draw. Drawing reads the newest ones from `picture`. */
function useView(props: ChartProps, state: ChartState): View {
    const { lines, smooth = 0, logX = false, logY = false } = props;
    const zoom = state.zoom.value;
    const hidden = state.hidden.value;
    // The index counts all lines, so hiding one line changes no other line's colour.
    const all = lines.map((line, i) => ({ ...line, styleIndex: line.styleIndex ?? i }));
    const shown = all.filter((line) => !hidden.has(line.id));
    const fullRange = xRange(shown, logX);
    const clipped = useMemo(
        () => (props.clipSpikes && !logY ? rangeWithoutSpikes(shown, zoom) : undefined),
        [lines, hidden, zoom, props.clipSpikes, logY],
    );
    const current: Picture = {
        props,
        shown,
        smooth: shown.map((line) => (smooth > 0 ? smoothedOnce(line.y, smooth) : undefined)),
        highlighted: state.highlighted.peek(),
        x: zoom ?? fullRange,
        y: clipped && !state.showsSpikes.value ? clipped.range : yRange(shown, zoom, logY),
    };
    const picture = useRef(current);
    picture.current = current;
    return { picture, shown, fullRange, clipped };
}

/** Creates the plot in the element with the returned ref, and redraws it when something changes. */
function usePlot(props: ChartProps, state: ChartState, picture: RefObject<Picture>) {
    const box = useRef<HTMLDivElement>(null);
    const plot = useRef<uPlot | undefined>(undefined);
    const latest = useRef(state);
    latest.current = state;
    // A layout effect draws the chart in the same frame as the elements around it.
    useLayoutEffect(() => {
        const made = makePlot(box.current!, () => picture.current, {
            cursor: (value) => (latest.current.cursorX.value = value),
            zoom: (range) => (latest.current.zoom.value = range),
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
    const { hidden, zoom, showsSpikes, highlighted } = state;
    useLayoutEffect(() => {
        const { x, y } = picture.current;
        plot.current!.setScale("x", { min: x.from, max: x.to });
        plot.current!.setScale("y", { min: y.from, max: y.to });
        plot.current!.redraw(false, true); // one redraw for all changes
    }, [props.lines, props.smooth ?? 0, props.x, hidden.value, zoom.value, showsSpikes.value, props.logX, props.logY]);
    const isNew = useRef(true);
    useSignalEffect(() => {
        void isDark.value;
        picture.current.highlighted = highlighted.value;
        if (!isNew.current) plot.current?.redraw(false, true);
        isNew.current = false;
    });
    return box;
}

/** The range that a key zooms or moves to; null: everything; undefined: the key does nothing. */
function rangeAfterKey(key: string, { from, to }: Range): Range | null | undefined {
    const part = (to - from) / 4;
    const ranges: Record<string, Range | null> = {
        "+": { from: from + part, to: to - part },
        "-": { from: from - 2 * part, to: to + 2 * part },
        ArrowLeft: { from: from - part, to: to - part },
        ArrowRight: { from: from + part, to: to + part },
        "0": null,
    };
    return ranges[key];
}

// --- the chart -----------------------------------------------------------------------------------

function Caption(props: { chart: ChartProps; state: ChartState; view: View }) {
    const { state, view } = props;
    const { title, x = "step", logX = false } = props.chart;
    const { zoom, showsSpikes, cursorX } = state;
    const note = useComputed(() => (cursorX.value === undefined ? "" : xText(x, cursorX.value)));
    const drawing = (): Drawing => ({
        ...view.picture.current,
        title,
        xKind: x,
        css: cssVariable,
        xTicks: (most) => xTicks(x, view.picture.current.x, most, logX),
        xText: (value) => tickText(x, value),
    });
    return (
        <figcaption class="chart-head">
            <h3 class="ellipsis">{title}</h3>
            <span class="chart-note muted num">{note.value || thinningNote(view.shown) || `by ${xTitles[x]}`}</span>
            {view.clipped && (
                <Button
                    kind="quiet"
                    pressed={showsSpikes.value}
                    title="Spikes are cut off so that the other values stay readable"
                    onClick={() => (showsSpikes.value = !showsSpikes.value)}
                >
                    {showsSpikes.value ? "With spikes" : `${count(view.clipped.spikes, "spike")} cut off`}
                </Button>
            )}
            {zoom.value && (
                <Button kind="quiet" onClick={() => (zoom.value = null)}>
                    Show all
                </Button>
            )}
            <Menu kind="quiet" icon="more" label={`Export chart of ${title}`} items={exportActions(drawing)} />
        </figcaption>
    );
}

export function Chart(props: ChartProps) {
    const { lines, title, height = 240, smooth = 0 } = props;
    const state = useChartState(props);
    const view = useView(props, state);
    const box = usePlot(props, state, view.picture);
    const { hidden, zoom } = state;
    const onKey = (event: KeyboardEvent) => {
        const range = rangeAfterKey(event.key, view.picture.current.x);
        if (range === undefined || event.target !== event.currentTarget) return;
        event.preventDefault();
        event.stopPropagation();
        const { from, to } = view.fullRange;
        const isBeyond = range && (range.from < from || range.to > to) && !zoom.value;
        zoom.value = isBeyond ? null : range;
    };
    const toggle = (id: string) => {
        const next = new Set(hidden.peek());
        if (!next.delete(id)) next.add(id);
        hidden.value = next;
    };
    return (
        <figure class="chart card">
            <Caption chart={props} state={state} view={view} />
            <div
                ref={box}
                class="chart-plot"
                style={{ height: `${height}px` }}
                role="img"
                tabIndex={0}
                aria-label={summary(title, view.shown)}
                aria-busy={props.busy ?? false}
                onKeyDown={onKey}
            />
            {props.legend !== false && (
                <Legend
                    lines={lines}
                    hidden={hidden.value}
                    smooth={smooth}
                    cursorX={state.cursorX.value}
                    onHighlight={(id) => (state.highlighted.value = id)}
                    onToggle={toggle}
                />
            )}
        </figure>
    );
}

const SUMMARIZED_LINES = 6;

/** The content of the chart as a text for screen readers. */
function summary(title: string, lines: readonly Line[]): string {
    const values = lines
        .slice(0, SUMMARIZED_LINES)
        .map((line) => `${line.label} last ${formatMetric(line.y[line.y.length - 1] ?? null)}`);
    const rest = lines.length - SUMMARIZED_LINES;
    const more = rest > 0 ? `, and ${rest} more` : "";
    return `Chart of ${title}: ${values.join(", ")}${more}. Keys: plus, minus, arrows, 0.`;
}
