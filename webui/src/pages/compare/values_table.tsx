// The table of runs with the values of their metrics, and the differences from the baseline.

import { duration, formatMetric } from "../../lib/format";
import { metricTitle } from "../../lib/experiment/metrics";
import { Bar, Button, Select, TrialState } from "../../parts";
import { Swatch } from "../../parts/chart/legend";
import { deltaText } from "./differences";
import { type Metric, removeRun, type Run, metricValue } from "./runs";
import * as state from "./state";

const valueKinds = [
    { value: "last", title: "last value" },
    { value: "min", title: "smallest value" },
    { value: "max", title: "largest value" },
    { value: "mean", title: "mean" },
];

function ValueCell(props: { value: number | null; max: number; baseline: number | null; name: string }) {
    const { value, baseline } = props;
    if (value === null) return <td class="table-end muted">–</td>;
    return (
        <td class="table-end">
            <span class="compare-value">{formatMetric(value)}</span>
            <Bar value={Math.abs(value)} max={props.max} label={`${props.name} ${formatMetric(value)}`} />
            {baseline !== null && <span class="compare-delta muted">{deltaText(value, baseline)}</span>}
        </td>
    );
}

function RunRow(props: { run: Run; metrics: readonly Metric[]; maxima: number[]; baseline: Run | undefined }) {
    const { run, baseline } = props;
    const id = String(run.id);
    const isHidden = state.hidden.value.includes(id);
    const isBaseline = baseline === run;
    return (
        <tr class={isBaseline ? "table-selected" : undefined}>
            <th scope="row" class="compare-name">
                <span class="line compare-run">
                    <input
                        type="checkbox"
                        checked={!isHidden}
                        aria-label={`Show ${run.label} in the charts`}
                        onChange={() => state.toggle(state.hidden, id)}
                    />
                    <Swatch styleIndex={run.styleIndex} />
                    <a href={`/trials/${run.id}`} class="ellipsis" title={run.label}>
                        {run.label}
                    </a>
                    <Button
                        icon="pin"
                        kind="quiet"
                        pressed={isBaseline}
                        label={isBaseline ? "Unpin the baseline" : `Use ${run.label} as baseline`}
                        onClick={() => (state.baselineId.value = isBaseline ? "" : id)}
                    />
                    <Button
                        icon="close"
                        kind="quiet"
                        label={`Remove ${run.label}`}
                        onClick={() => removeRun(run)}
                    />
                </span>
            </th>
            <td>
                <TrialState trial={run.trial} experiment={run.experiment} />
            </td>
            <td class="table-end">{formatMetric(run.trial.totalBatchesProcessed)}</td>
            <td class="table-end">{duration(run.trial.wallClockTime)}</td>
            {props.metrics.map((metric, i) => (
                <ValueCell
                    key={metric.id}
                    name={metric.name}
                    value={metricValue(run, metric, state.valueKind.value)}
                    max={props.maxima[i]!}
                    baseline={baseline && !isBaseline ? metricValue(baseline, metric, state.valueKind.value) : null}
                />
            ))}
        </tr>
    );
}

export function ValuesTable({ runs, metrics }: { runs: readonly Run[]; metrics: readonly Metric[] }) {
    const baseline = runs.find((run) => String(run.id) === state.baselineId.value);
    const maxima = metrics.map((metric) =>
        Math.max(...runs.map((run) => Math.abs(metricValue(run, metric, state.valueKind.value) ?? 0))),
    );
    return (
        <section class="stack compare-values" aria-label="Runs and their values">
            <div class="spread">
                <p class="muted">
                    {baseline
                        ? `Differences are relative to ${baseline.label}.`
                        : "Pin a run to compare the others with it."}
                </p>
                <Select label="Show" bind={state.valueKind} options={valueKinds} />
            </div>
            <div class="table compare-table" role="region" aria-label="Values" tabIndex={0}>
                <table class={baseline ? "compare-based" : undefined}>
                    <thead>
                        <tr>
                            <th scope="col">Run</th>
                            <th scope="col">State</th>
                            <th scope="col" class="table-end">
                                Steps
                            </th>
                            <th
                                scope="col"
                                class="table-end"
                                title="The sum over all starts, without waiting"
                            >
                                Ran
                            </th>
                            {metrics.map((metric) => (
                                <th key={metric.id} scope="col" class="table-end" title={metric.id}>
                                    {metricTitle(metric)}
                                </th>
                            ))}
                        </tr>
                    </thead>
                    <tbody>
                        {runs.map((run) => (
                            <RunRow key={run.id} run={run} metrics={metrics} maxima={maxima} baseline={baseline} />
                        ))}
                    </tbody>
                </table>
            </div>
        </section>
    );
}
