// A chart of each metric, read when it comes into sight.

import { type ReadonlySignal, useComputed, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { view } from "../../lib/chart_view";
import { useLoad } from "../../lib/load";
import { lineOf, type Line, type Range } from "../../lib/plot";
import { isOfMachine, titleOf } from "../../lib/runs";
import { Empty, ErrorBox, Search } from "../../parts";
import { Chart } from "../../parts/chart";
import { ChartControls } from "../../parts/chart_controls";
import { batchOf, type Drawn, loadSeries, type Metric, type Run, startOf } from "./runs";
import * as state from "./state";

const NAMED = 8; // runs that each chart's own legend names; more are told by the table

/** The lines of what is zoomed to. */
interface Near {
    range: Range;
    drawn: Drawn[];
}

function MetricChart({ metric, runs }: { metric: Metric; runs: ReadonlySignal<readonly Run[]> }) {
    const full = useLoad(() => loadSeries(runs.value, metric));
    const near = useLoad(async (): Promise<Near | null> => {
        const range = view.zoom.value;
        const of = full.data.value;
        if (!range || !of) return null;
        const zoom = { kind: view.x.value, range, of };
        return { range, drawn: await loadSeries(runs.value, metric, zoom) };
    });
    const lines = useComputed((): Line[] => {
        const closer = near.data.value;
        const isNear = closer && closer.range === view.zoom.value;
        const drawn = isNear ? closer.drawn : (full.data.value ?? []);
        const shown = drawn.filter(({ run }) => !state.hidden.value.includes(String(run.id)));
        return shown.map(({ run, series }) =>
            lineOf(series, view.x.value, {
                id: String(run.id),
                label: run.label,
                kind: run.kind,
                start: startOf(run),
                batch: batchOf(run),
            }),
        );
    });
    const error = full.error.value ?? near.error.value;
    if (error !== undefined) return <ErrorBox error={error} retry={full.reload} />;
    return (
        <Chart
            key={view.x.value}
            title={titleOf(metric)}
            lines={lines.value}
            x={view.x.value}
            logX={view.logX.value}
            logY={view.logY.value}
            smooth={view.smooth.value}
            calm={isOfMachine(metric)}
            busy={full.busy.value || near.busy.value}
            legend={runs.value.length <= NAMED}
            zoom={view.zoom}
        />
    );
}

/** Its place is kept until it comes into sight. */
function Seen({ metric, runs }: { metric: Metric; runs: ReadonlySignal<readonly Run[]> }) {
    const box = useRef<HTMLDivElement>(null);
    const isSeen = useSignal(false);
    useEffect(() => {
        const watcher = new IntersectionObserver(
            (entries) => {
                if (!entries.some((entry) => entry.isIntersecting)) return;
                isSeen.value = true;
                watcher.disconnect();
            },
            { rootMargin: "300px" },
        );
        watcher.observe(box.current!);
        return () => watcher.disconnect();
    }, []);
    return (
        <div ref={box} class="compare-chart">
            {isSeen.value && <MetricChart metric={metric} runs={runs} />}
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
                <Search at={state.wanted} label="Find a metric" />
                <ChartControls samples />
            </div>
            {props.metrics.length === 0 && (
                <Empty title="No metric of that name">
                    <p>These runs have reported none whose name has these letters in it.</p>
                </Empty>
            )}
            <div class="grid">
                {props.metrics.map((metric) => (
                    <Seen key={metric.id} metric={metric} runs={props.runs} />
                ))}
            </div>
        </>
    );
}
