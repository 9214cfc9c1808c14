// A chart of each metric, read when it comes into sight.

import { type ReadonlySignal, useComputed, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { useLoad } from "../../lib/load";
import { lineOf, type Line, type Range, type XKind } from "../../lib/plot";
import { Empty, ErrorBox, Search, Select, Switch } from "../../parts";
import { Chart } from "../../parts/chart";
import { batchOf, type Drawn, loadSeries, type Metric, type Run, startOf, titleOf } from "./runs";
import * as state from "./state";

const NAMED = 8; // runs that each chart's own legend names; more are told by the table

interface Zoom {
    kind: XKind;
    range: Range;
}

function MetricChart({ metric, runs }: { metric: Metric; runs: ReadonlySignal<readonly Run[]> }) {
    const zoom = useSignal<Zoom | null>(null);
    const kind = useComputed(() => state.xAxis.value as XKind);
    const full = useLoad(() => loadSeries(runs.value, metric));
    const near = useLoad(async (): Promise<Drawn[] | null> => {
        const of = full.data.value;
        const at = zoom.value;
        return at && of ? loadSeries(runs.value, metric, { ...at, of }) : null;
    });
    const lines = useComputed((): Line[] => {
        const drawn = (zoom.value && near.data.value) || (full.data.value ?? []);
        const shown = drawn.filter(({ run }) => !state.hidden.value.includes(String(run.id)));
        return shown.map(({ run, series }) =>
            lineOf(series, kind.value, {
                id: String(run.id),
                label: run.label,
                kind: run.kind,
                start: startOf(run),
                batch: batchOf(run),
            }),
        );
    });
    const onZoom = (range: Range | null) => {
        zoom.value = range && { kind: kind.peek(), range };
    };
    const error = full.error.value ?? near.error.value;
    if (error !== undefined) return <ErrorBox error={error} retry={full.reload} />;
    return (
        <Chart
            key={kind.value}
            title={titleOf(metric)}
            lines={lines.value}
            x={kind.value}
            logX={state.logX.value}
            logY={state.logY.value}
            smooth={state.smooth.value}
            busy={full.busy.value || near.busy.value}
            legend={runs.value.length <= NAMED}
            onZoom={onZoom}
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

const axes = [
    { value: "step", title: "step" },
    { value: "elapsed", title: "time since the start" },
    { value: "time", title: "time" },
    { value: "samples", title: "samples" },
];

export function Controls() {
    return (
        <div class="line compare-controls">
            <Search at={state.wanted} label="Metrics by name" />
            <Select label="by" at={state.xAxis} options={axes} />
            <label class="switch">
                Smooth
                <input
                    type="range"
                    min="0"
                    max="0.99"
                    step="0.01"
                    value={state.smooth.value}
                    aria-valuetext={`${Math.round(100 * state.smooth.value)} percent`}
                    onInput={(event) => (state.smooth.value = Number(event.currentTarget.value))}
                />
                <span class="num muted compare-percent">
                    {Math.round(100 * state.smooth.value)} %
                </span>
            </label>
            <Switch label="log x" at={state.logX} />
            <Switch label="log y" at={state.logY} />
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
            <Controls />
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
