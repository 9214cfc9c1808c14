// A chart of metrics of one or more trials. It loads its points when it becomes visible, again for a zoomed range,
// and again for the trials that have reported new values.

import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { get } from "../../lib/api";
import { chartView } from "../../lib/chart/chart_view";
import { useEvents } from "../../lib/events/subscribe";
import { useLoad } from "../../lib/load";
import type { Line, Range, XKind } from "../../lib/chart/plot";
import { isSystemMetric, linesFromSeries, stepsInRange } from "../../lib/experiment/metrics";
import type { Series } from "../../lib/types";
import { Chart } from "./chart";
import { ErrorBox } from "../page/page";
import "./metric_chart.css";

export interface Run {
    trialId: number;
    label: string;
    styleIndex?: number;
    /** Samples per step, for x by samples. */
    batch?: number | undefined;
}

const POINTS_PER_LINE = 2000;
const POINTS_PER_CHART = 24000;
const RELOAD_S = 2; // seconds between two loads, at least
const VISIBLE_MARGIN = 200; // pixels beyond the screen

// --- the points ----------------------------------------------------------------------------------

function pointsPerLine(runs: number, metrics: number): number {
    const share = Math.floor(POINTS_PER_CHART / Math.max(1, runs * metrics));
    return Math.max(100, Math.min(POINTS_PER_LINE, share));
}

/** `isVisible` becomes true once the element has been near the screen. */
function useVisibility() {
    const box = useRef<HTMLDivElement>(null);
    const isVisible = useSignal(false);
    useLayoutEffect(() => {
        // The observer reports some frames later, so an element that is visible at once is found here.
        const { top, bottom } = box.current!.getBoundingClientRect();
        isVisible.value = top < innerHeight + VISIBLE_MARGIN && bottom > -VISIBLE_MARGIN;
        if (isVisible.value) return;
        const watcher = new IntersectionObserver(
            ([entry]) => {
                if (!entry!.isIntersecting) return;
                isVisible.value = true;
                watcher.disconnect();
            },
            { rootMargin: `${VISIBLE_MARGIN}px` },
        );
        watcher.observe(box.current!);
        return () => watcher.disconnect();
    }, []);
    return { box, isVisible };
}

export interface MetricChartProps {
    title: string;
    runs: readonly Run[];
    group: string;
    metrics: readonly string[];
    experimentId?: number;
    height?: number;
}

/** The time of the first report, for x since the start. */
const firstReportTime = (series: readonly Series[]) => Math.min(...series.map((one) => one.times[0] ?? Infinity));

/** The steps that a range of x spans in any of the lines; null: none. */
function stepRange(lines: readonly Line[], series: readonly Series[], range: Range): Range | null {
    const spans = series.map((one, i) => stepsInRange(lines[i]!, one.steps, range));
    const from = Math.min(...spans.map((span) => span.from));
    const to = Math.max(...spans.map((span) => span.to));
    return from <= to ? { from, to } : null;
}

type SeriesByTrial = Map<number, Series[]>;

/** The last answer for each trial, with the version that it answers: number of reports and range of steps. */
function useSeriesCache(key: string) {
    return useMemo(() => new Map<number, { version: string; series: Series[] }>(), [key]);
}

/** Counts the reports of each trial, so that only trials with new values are loaded again. */
function useReportCounts({ runs, group }: MetricChartProps, eventFilter: { topics: readonly ["metrics"] }) {
    const counts = useMemo(() => new Map<number, number>(), []);
    const increment = (trialId: number) => counts.set(trialId, (counts.get(trialId) ?? 0) + 1);
    useEvents(
        eventFilter,
        (event) => event.topic === "metrics" && event.group === group && increment(event.trialId),
        () => runs.forEach(({ trialId }) => increment(trialId)),
    );
    return counts;
}

function linesOfRun(run: Run, xKind: XKind, series: readonly Series[], all: readonly Series[], index: number): Line[] {
    return linesFromSeries(series, xKind, {
        id: String(run.trialId),
        label: run.label,
        styleIndex: run.styleIndex ?? index,
        start: firstReportTime(all),
        ...(run.batch ? { batch: run.batch } : {}),
    });
}

/** Loads the series of all runs; and, while zoomed in, all points of the zoomed range. */
function useSeries(props: MetricChartProps, xKind: XKind, isVisible: { value: boolean }) {
    const { runs, group, metrics } = props;
    const metricsKey = `${group} ${metrics.join()}`;
    const overviewCache = useSeriesCache(metricsKey);
    const detailCache = useSeriesCache(metricsKey);
    const eventFilter = {
        topics: ["metrics"] as const,
        ...(props.experimentId ? { experimentId: props.experimentId } : {}),
        ...(runs.length === 1 ? { trialId: runs[0]!.trialId } : {}),
    };
    const reportCounts = useReportCounts(props, eventFilter);
    const read = async (cache: typeof overviewCache, { trialId }: Run, span: Range | null, abort: AbortSignal) => {
        const version = `${reportCounts.get(trialId) ?? 0} ${span ? `${span.from}:${span.to}` : ""}`;
        const cached = cache.get(trialId);
        if (cached?.version === version) return cached.series;
        const max = pointsPerLine(runs.length, metrics.length);
        const query = { group, metric: metrics, max, ...(span ?? {}) };
        const { series } = await get<{ series: Series[] }>(`/trials/${trialId}/series`, query, abort);
        cache.set(trialId, { version, series });
        return series;
    };
    const overview = useLoad(
        async (abort): Promise<SeriesByTrial> => {
            if (!isVisible.value) return new Map();
            const all = runs.map(async (run) => [run.trialId, await read(overviewCache, run, null, abort)] as const);
            return new Map(await Promise.all(all));
        },
        { ...eventFilter, minIntervalS: RELOAD_S },
    );
    const detail = useLoad(async (abort): Promise<{ range: Range; series: SeriesByTrial } | null> => {
        const range = xKind === chartView.x.value ? chartView.zoom.value : undefined;
        const loaded = overview.data.value;
        if (!range || !loaded) return null;
        const all = runs.map(async (run): Promise<[number, Series[]]> => {
            const series = loaded.get(run.trialId) ?? [];
            const span = stepRange(linesOfRun(run, xKind, series, series, 0), series, range);
            const isComplete = series.every(({ total, shown }) => total <= shown);
            return [run.trialId, span && !isComplete ? await read(detailCache, run, span, abort) : series];
        });
        return { range, series: new Map(await Promise.all(all)) };
    });
    return { overview, detail, metricsKey };
}

export function MetricChart(props: MetricChartProps) {
    const { title, runs, group, metrics, height = 240 } = props;
    const { box, isVisible } = useVisibility();
    const xKind = group === "gpu" ? "time" : chartView.x.value; // samples of GPUs have no steps
    const zoom = xKind === chartView.x.value ? chartView.zoom : undefined;
    const { overview, detail, metricsKey } = useSeries(props, xKind, isVisible);
    const key = `${metricsKey} ${runs.map((run) => run.trialId).join()}`;
    const isFirst = useRef(true);
    useEffect(() => {
        if (!isFirst.current) overview.reload();
        isFirst.current = false;
    }, [key]);

    const all = overview.data.value;
    const zoomed = detail.data.value;
    const found = zoomed && zoomed.range === zoom?.value ? zoomed.series : all;
    const lines = useMemo(
        () =>
            runs.flatMap((run, i) => {
                const series = found?.get(run.trialId)?.filter((one) => one.shown > 0) ?? [];
                return linesOfRun(run, xKind, series, all?.get(run.trialId) ?? [], i);
            }),
        [found, xKind, key],
    );
    const error = overview.error.value ?? detail.error.value;
    const isBusy = overview.busy.value || detail.busy.value;
    return (
        <div ref={box} class="metric-chart" style={{ minHeight: `${height + 70}px` }}>
            {error !== undefined && <ErrorBox error={error} retry={overview.reload} />}
            {lines.length > 0 ? (
                <Chart
                    key={xKind}
                    title={title}
                    lines={lines}
                    x={xKind}
                    logX={chartView.logX.value}
                    logY={chartView.logY.value}
                    smooth={chartView.smooth.value}
                    clipSpikes={metrics.every((name) => isSystemMetric({ group, name }))}
                    {...(zoom ? { zoom } : {})}
                    busy={isBusy}
                    height={height}
                />
            ) : (
                <div class="card metric-chart-empty" aria-busy={isVisible.value && isBusy}>
                    <h3>{title}</h3>
                    <p class="muted">{isVisible.value && !isBusy ? "No values reported yet." : "Loading…"}</p>
                </div>
            )}
        </div>
    );
}
