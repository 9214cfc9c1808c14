// A chart for each metric. It loads its series when it becomes visible.

import { type ReadonlySignal, useComputed, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { chartView } from "../../lib/chart/chart_view";
import { useLoad } from "../../lib/load";
import { lineFromSeries, type Line, type Range } from "../../lib/chart/plot";
import { isSystemMetric, metricTitle } from "../../lib/experiment/metrics";
import { Empty, ErrorBox, Search } from "../../parts";
import { Chart } from "../../parts/chart/chart";
import { ChartControls } from "../../parts/chart/chart_controls";
import { batchSize, type RunSeries, loadSeries, type Metric, type Run, startTime } from "./runs";
import * as state from "./state";

const MAX_LEGEND_RUNS = 8; // with more runs, the table serves as the legend

/** The series of the zoomed range. */
interface ZoomedSeries {
    range: Range;
    drawn: RunSeries[];
}

function MetricChart({ metric, runs }: { metric: Metric; runs: ReadonlySignal<readonly Run[]> }) {
    const full = useLoad(() => loadSeries(runs.value, metric));
    const near = useLoad(async (): Promise<ZoomedSeries | null> => {
        const range = chartView.zoom.value;
        const of = full.data.value;
        if (!range || !of) return null;
        const zoom = { kind: chartView.x.value, range, of };
        return { range, drawn: await loadSeries(runs.value, metric, zoom) };
    });
    const lines = useComputed((): Line[] => {
        const closer = near.data.value;
        const isNear = closer && closer.range === chartView.zoom.value;
        const drawn = isNear ? closer.drawn : (full.data.value ?? []);
        const shown = drawn.filter(({ run }) => !state.hidden.value.includes(String(run.id)));
        return shown.map(({ run, series }) =>
            lineFromSeries(series, chartView.x.value, {
                id: String(run.id),
                label: run.label,
                styleIndex: run.styleIndex,
                start: startTime(run),
                batch: batchSize(run),
            }),
        );
    });
    const error = full.error.value ?? near.error.value;
    if (error !== undefined) return <ErrorBox error={error} retry={full.reload} />;
    return (
        <Chart
            key={chartView.x.value}
            title={metricTitle(metric)}
            lines={lines.value}
            x={chartView.x.value}
            logX={chartView.logX.value}
            logY={chartView.logY.value}
            smooth={chartView.smooth.value}
            clipSpikes={isSystemMetric(metric)}
            busy={full.busy.value || near.busy.value}
            legend={runs.value.length <= MAX_LEGEND_RUNS}
            zoom={chartView.zoom}
        />
    );
}

/** A placeholder until the chart becomes visible. */
function LazyChart({ metric, runs }: { metric: Metric; runs: ReadonlySignal<readonly Run[]> }) {
    const box = useRef<HTMLDivElement>(null);
    const isVisible = useSignal(false);
    useEffect(() => {
        const watcher = new IntersectionObserver(
            (entries) => {
                if (!entries.some((entry) => entry.isIntersecting)) return;
                isVisible.value = true;
                watcher.disconnect();
            },
            { rootMargin: "300px" },
        );
        watcher.observe(box.current!);
        return () => watcher.disconnect();
    }, []);
    return (
        <div ref={box} class="compare-chart">
            {isVisible.value && <MetricChart metric={metric} runs={runs} />}
        </div>
    );
}

export function Charts(props: {
    metrics: readonly Metric[];
    runs: ReadonlySignal<readonly Run[]>;
}) {
    return (
        <>
            <h2 class="hidden">Charts</h2>
            <div class="spread">
                <Search bind={state.metricSearch} label="Find a metric" />
                <ChartControls samples />
            </div>
            {props.metrics.length === 0 && (
                <Empty title="No metrics match">
                    <p>These runs have no metric with this text in its name.</p>
                </Empty>
            )}
            <div class="grid">
                {props.metrics.map((metric) => (
                    <LazyChart key={metric.id} metric={metric} runs={props.runs} />
                ))}
            </div>
        </>
    );
}
