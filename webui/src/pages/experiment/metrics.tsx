// Metrics across the trials, the best of them first.

import { useMemo } from "preact/hooks";
import { metric, number } from "../../lib/format";
import { flatten, hasEnded, isOfMachine, type MetricName, metricsOf, titleOf, varying } from "../../lib/runs";
import type { JsonObject, Trial } from "../../lib/types";
import { param, text } from "../../lib/url";
import { Empty, Search, Select } from "../../parts";
import { ChartControls } from "../../parts/chart_controls";
import { MetricChart, type Run } from "../../parts/metric_chart";
import type { Known } from "./known";

const wanted = param("metric", text());
const shown = param("trials", text("10"));

/** A trial by what tells it from the others. */
function labelOf(trial: Trial, names: readonly string[]): string {
    const values = flatten(trial.hparams);
    const said = names.slice(0, 2).map((name) => {
        const value = values.get(name);
        return `${name.split(".").at(-1)} ${typeof value === "number" ? metric(value) : (value ?? "–")}`;
    });
    return [`trial ${trial.id}`, ...said].join(" · ");
}

function Charts(props: { names: readonly MetricName[]; runs: readonly Run[]; id: number }) {
    return (
        <div class="grid charts">
            {props.names.map(({ group, name }) => (
                <MetricChart
                    key={`${group}.${name}`}
                    title={titleOf({ group, name })}
                    group={group}
                    metrics={[name]}
                    runs={props.runs}
                    experimentId={props.id}
                />
            ))}
        </div>
    );
}

export function Metrics({ experiment, trials }: Known) {
    const most = shown.value === "all" ? 100 : Number(shown.value) || 10;
    const chosen = trials.slice(0, most);
    const ids = chosen.map((trial) => trial.id).join();
    const trainer = experiment.config?.["trainer"] as JsonObject | undefined;
    const batch = trainer?.["global_batch_size"];
    const size = typeof batch === "number" ? batch : undefined;
    const runs = useMemo(() => {
        const names = varying(trials.map((trial) => flatten(trial.hparams)));
        return chosen.map((trial): Run => ({
            trialId: trial.id,
            label: labelOf(trial, names),
            batch: size,
        }));
    }, [ids]);
    const all = metricsOf(trials);
    if (!all.length)
        return (
            <Empty
                title={hasEnded(experiment.state) ? "Nothing was measured" : "Nothing measured yet"}
                icon="compare"
            >
                <p>
                    What its programs write is in the{" "}
                    <a href={`/experiments/${experiment.id}?tab=logs`}>log</a>.
                </p>
            </Empty>
        );
    const isFirst = ({ group, name }: MetricName) =>
        group === "validation" && name === experiment.searcherMetric;
    const fit = all
        .filter(({ name }) => name.toLowerCase().includes(wanted.value.toLowerCase()))
        .sort((a, b) => Number(isFirst(b)) - Number(isFirst(a)));
    const own = fit.filter((one) => !isOfMachine(one));
    const machine = fit.filter(isOfMachine);
    return (
        <div class="stack">
            <div class="spread">
                <div class="line">
                    <Search at={wanted} label="Find a metric" />
                    {experiment.numTrials > 1 && (
                        <Select
                            label="Trials"
                            at={shown}
                            options={[
                                { value: "5", title: "best 5" },
                                { value: "10", title: "best 10" },
                                { value: "25", title: "best 25" },
                                {
                                    value: "all",
                                    title: experiment.numTrials > 100 ? "best 100" : "all",
                                },
                            ]}
                        />
                    )}
                    {chosen.length < experiment.numTrials && (
                        <span class="muted">
                            {number(chosen.length)} of {number(experiment.numTrials)} trials
                        </span>
                    )}
                </div>
                <ChartControls samples={size !== undefined} />
            </div>
            {fit.length === 0 && <p class="muted">No metric has this in its name.</p>}
            <Charts names={own} runs={runs} id={experiment.id} />
            {machine.length > 0 && (
                <details class="stack" open={wanted.value !== ""}>
                    <summary>Speed and machine ({number(machine.length)})</summary>
                    <Charts names={machine} runs={runs} id={experiment.id} />
                </details>
            )}
        </div>
    );
}
