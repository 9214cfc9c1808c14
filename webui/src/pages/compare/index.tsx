// Up to 50 runs beside each other: their curves, what they ended with, and what was set differently.

import { useComputed } from "@preact/signals";
import type { Action } from "../../lib/actions";
import { useActions } from "../../lib/actions";
import { view } from "../../lib/chart_view";
import { csv, save } from "../../lib/download";
import { count } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { Empty, Head, Loaded, Tabs } from "../../parts";
import { AddRuns } from "./add";
import { Charts } from "./charts";
import { loadRuns, metricsOf, type Metric, type Run, useRunEvents, valueOf } from "./runs";
import { Settings } from "./settings";
import * as state from "./state";
import { Values } from "./values";
import "../../parts/table.css";
import "./compare.css";

const COLUMNS = 5; // metrics of the table, unless one asks for others by name

const panels = [
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
        ...metrics.map((metric) => valueOf(run, metric, state.pick.peek())),
    ]);
    save("compare.csv", "text/csv", csv(head, rows));
}

const order = ["step", "elapsed", "time", "samples"] as const;

function viewActions(runs: readonly Run[], metrics: readonly Metric[]): Action[] {
    const turn = (at: { value: boolean }) => () => (at.value = !at.value);
    const next = order[(order.indexOf(view.x.value) + 1) % order.length]!;
    const smoother = () => (view.smooth.value = view.smooth.peek() ? 0 : 0.8);
    return [
        { name: "Export values as CSV", icon: "download", run: () => exportValues(runs, metrics) },
        { name: "Logarithmic y", key: "l", run: turn(view.logY) },
        { name: "Smooth the lines, or not", key: "s", run: smoother },
        { name: `Draw by ${next}`, key: "x", run: () => (view.x.value = next) },
        { name: "Show what is the same, or not", key: "d", run: turn(state.whole) },
        { name: "Unpin the baseline", run: () => (state.base.value = "") },
        { name: "Show all runs", run: () => (state.hidden.value = []) },
    ];
}

export function Page() {
    const load = useLoad(loadRuns);
    const all = useComputed(() => load.data.value?.runs ?? []);
    const metrics = useComputed(() => {
        const letters = state.wanted.value.toLowerCase();
        return metricsOf(all.value).filter((metric) => metric.id.toLowerCase().includes(letters));
    });
    useRunEvents(all, load.reload);
    const actions = viewActions(all.value, metrics.value);
    useActions(actions);
    return (
        <main>
            <Head title="Compare" actions={all.value.length ? actions.slice(0, 1) : []}
                  sub={all.value.length ? count(all.value.length, "run") : undefined}>
                <AddRuns />
            </Head>
            <Loaded of={load}>
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
                                    Add runs here, or choose rows in the <a href="/experiments">list of experiments</a> and
                                    compare them. The address keeps what you see.
                                </p>
                            </Empty>
                        ) : (
                            <>
                                <Values runs={runs} metrics={metrics.value.slice(0, COLUMNS)} />
                                <Tabs tabs={panels} at={state.tab} label="What to compare" />
                                {state.tab.value === "settings" ? (
                                    <Settings runs={runs} />
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
