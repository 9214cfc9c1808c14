// Hyperparameters and configurations side by side: only the differences, or everything.

import type { Json } from "../../lib/types";
import { Button, Switch } from "../../parts";
import { toCsv, saveFile } from "../../lib/download";
import { flattenSettings, type SettingRow, shortNumber, compareSettings } from "./differences";
import type { Run } from "./runs";
import * as state from "./state";

function configOf(run: Run): Json {
    const { hyperparameters: _, ...rest } = run.experiment.config ?? {};
    return rest;
}

function SettingSection(props: { title: string; rows: readonly SettingRow[]; runs: readonly Run[]; base: number }) {
    const shown = props.rows.filter((row) => state.showsEqual.value || row.differs);
    return (
        <>
            <tr class="compare-section">
                <th scope="rowgroup" colSpan={props.runs.length + 1}>
                    {props.title}
                    {shown.length === 0 && <span class="muted"> – equal in all runs</span>}
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
                            class={row.differs && value !== row.values[props.base] ? "compare-different" : undefined}
                        >
                            {value === undefined ? <span class="muted">–</span> : shortNumber(value)}
                        </td>
                    ))}
                </tr>
            ))}
        </>
    );
}

export function SettingsTable({ runs }: { runs: readonly Run[] }) {
    const base = Math.max(0, runs.findIndex((run) => String(run.id) === state.baselineId.value));
    const hyper = compareSettings(runs.map((run) => flattenSettings(run.trial.hparams)));
    const config = compareSettings(runs.map((run) => flattenSettings(configOf(run))));
    const exportCsv = () => {
        const rows = [...hyper, ...config].map((row) => [row.path, ...row.values]);
        saveFile("settings.csv", "text/csv", toCsv(["", ...runs.map((run) => run.label)], rows));
    };
    return (
        <section class="stack compare-values" aria-label="Settings of the runs">
            <div class="spread">
                <p class="muted">
                    Values that differ from {runs[base]?.label} are highlighted.
                    {state.baselineId.value ? " It is the baseline." : " Pin a run to compare with another one."}
                </p>
                <div class="line">
                    <Switch label="Show equal values" bind={state.showsEqual} />
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
                        <SettingSection title="Hyperparameters" rows={hyper} runs={runs} base={base} />
                        <SettingSection title="Configuration" rows={config} runs={runs} base={base} />
                    </tbody>
                </table>
            </div>
        </section>
    );
}
