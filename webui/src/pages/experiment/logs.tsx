// The log of one of the trials. By default it is the failed one, or the best.

import { queryParam, text } from "../../lib/url";
import { Empty, Select } from "../../parts";
import { stateText } from "../../parts/basic/state_badge";
import { TaskLog } from "../../parts/log/task_log";
import { type ExperimentData, failedTrial } from "./experiment_data";

const trialParam = queryParam("trial", text());

export function Logs({ experiment, trials }: ExperimentData) {
    const first = failedTrial(trials)?.id ?? experiment.bestTrialId ?? trials[0]?.id;
    if (first === undefined)
        return (
            <Empty title="No trials yet">
                <p>Each trial has its own log, which begins with its first start.</p>
            </Empty>
        );
    const trialId = Number(trialParam.value) || first;
    const at = {
        get value() {
            return String(trialId);
        },
        set value(id: string) {
            trialParam.value = id;
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
                    label="Trial"
                    bind={at}
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
