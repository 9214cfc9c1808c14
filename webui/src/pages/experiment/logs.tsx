// The log of one of its trials: at first the one that failed, or the best.

import { param, text } from "../../lib/url";
import { Empty, Select } from "../../parts";
import { stateText } from "../../parts/state";
import { TaskLog } from "../../parts/task_log";
import { type Known, troubledTrial } from "./known";

const of = param("trial", text());

export function Logs({ experiment, trials }: Known) {
    const first = troubledTrial(trials)?.id ?? experiment.bestTrialId ?? trials[0]?.id;
    if (first === undefined)
        return (
            <Empty title="No trial yet">
                <p>Each trial has a log of its own, from its first start.</p>
            </Empty>
        );
    const trialId = Number(of.value) || first;
    const at = {
        get value() {
            return String(trialId);
        },
        set value(id: string) {
            of.value = id;
        },
    };
    const listed = trials.some(({ id }) => id === trialId) ? trials : [];
    const options = [...listed]
        .sort((a, b) => a.id - b.id)
        .map(({ id, state }) => ({
            value: String(id),
            title: `trial ${id} · ${stateText(state)}`,
        }));
    return (
        <div class="stack">
            {experiment.numTrials > 1 && (
                <Select
                    label="Log of"
                    at={at}
                    options={
                        options.length
                            ? options
                            : [{ value: String(trialId), title: `trial ${trialId}` }]
                    }
                />
            )}
            <TaskLog key={trialId} trialId={trialId} />
        </div>
    );
}
