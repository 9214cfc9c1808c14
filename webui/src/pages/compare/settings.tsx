// Hyperparameters and configurations side by side: what differs, or all.

import type { Json } from "../../lib/types";
import { Button, Switch } from "../../parts";
import { csv, save } from "../../lib/download";
import { flatten, type SettingRow, short, sideBySide } from "./differ";
import type { Run } from "./runs";
import * as state from "./state";

function configOf(run: Run): Json {
    const { hyperparameters: _, ...rest } = run.experiment.config ?? {};
    return rest;
}

function Section(props: { title: string; rows: readonly SettingRow[]; runs: readonly Run[]; base: number }) {
    const shown = props.rows.filter((row) => state.whole.value || row.differs);
    return (
        <>
            <tr class="compare-section">
                <th scope="rowgroup" colSpan={props.runs.length + 1}>
                    {props.title}
                    {shown.length === 0 && <span class="muted"> – the same in all runs</span>}
                </th>
            </tr>
            {shown.map((row) => (
                <tr key={row.path}>
                    <th scope="row" class="mono" title={row.path}>
                        {row.path}
                    </th>
                    {row.values.map((value, i) => (
                        <td
                            key={props.runs[i]!.id}
                            title={value}
                            class={row.differs && value !== row.values[props.base] ? "compare-other" : undefined}
                        >
                            {value === undefined ? <span class="muted">–</span> : short(value)}
                        </td>
                    ))}
                </tr>
            ))}
        </>
    );
}

export function Settings({ runs }: { runs: readonly Run[] }) {
    const base = Math.max(0, runs.findIndex((run) => String(run.id) === state.base.value));
    const hyper = sideBySide(runs.map((run) => flatten(run.trial.hparams)));
    const config = sideBySide(runs.map((run) => flatten(configOf(run))));
    const exportCsv = () => {
        const rows = [...hyper, ...config].map((row) => [row.path, ...row.values]);
        save("settings.csv", "text/csv", csv(["", ...runs.map((run) => run.label)], rows));
    };
    return (
        <section class="stack compare-values" aria-label="Settings of the runs">
            <div class="spread">
                <p class="muted">
                    Marked is what differs from {runs[base]?.label}
                    {state.base.value ? ", the baseline." : ", the first run; pin another to change that."}
                </p>
                <div class="line">
                    <Switch label="Also what is the same" at={state.whole} />
                    <Button icon="download" onClick={exportCsv}>
                        CSV
                    </Button>
                </div>
            </div>
            <div class="table compare-table" role="region" aria-label="Settings" tabIndex={0}>
                <table>
                    <thead>
                        <tr>
                            <th scope="col">Setting</th>
                            {runs.map((run) => (
                                <th key={run.id} scope="col">
                                    <a href={`/trials/${run.id}`}>{run.label}</a>
                                </th>
                            ))}
                        </tr>
                    </thead>
                    <tbody>
                        <Section title="Hyperparameters" rows={hyper} runs={runs} base={base} />
                        <Section title="Configuration" rows={config} runs={runs} base={base} />
                    </tbody>
                </table>
            </div>
        </section>
    );
}
