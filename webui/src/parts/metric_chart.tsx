// A chart of metrics of one or many trials. It asks for its points when it comes into sight, again
// for the range that is zoomed to, and for those trials that have reported something new.

import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { get } from "../lib/api";
import { view } from "../lib/chart_view";
import { useLive } from "../lib/live";
import { useLoad } from "../lib/load";
import type { Line, Range } from "../lib/plot";
import { isOfMachine, linesOf, stepsWithin } from "../lib/runs";
import type { Series } from "../lib/types";
import { Chart } from "./chart";
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
const NEAR = 200; // pixels from the screen

// --- the points ----------------------------------------------------------------------------------

function pointsOf(runs: number, metrics: number): number {
    return Math.max(100, Math.min(POINTS, Math.floor(ALL_POINTS / Math.max(1, runs * metrics))));
}

/** True once the element has been near the screen. */
function useSeen() {
    const box = useRef<HTMLDivElement>(null);
    const seen = useSignal(false);
    useLayoutEffect(() => {
        // What is in sight at once need not wait for the observer, which tells so frames later.
        const { top, bottom } = box.current!.getBoundingClientRect();
        seen.value = top < innerHeight + NEAR && bottom > -NEAR;
        if (seen.value) return;
        const watcher = new IntersectionObserver(
            ([entry]) => {
                if (!entry!.isIntersecting) return;
                seen.value = true;
                watcher.disconnect();
            },
            { rootMargin: `${NEAR}px` },
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

/** When each trial began to report, for x since the start. */
const beganAt = (series: readonly Series[]) => Math.min(...series.map((one) => one.times[0] ?? Infinity));

/** The steps that a range of x spans in any of the lines; null: none of them. */
function stepsOf(lines: readonly Line[], series: readonly Series[], range: Range): Range | null {
    const spans = series.map((one, i) => stepsWithin(lines[i]!, one.steps, range));
    const from = Math.min(...spans.map((span) => span.from));
    const to = Math.max(...spans.map((span) => span.to));
    return from <= to ? { from, to } : null;
}

type Found = Map<number, Series[]>; // by trial

/** What was read of each trial, and what it is: after which report, of which steps. */
function useKept(key: string) {
    return useMemo(() => new Map<number, { what: string; series: Series[] }>(), [key]);
}

export function MetricChart(props: MetricChartProps) {
    const { title, runs, group, metrics, height = 240 } = props;
    const { box, seen } = useSeen();
    const of = `${group} ${metrics.join()}`;
    const whole = useKept(of);
    const near = useKept(of);
    const reports = useMemo(() => new Map<number, number>(), []); // of each trial, so many came
    const note = (trialId: number) => reports.set(trialId, (reports.get(trialId) ?? 0) + 1);
    const only = runs.length === 1 ? { trialId: runs[0]!.trialId } : {};
    const interest = {
        topics: ["metrics"] as const,
        ...(props.experimentId ? { experimentId: props.experimentId } : {}),
        ...only,
    };
    useLive(
        interest,
        (event) => event.topic === "metrics" && event.group === group && note(event.trialId),
        () => runs.forEach(({ trialId }) => note(trialId)),
    );
    const read = async (
        kept: typeof whole,
        { trialId }: Run,
        span: Range | null,
        abort: AbortSignal,
    ): Promise<Series[]> => {
        const what = `${reports.get(trialId) ?? 0} ${span ? `${span.from}:${span.to}` : ""}`;
        const known = kept.get(trialId);
        if (known?.what === what) return known.series;
        const max = pointsOf(runs.length, metrics.length);
        const query = { group, metric: metrics, max, ...(span ?? {}) };
        const { series } = await get<{ series: Series[] }>(`/trials/${trialId}/series`, query, abort);
        kept.set(trialId, { what, series });
        return series;
    };
    const kind = group === "gpu" ? "time" : view.x.value; // what the agents report has no steps
    const zoom = kind === view.x.value ? view.zoom : undefined;
    const drawn = (run: Run, series: readonly Series[], all: readonly Series[], place: number) =>
        linesOf(series, kind, {
            id: String(run.trialId),
            label: run.label,
            kind: run.kind ?? place,
            start: beganAt(all),
            ...(run.batch ? { batch: run.batch } : {}),
        });
    const full = useLoad(
        async (abort): Promise<Found> => {
            if (!seen.value) return new Map();
            const all = runs.map(
                async (run) => [run.trialId, await read(whole, run, null, abort)] as const,
            );
            return new Map(await Promise.all(all));
        },
        { ...interest, every: QUIET_S },
    );
    // Of what is zoomed to, the points that were left out of the whole.
    const detail = useLoad(async (abort): Promise<{ range: Range; found: Found } | null> => {
        const range = zoom?.value;
        const known = full.data.value;
        if (!range || !known) return null;
        const all = runs.map(async (run): Promise<[number, Series[]]> => {
            const series = known.get(run.trialId) ?? [];
            const span = stepsOf(drawn(run, series, series, 0), series, range);
            const isWhole = series.every(({ total, shown }) => total <= shown);
            return [run.trialId, span && !isWhole ? await read(near, run, span, abort) : series];
        });
        return { range, found: new Map(await Promise.all(all)) };
    });
    const key = `${of} ${runs.map((run) => run.trialId).join()}`;
    const first = useRef(true);
    useEffect(() => {
        if (!first.current) full.reload();
        first.current = false;
    }, [key]);

    const all = full.data.value;
    const closer = detail.data.value;
    const found = closer && closer.range === zoom?.value ? closer.found : all;
    const lines = useMemo(
        () =>
            runs.flatMap((run, i) => {
                const series = found?.get(run.trialId)?.filter((one) => one.shown > 0) ?? [];
                return drawn(run, series, all?.get(run.trialId) ?? [], i);
            }),
        [found, kind, key],
    );
    const error = full.error.value ?? detail.error.value;
    const isBusy = full.busy.value || detail.busy.value;
    return (
        <div ref={box} class="metric-chart" style={{ minHeight: `${height + 70}px` }}>
            {error !== undefined && <ErrorBox error={error} retry={full.reload} />}
            {lines.length > 0 ? (
                <Chart
                    key={kind}
                    title={title}
                    lines={lines}
                    x={kind}
                    logX={view.logX.value}
                    logY={view.logY.value}
                    smooth={view.smooth.value}
                    calm={metrics.every((name) => isOfMachine({ group, name }))}
                    {...(zoom ? { zoom } : {})}
                    busy={isBusy}
                    height={height}
                />
            ) : (
                <div class="card metric-chart-empty" aria-busy={seen.value && isBusy}>
                    <h3>{title}</h3>
                    <p class="muted">
                        {seen.value && !isBusy ? "Nothing has been reported yet." : "Loading…"}
                    </p>
                </div>
            )}
        </div>
    );
}
