// The runs, and the value each ended with: how it stands among the others, and to the baseline.

import { duration, metric as metricText } from "../../lib/format";
import { titleOf } from "../../lib/runs";
import { Bar, Button, Select, TrialState } from "../../parts";
import { Swatch } from "../../parts/chart";
import { deltaText } from "./differ";
import { type Metric, removeRun, type Run, valueOf } from "./runs";
import * as state from "./state";

const picks = [
    { value: "last", title: "last value" },
    { value: "min", title: "least value" },
    { value: "max", title: "greatest value" },
    { value: "mean", title: "mean" },
];

function Cell(props: { value: number | null; most: number; base: number | null; name: string }) {
    const { value, base } = props;
    if (value === null) return <td class="table-end muted">–</td>;
    return (
        <td class="table-end">
            <span class="compare-value">{metricText(value)}</span>
            <Bar value={Math.abs(value)} of={props.most} label={`${props.name} ${metricText(value)}`} />
            {base !== null && <span class="compare-delta muted">{deltaText(value, base)}</span>}
        </td>
    );
}

function Row(props: { run: Run; metrics: readonly Metric[]; most: number[]; base: Run | undefined }) {
    const { run, base } = props;
    const id = String(run.id);
    const isHidden = state.hidden.value.includes(id);
    const isBase = base === run;
    return (
        <tr class={isBase ? "table-chosen" : undefined}>
            <th scope="row" class="compare-name">
                <span class="line compare-run">
                    <input
                        type="checkbox"
                        checked={!isHidden}
                        aria-label={`Show ${run.label} in the charts`}
                        onChange={() => state.toggle(state.hidden, id)}
                    />
                    <Swatch kind={run.kind} />
                    <a href={`/trials/${run.id}`} class="cut" title={run.label}>
                        {run.label}
                    </a>
                    <Button
                        icon="pin"
                        kind="quiet"
                        pressed={isBase}
                        label={isBase ? "Unpin the baseline" : `Measure against ${run.label}`}
                        onClick={() => (state.base.value = isBase ? "" : id)}
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
            <td class="table-end">{metricText(run.trial.totalBatchesProcessed)}</td>
            <td class="table-end">{duration(run.trial.wallClockTime)}</td>
            {props.metrics.map((metric, i) => (
                <Cell
                    key={metric.id}
                    name={metric.name}
                    value={valueOf(run, metric, state.pick.value)}
                    most={props.most[i]!}
                    base={base && !isBase ? valueOf(base, metric, state.pick.value) : null}
                />
            ))}
        </tr>
    );
}

export function Values({ runs, metrics }: { runs: readonly Run[]; metrics: readonly Metric[] }) {
    const base = runs.find((run) => String(run.id) === state.base.value);
    const most = metrics.map((metric) =>
        Math.max(...runs.map((run) => Math.abs(valueOf(run, metric, state.pick.value) ?? 0))),
    );
    return (
        <section class="stack compare-values" aria-label="Runs and their values">
            <div class="spread">
                <p class="muted">
                    {base
                        ? `Differences are to ${base.label}.`
                        : "Pin a run to see how the others differ from it."}
                </p>
                <Select label="Show the" at={state.pick} options={picks} />
            </div>
            <div class="table compare-table" role="region" aria-label="Values" tabIndex={0}>
                <table class={base ? "compare-based" : undefined}>
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
                                title="All starts together, without what it waited"
                            >
                                Ran
                            </th>
                            {metrics.map((metric) => (
                                <th key={metric.id} scope="col" class="table-end" title={metric.id}>
                                    {titleOf(metric)}
                                </th>
                            ))}
                        </tr>
                    </thead>
                    <tbody>
                        {runs.map((run) => (
                            <Row key={run.id} run={run} metrics={metrics} most={most} base={base} />
                        ))}
                    </tbody>
                </table>
            </div>
        </section>
    );
}
