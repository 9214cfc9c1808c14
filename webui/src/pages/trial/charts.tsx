// All metrics of a trial by group; where the time of a step goes; slots and memory.

import { view } from "../../lib/chart_view";
import { duration, metric, millis, now, percent } from "../../lib/format";
import type { Line } from "../../lib/plot";
import { isOfMachine, type MetricName, metricsOf, summaryOf } from "../../lib/runs";
import type { Experiment, JsonObject, Start, Trial } from "../../lib/types";
import { param, text } from "../../lib/url";
import { Empty, Search } from "../../parts";
import { Chart } from "../../parts/chart";
import { ChartControls } from "../../parts/chart_controls";
import { MetricChart } from "../../parts/metric_chart";

const wanted = param("metric", text());

/** The parts of a step, as muster-trainer names them. */
const PARTS: readonly (readonly [metric: string, words: string])[] = [
    ["data_ms", "data"],
    ["forward_ms", "forward"],
    ["backward_ms", "backward"],
    ["communication_ms", "communication"],
    ["optimizer_ms", "optimizer"],
    ["checkpoint_stall_ms", "checkpoints"],
];
const MEMORY = ["memory_mb", "memory_peak_mb"];

const training = (name: string): MetricName => ({ group: "training", name });

function meanOf(trial: Trial, name: string): number {
    const found = summaryOf(trial, training(name))?.["mean"];
    return typeof found === "number" ? found : 0;
}

/** The mean of every part of a step, side by side. */
function StepParts({ trial }: { trial: Trial }) {
    const whole = meanOf(trial, "step_ms");
    const parts = PARTS.map(([name, words], i) => ({ words, kind: i, mean: meanOf(trial, name) }));
    const rest = whole - parts.reduce((sum, part) => sum + part.mean, 0);
    if (whole <= 0) return null;
    const all = rest > 0 ? [...parts, { words: "the rest", kind: 7, mean: rest }] : parts;
    const total = all.reduce((sum, part) => sum + part.mean, 0);
    let at = 0;
    return (
        <section class="card step-parts">
            <h3>Where the {metric(whole)} ms of a step go, on average</h3>
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
                            key={part.words}
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
                    <li key={part.words} class="line">
                        <span class={`step-mark step-part-${part.kind}`} aria-hidden="true" />
                        {part.words}{" "}
                        <span class="num muted">
                            {metric(part.mean)} ms · {percent(part.mean / total)}
                        </span>
                    </li>
                ))}
            </ul>
        </section>
    );
}

/** Slots held over time, as steps. */
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
        put(to, 0);
    }
    return x.length ? [{ id: "slots", label: "slots held", x, y }] : [];
}

function slotSeconds(starts: readonly Start[]): number {
    return starts.reduce((sum, start) => {
        const from = millis(start.startTime);
        const to = start.endTime ? millis(start.endTime) : now.value;
        return Number.isNaN(from) ? sum : sum + (start.slots * (to - from)) / 1000;
    }, 0);
}

function Section(props: {
    title: string;
    names: readonly MetricName[];
    trial: Trial;
    batch?: number | undefined;
}) {
    if (!props.names.length) return null;
    return (
        <section class="stack">
            <h2>{props.title}</h2>
            <div class="grid">
                {props.names.map(({ group, name }) => (
                    <MetricChart
                        key={`${group}.${name}`}
                        title={name}
                        group={group}
                        metrics={[name]}
                        runs={[{ trialId: props.trial.id, label: name, batch: props.batch }]}
                    />
                ))}
            </div>
        </section>
    );
}

function Machine({ trial, starts }: { trial: Trial; starts: readonly Start[] }) {
    const has = (name: string) => summaryOf(trial, training(name)) !== undefined;
    const run = { trialId: trial.id, label: "" };
    const slots = slotLines(starts);
    if (!has("step_ms") && !MEMORY.some(has) && !slots.length) return null;
    return (
        <section class="stack">
            <h2>Machine</h2>
            <StepParts trial={trial} />
            <div class="grid">
                {has("step_ms") && (
                    <MetricChart
                        title="Time of a step by part, in ms"
                        group="training"
                        metrics={PARTS.map(([name]) => name).filter(has)}
                        runs={[run]}
                    />
                )}
                {MEMORY.some(has) && (
                    <MetricChart
                        title="Memory of rank 0, in MiB"
                        group="training"
                        metrics={MEMORY.filter(has)}
                        runs={[run]}
                    />
                )}
                {slots.length > 0 && (
                    <div>
                        <Chart
                            title={`Slots held: ${duration(slotSeconds(starts))} of slot time`}
                            lines={slots}
                            x="time"
                            {...(view.x.value === "time" ? { zoom: view.zoom } : {})}
                        />
                    </div>
                )}
            </div>
        </section>
    );
}

const words = (group: string) =>
    group === "gpu" ? "GPUs, on average" : group.charAt(0).toUpperCase() + group.slice(1);

export function Charts({
    trial,
    experiment,
    starts,
}: {
    trial: Trial;
    experiment: Experiment;
    starts: readonly Start[];
}) {
    const all = metricsOf([trial]);
    const fit = all.filter(({ name }) => name.toLowerCase().includes(wanted.value.toLowerCase()));
    const own = fit.filter((one) => !isOfMachine(one));
    const taken = new Set([...PARTS.map(([name]) => name), ...MEMORY]);
    const rest = fit.filter((one) => isOfMachine(one) && !taken.has(one.name));
    const groups = [...new Set(own.map(({ group }) => group))];
    const trainer = experiment.config?.["trainer"] as JsonObject | undefined;
    const batch = trainer?.["global_batch_size"];
    const size = typeof batch === "number" ? batch : undefined;
    if (!all.length && !starts.length)
        return (
            <Empty title="Nothing measured yet" icon="compare">
                <p>Charts appear with the first report of its program.</p>
            </Empty>
        );
    return (
        <div class="stack">
            <div class="spread">
                <Search at={wanted} label="Find a metric" />
                <ChartControls samples={size !== undefined} />
            </div>
            {groups.map((group) => (
                <Section
                    key={group}
                    title={words(group)}
                    trial={trial}
                    batch={size}
                    names={own.filter((one) => one.group === group)}
                />
            ))}
            <Machine trial={trial} starts={starts} />
            <Section title="Speed" trial={trial} batch={size} names={rest} />
        </div>
    );
}
