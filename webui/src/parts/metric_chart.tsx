// A chart of metrics of one or many trials. It asks for its points when it comes into sight, again
// for the range that is zoomed to, and for those trials that have reported something new.

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { get } from "../lib/api";
import { useLive } from "../lib/live";
import { useLoad } from "../lib/load";
import type { Range, XKind } from "../lib/plot";
import { linesOf, stepsWithin } from "../lib/runs";
import type { Series } from "../lib/types";
import { flag, number, param, text } from "../lib/url";
import { Chart } from "./chart";
import { Select, Switch } from "./field";
import { ErrorBox } from "./page";
import "./metric_chart.css";

export interface Run {
    trialId: number;
    label: string;
    kind?: number;
    /** Samples of a step, for x by samples. */
    batch?: number | undefined;
}

const POINTS = 2000; // of a line
const ALL_POINTS = 24000; // of a chart
const QUIET_S = 2;

// --- how charts are drawn: the same for all of a view, in its address ----------------------------

export const view = {
    x: param("x", text("step")),
    smooth: param("smooth", number(0)),
    logX: param("logx", flag()),
    logY: param("logy", flag()),
};

export function ChartControls({ samples }: { samples?: boolean }) {
    const { x, smooth, logX, logY } = view;
    return (
        <div class="line chart-controls">
            <Select
                label="x"
                at={x}
                options={[
                    { value: "step", title: "steps" },
                    { value: "elapsed", title: "time since start" },
                    { value: "time", title: "clock" },
                    ...(samples ? [{ value: "samples", title: "samples" }] : []),
                ]}
            />
            <label class="chart-smooth">
                <span class="muted">Smoothing</span>
                <input
                    type="range"
                    min="0"
                    max="0.99"
                    step="0.01"
                    value={smooth.value}
                    onInput={(event) => (smooth.value = Number(event.currentTarget.value))}
                />
                <output class="num">{smooth.value.toFixed(2)}</output>
            </label>
            <Switch label="log x" at={logX} />
            <Switch label="log y" at={logY} />
        </div>
    );
}

// --- the points ----------------------------------------------------------------------------------

function pointsOf(runs: number, metrics: number): number {
    return Math.max(100, Math.min(POINTS, Math.floor(ALL_POINTS / Math.max(1, runs * metrics))));
}

/** True once the element has been near the screen. */
function useSeen() {
    const box = useRef<HTMLDivElement>(null);
    const seen = useSignal(false);
    useEffect(() => {
        const watcher = new IntersectionObserver(
            ([entry]) => {
                if (!entry!.isIntersecting) return;
                seen.value = true;
                watcher.disconnect();
            },
            { rootMargin: "200px" },
        );
        watcher.observe(box.current!);
        return () => watcher.disconnect();
    }, []);
    return { box, seen };
}

export interface MetricChartProps {
    title: string;
    runs: readonly Run[];
    group: string;
    metrics: readonly string[];
    experimentId?: number;
    height?: number;
}

export function MetricChart(props: MetricChartProps) {
    const { title, runs, group, metrics, height = 240 } = props;
    const { box, seen } = useSeen();
    const range = useSignal<Range | null>(null); // of steps
    const known = useMemo(() => new Map<number, Series[]>(), [group, metrics.join()]);
    const zeros = useMemo(() => new Map<number, number>(), []); // when each trial began to report
    const asked = useRef<Range | null>(null);
    const only = runs.length === 1 ? { trialId: runs[0]!.trialId } : {};
    const interest = {
        topics: ["metrics"] as const,
        ...(props.experimentId ? { experimentId: props.experimentId } : {}),
        ...only,
    };
    useLive(
        interest,
        (event) =>
            event.topic === "metrics" && event.group === group && known.delete(event.trialId),
        () => known.clear(),
    );
    const load = useLoad(
        async (abort) => {
            const span = range.value;
            if (!seen.value) return new Map<number, Series[]>();
            if (asked.current !== span) known.clear();
            asked.current = span;
            const max = pointsOf(runs.length, metrics.length);
            const query = { group, metric: metrics, max, ...(span ?? {}) };
            await Promise.all(
                runs.map(async ({ trialId }) => {
                    if (known.has(trialId)) return;
                    const path = `/trials/${trialId}/series`;
                    const { series } = await get<{ series: Series[] }>(path, query, abort);
                    known.set(trialId, series);
                    const began = Math.min(...series.map((one) => one.times[0] ?? Infinity));
                    if (!zeros.has(trialId) && began < Infinity) zeros.set(trialId, began);
                }),
            );
            return new Map(known);
        },
        { ...interest, every: QUIET_S },
    );
    const key = `${group} ${metrics.join()} ${runs.map((run) => run.trialId).join()}`;
    const first = useRef(true);
    useEffect(() => {
        if (!first.current) load.reload();
        first.current = false;
    }, [key]);

    const kind = view.x.value as XKind;
    // Another x has other units: what was zoomed to means nothing there.
    useEffect(() => void (range.value = null), [kind]);
    const found = load.data.value;
    const drawn = (run: Run, series: readonly Series[], place: number) =>
        linesOf(series, kind, {
            id: String(run.trialId),
            label: run.label,
            kind: run.kind ?? place,
            start: zeros.get(run.trialId) ?? 0,
            ...(run.batch ? { batch: run.batch } : {}),
        });
    const seriesOf = (run: Run) => found?.get(run.trialId)?.filter((one) => one.shown > 0) ?? [];
    const lines = useMemo(
        () => runs.flatMap((run, i) => drawn(run, seriesOf(run), i)),
        [found, kind, key],
    );
    const zoom = (to: Range | null) => {
        const spans = runs.flatMap((run) =>
            seriesOf(run).map((one) => to && stepsWithin(drawn(run, [one], 0)[0]!, one.steps, to)),
        );
        const from = Math.min(...spans.map((span) => span?.from ?? Infinity));
        const end = Math.max(...spans.map((span) => span?.to ?? -Infinity));
        range.value = from <= end ? { from, to: end } : null;
    };
    const isEmpty = seen.value && !load.busy.value;
    return (
        <div ref={box} class="metric-chart" style={{ minHeight: `${height + 70}px` }}>
            {load.error.value !== undefined && (
                <ErrorBox error={load.error.value} retry={load.reload} />
            )}
            {lines.length > 0 ? (
                <Chart
                    key={kind}
                    title={title}
                    lines={lines}
                    x={kind}
                    logX={view.logX.value}
                    logY={view.logY.value}
                    smooth={view.smooth.value}
                    onZoom={zoom}
                    busy={load.busy.value}
                    height={height}
                />
            ) : (
                <div class="card metric-chart-empty">
                    <h3>{title}</h3>
                    <p class="muted">{isEmpty ? "Nothing has been reported yet." : "Loading…"}</p>
                </div>
            )}
        </div>
    );
}
