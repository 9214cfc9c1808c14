// Compares up to 50 runs: their metrics as curves and values, and their settings.

import { useComputed } from "@preact/signals";
import type { Action } from "../../lib/actions";
import { useActions } from "../../lib/actions";
import { chartView } from "../../lib/chart/chart_view";
import { toCsv, saveFile } from "../../lib/download";
import { count } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { Empty, PageHead, Loaded, Tabs } from "../../parts";
import { AddRuns } from "./add_runs";
import { Charts } from "./charts";
import { loadRuns, metricsOfRuns, type Metric, type Run, useRunEvents, metricValue } from "./runs";
import { SettingsTable } from "./settings_table";
import * as state from "./state";
import { ValuesTable } from "./values_table";
import "../../parts/table/table.css";
import "./compare.css";

const MAX_METRICS = 5; // metrics in the table; the search selects others

const tabs = [
    { id: "charts", title: "Charts" },
    { id: "settings", title: "Settings" },
];

function exportValues(runs: readonly Run[], metrics: readonly Metric[]): void {
    const head = ["trial", "experiment", "name", "state", ...metrics.map((metric) => metric.id)];
    const rows = runs.map((run) => [
        run.id,
        run.experiment.id,
        run.experiment.name,
        run.trial.state,
        ...metrics.map((metric) => metricValue(run, metric, state.valueKind.peek())),
    ]);
    saveFile("compare.csv", "text/csv", toCsv(head, rows));
}

const xKinds = ["step", "elapsed", "time", "samples"] as const;

function pageActions(runs: readonly Run[], metrics: readonly Metric[]): Action[] {
    const toggle = (at: { value: boolean }) => () => (at.value = !at.value);
    const next = xKinds[(xKinds.indexOf(chartView.x.value) + 1) % xKinds.length]!;
    const smoother = () => (chartView.smooth.value = chartView.smooth.peek() ? 0 : 0.8);
    return [
        { name: "Export values as CSV", icon: "download", run: () => exportValues(runs, metrics) },
        { name: "Toggle logarithmic y axis", key: "l", run: toggle(chartView.logY) },
        { name: "Toggle smoothing", key: "s", run: smoother },
        { name: `Use x axis: ${next}`, key: "x", run: () => (chartView.x.value = next) },
        { name: "Show or hide equal settings", key: "d", run: toggle(state.showsEqual) },
        { name: "Unpin the baseline", run: () => (state.baselineId.value = "") },
        { name: "Show all runs", run: () => (state.hidden.value = []) },
    ];
}

export function Page() {
    const load = useLoad(loadRuns);
    const all = useComputed(() => load.data.value?.runs ?? []);
    const metrics = useComputed(() => {
        const letters = state.metricSearch.value.toLowerCase();
        return metricsOfRuns(all.value).filter((metric) => metric.id.toLowerCase().includes(letters));
    });
    useRunEvents(all, load.reload);
    const actions = pageActions(all.value, metrics.value);
    useActions(actions);
    return (
        <main>
            <PageHead title="Compare" actions={all.value.length ? actions.slice(0, 1) : []}
                  sub={all.value.length ? count(all.value.length, "run") : undefined}>
                <AddRuns />
            </PageHead>
            <Loaded load={load}>
                {({ runs, failed }) => (
                    <>
                        {failed.map((text) => (
                            <p key={text} class="muted">
                                {text}
                            </p>
                        ))}
                        {runs.length === 0 ? (
                            <Empty title="Nothing to compare yet" icon="compare">
                                <p>
                                    Add runs here, or select rows in the <a href="/experiments">list of
                                    experiments</a>. To share the comparison, copy the address of this page.
                                </p>
                            </Empty>
                        ) : (
                            <>
                                <ValuesTable runs={runs} metrics={metrics.value.slice(0, MAX_METRICS)} />
                                <Tabs tabs={tabs} bind={state.tab} label="Comparison" />
                                {state.tab.value === "settings" ? (
                                    <SettingsTable runs={runs} />
                                ) : (
                                    <Charts metrics={metrics.value} runs={all} />
                                )}
                            </>
                        )}
                    </>
                )}
            </Loaded>
        </main>
    );
}
