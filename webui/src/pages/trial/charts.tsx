// Charts of a trial: its metrics by group, the time per step by part, memory and slots.

import { chartView } from "../../lib/chart/chart_view";
import { duration, formatMetric, millis, now, percent } from "../../lib/format";
import type { Line } from "../../lib/chart/plot";
import { isSystemMetric, type MetricName, metricNames, metricSummary, metricTitle } from "../../lib/experiment/metrics";
import type { Experiment, JsonObject, Start, Trial } from "../../lib/types";
import { queryParam, text } from "../../lib/url";
import { Empty, Search } from "../../parts";
import { Chart } from "../../parts/chart/chart";
import { ChartControls } from "../../parts/chart/chart_controls";
import { MetricChart } from "../../parts/chart/metric_chart";

const metricSearch = queryParam("metric", text());

/** The parts of a training step, as muster-trainer reports them. */
const STEP_PARTS: readonly (readonly [metric: string, label: string])[] = [
    ["data_ms", "data"],
    ["forward_ms", "forward"],
    ["backward_ms", "backward"],
    ["communication_ms", "communication"],
    ["optimizer_ms", "optimizer"],
    ["checkpoint_stall_ms", "checkpoints"],
];
const MEMORY_METRICS = ["memory_mb", "memory_peak_mb"];

const trainingMetric = (name: string): MetricName => ({ group: "training", name });

function meanValue(trial: Trial, name: string): number {
    const found = metricSummary(trial, trainingMetric(name))?.["mean"];
    return typeof found === "number" ? found : 0;
}

/** The mean time of each part of a step, as a bar. */
function StepParts({ trial }: { trial: Trial }) {
    const stepMs = meanValue(trial, "step_ms");
    const parts = STEP_PARTS.map(([name, label], i) => ({ label, kind: i, mean: meanValue(trial, name) }));
    const rest = stepMs - parts.reduce((sum, part) => sum + part.mean, 0);
    if (stepMs <= 0) return null;
    const all = rest > 0 ? [...parts, { label: "other", kind: 7, mean: rest }] : parts;
    const total = all.reduce((sum, part) => sum + part.mean, 0);
    let at = 0;
    return (
        <section class="card step-parts">
            <h3>Mean time per step: {formatMetric(stepMs)} ms</h3>
            <svg
                viewBox="0 0 1000 22"
                preserveAspectRatio="none"
                aria-hidden="true"
                class="step-bar"
            >
                {all.map((part) => {
                    const x = (1000 * at) / total;
                    at += part.mean;
                    return (
                        <rect
                            key={part.label}
                            class={`step-part step-part-${part.kind}`}
                            x={x}
                            width={Math.max(0, (1000 * part.mean) / total - 2)}
                            height="22"
                        />
                    );
                })}
            </svg>
            <ul class="line">
                {all.map((part) => (
                    <li key={part.label} class="line">
                        <span class={`step-part-colour step-part-${part.kind}`} aria-hidden="true" />
                        {part.label}{" "}
                        <span class="num muted">
                            {formatMetric(part.mean)} ms · {percent(part.mean / total)}
                        </span>
                    </li>
                ))}
            </ul>
        </section>
    );
}

/** The number of slots over time, as a step function. */
function slotLines(starts: readonly Start[]): Line[] {
    const x: number[] = [];
    const y: number[] = [];
    const put = (time: number, slots: number) => {
        x.push(time / 1000);
        y.push(slots);
    };
    for (const start of starts) {
        const from = millis(start.startTime);
        if (Number.isNaN(from)) continue;
        const to = start.endTime ? millis(start.endTime) : now.value;
        put(from, 0);
        put(from, start.slots);
        put(to, start.slots);
        if (start.endTime) put(to, 0);
    }
    return x.length ? [{ id: "slots", label: "slots", x, y }] : [];
}

function slotSeconds(starts: readonly Start[]): number {
    return starts.reduce((sum, start) => {
        const from = millis(start.startTime);
        const to = start.endTime ? millis(start.endTime) : now.value;
        return Number.isNaN(from) ? sum : sum + (start.slots * (to - from)) / 1000;
    }, 0);
}

function MetricSection(props: {
    title: string;
    metrics: readonly MetricName[];
    trial: Trial;
    batch?: number | undefined;
}) {
    if (!props.metrics.length) return null;
    return (
        <section class="stack">
            <h2>{props.title}</h2>
            <div class="grid">
                {props.metrics.map(({ group, name }) => (
                    <MetricChart
                        key={`${group}.${name}`}
                        title={metricTitle({ group, name })}
                        group={group}
                        metrics={[name]}
                        runs={[{ trialId: props.trial.id, label: name, batch: props.batch }]}
                    />
                ))}
            </div>
        </section>
    );
}

function SystemCharts({ trial, starts }: { trial: Trial; starts: readonly Start[] }) {
    const has = (name: string) => metricSummary(trial, trainingMetric(name)) !== undefined;
    const run = { trialId: trial.id, label: "" };
    const slots = slotLines(starts);
    if (!has("step_ms") && !MEMORY_METRICS.some(has) && !slots.length) return null;
    return (
        <section class="stack">
            <h2>System</h2>
            <StepParts trial={trial} />
            <div class="grid">
                {has("step_ms") && (
                    <MetricChart
                        title="Time per step by part, in ms"
                        group="training"
                        metrics={STEP_PARTS.map(([name]) => name).filter(has)}
                        runs={[run]}
                    />
                )}
                {MEMORY_METRICS.some(has) && (
                    <MetricChart
                        title="Memory of rank 0, in MiB"
                        group="training"
                        metrics={MEMORY_METRICS.filter(has)}
                        runs={[run]}
                    />
                )}
                {slots.length > 0 && (
                    <div>
                        <Chart
                            title={`Slots: ${duration(slotSeconds(starts))} of slot time`}
                            lines={slots}
                            x="time"
                            {...(chartView.x.value === "time" ? { zoom: chartView.zoom } : {})}
                        />
                    </div>
                )}
            </div>
        </section>
    );
}

const groupTitle = (group: string) =>
    group === "gpu" ? "GPU average" : group.charAt(0).toUpperCase() + group.slice(1);

export function Charts({
    trial,
    experiment,
    starts,
}: {
    trial: Trial;
    experiment: Experiment;
    starts: readonly Start[];
}) {
    const all = metricNames([trial]);
    const matches = all.filter(({ name }) => name.toLowerCase().includes(metricSearch.value.toLowerCase()));
    const modelMetrics = matches.filter((one) => !isSystemMetric(one));
    const shownNames = new Set([...STEP_PARTS.map(([name]) => name), ...MEMORY_METRICS]);
    const otherMetrics = matches.filter((one) => isSystemMetric(one) && !shownNames.has(one.name));
    const groups = [...new Set(modelMetrics.map(({ group }) => group))];
    const trainer = experiment.config?.["trainer"] as JsonObject | undefined;
    const batch = trainer?.["global_batch_size"];
    const batchSize = typeof batch === "number" ? batch : undefined;
    if (!all.length && !starts.length)
        return (
            <Empty title="No metrics reported yet" icon="compare">
                <p>Charts appear with the first reported metrics.</p>
            </Empty>
        );
    return (
        <div class="stack">
            <div class="spread">
                <Search bind={metricSearch} label="Find a metric" />
                <ChartControls samples={batchSize !== undefined} />
            </div>
            {groups.map((group) => (
                <MetricSection
                    key={group}
                    title={groupTitle(group)}
                    trial={trial}
                    batch={batchSize}
                    metrics={modelMetrics.filter((one) => one.group === group)}
                />
            ))}
            <SystemCharts trial={trial} starts={starts} />
            <MetricSection title="Speed" trial={trial} batch={batchSize} metrics={otherMetrics} />
        </div>
    );
}
