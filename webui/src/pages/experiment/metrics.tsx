// Charts of the metrics of the best trials.

import { useMemo } from "preact/hooks";
import { formatMetric, number } from "../../lib/format";
import { flatten, varyingNames } from "../../lib/experiment/hyperparameters";
import { isSystemMetric, type MetricName, metricNames, metricTitle } from "../../lib/experiment/metrics";
import { hasEnded } from "../../lib/experiment/state";
import type { JsonObject, Trial } from "../../lib/types";
import { queryParam, text } from "../../lib/url";
import { Empty, Search, Select } from "../../parts";
import { ChartControls } from "../../parts/chart/chart_controls";
import { MetricChart, type Run } from "../../parts/chart/metric_chart";
import type { ExperimentData } from "./experiment_data";

const metricSearch = queryParam("metric", text());
const trialCount = queryParam("trials", text("10"));

/** The label of a trial, with the hyperparameters that vary. */
function trialLabel(trial: Trial, names: readonly string[]): string {
    const values = flatten(trial.hparams);
    const parts = names.slice(0, 2).map((name) => {
        const value = values.get(name);
        return `${name.split(".").at(-1)} ${typeof value === "number" ? formatMetric(value) : (value ?? "–")}`;
    });
    return [`trial ${trial.id}`, ...parts].join(" · ");
}

function Charts(props: { names: readonly MetricName[]; runs: readonly Run[]; id: number }) {
    return (
        <div class="grid charts">
            {props.names.map(({ group, name }) => (
                <MetricChart
                    key={`${group}.${name}`}
                    title={metricTitle({ group, name })}
                    group={group}
                    metrics={[name]}
                    runs={props.runs}
                    experimentId={props.id}
                />
            ))}
        </div>
    );
}

export function Metrics({ experiment, trials }: ExperimentData) {
    const maxTrials = trialCount.value === "all" ? 100 : Number(trialCount.value) || 10;
    const chosen = trials.slice(0, maxTrials);
    const ids = chosen.map((trial) => trial.id).join();
    const trainer = experiment.config?.["trainer"] as JsonObject | undefined;
    const batch = trainer?.["global_batch_size"];
    const batchSize = typeof batch === "number" ? batch : undefined;
    const runs = useMemo(() => {
        const names = varyingNames(trials.map((trial) => flatten(trial.hparams)));
        return chosen.map((trial): Run => ({
            trialId: trial.id,
            label: trialLabel(trial, names),
            batch: batchSize,
        }));
    }, [ids]);
    const all = metricNames(trials);
    if (!all.length)
        return (
            <Empty
                title={hasEnded(experiment.state) ? "No metrics were reported" : "No metrics reported yet"}
                icon="compare"
            >
                <p>
                    For the output of its programs, see the{" "}
                    <a href={`/experiments/${experiment.id}?tab=logs`}>log</a>.
                </p>
            </Empty>
        );
    const isFirst = ({ group, name }: MetricName) =>
        group === "validation" && name === experiment.searcherMetric;
    const matches = all
        .filter(({ name }) => name.toLowerCase().includes(metricSearch.value.toLowerCase()))
        .sort((a, b) => Number(isFirst(b)) - Number(isFirst(a)));
    const modelMetrics = matches.filter((one) => !isSystemMetric(one));
    const systemMetrics = matches.filter(isSystemMetric);
    return (
        <div class="stack">
            <div class="spread">
                <div class="line">
                    <Search bind={metricSearch} label="Find a metric" />
                    {experiment.numTrials > 1 && (
                        <Select
                            label="Trials"
                            bind={trialCount}
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
                <ChartControls samples={batchSize !== undefined} />
            </div>
            {matches.length === 0 && <p class="muted">No metrics match.</p>}
            <Charts names={modelMetrics} runs={runs} id={experiment.id} />
            {systemMetrics.length > 0 && (
                <details class="stack" open={metricSearch.value !== ""}>
                    <summary>System metrics ({number(systemMetrics.length)})</summary>
                    <Charts names={systemMetrics} runs={runs} id={experiment.id} />
                </details>
            )}
        </div>
    );
}
