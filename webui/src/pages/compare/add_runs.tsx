// The popover to add runs: a search for experiments, which adds their best trial or all their trials.

import { useSignal } from "@preact/signals";
import { get } from "../../lib/api";
import { count, formatMetric } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { toastError } from "../../lib/toasts";
import type { Experiment, Paged, Trial } from "../../lib/types";
import { Button, Icon, Loaded, Popover, Search, StateBadge } from "../../parts";
import * as state from "./state";

const MAX_FOUND = 20;

/** The filter for the typed text. */
export function searchFilter(typed: string): string {
    const words = typed.trim();
    if (!words) return "";
    if (/^\d+$/.test(words)) return `id = ${words}`;
    const quoted = JSON.stringify(words);
    return `name ~ ${quoted} or label ~ ${quoted} or owner = ${quoted}`;
}

async function addTrials(experiment: Experiment): Promise<void> {
    try {
        const query = { limit: state.MAX_RUNS, sort: "metric" };
        const { trials } = await get<{ trials: Trial[] }>(`/experiments/${experiment.id}/trials`, query);
        state.addIds(
            state.trials,
            trials.map((trial) => trial.id),
        );
    } catch (error) {
        toastError(error);
    }
}

function FoundExperiment({ experiment }: { experiment: Experiment }) {
    const best = experiment.bestTrialSearcherMetric;
    const isAdded = state.experiments.value.includes(String(experiment.id));
    return (
        <li class="found-experiment">
            <div class="grow">
                <div class="ellipsis">
                    {experiment.name} <span class="muted">{experiment.id}</span>
                </div>
                <div class="line muted">
                    <StateBadge state={experiment.state} />
                    {count(experiment.numTrials, "trial")}
                    {best !== null && best !== undefined && <span>best {formatMetric(best)}</span>}
                </div>
            </div>
            <Button
                icon={isAdded ? "check" : "plus"}
                disabled={isAdded || experiment.numTrials === 0}
                label={`Add the best trial of ${experiment.name} ${experiment.id}`}
                onClick={() => state.addIds(state.experiments, [experiment.id])}
            >
                Best
            </Button>
            {experiment.numTrials > 1 && (
                <Button
                    icon="plus"
                    label={`Add the trials of ${experiment.name} ${experiment.id}`}
                    onClick={() => addTrials(experiment)}
                >
                    Trials
                </Button>
            )}
        </li>
    );
}

function ExperimentFinder() {
    const typed = useSignal("");
    const found = useLoad((abort) => {
        const query = { filter: searchFilter(typed.value), limit: MAX_FOUND, sort: "-started" };
        return get<{ experiments: Experiment[] } & Paged>(
            "/experiments",
            { ...query, omit: "config,originalConfig,description,notes" },
            abort,
        );
    });
    return (
        <div class="compare-finder">
            <Search bind={typed} label="Name, label, owner or id" />
            <Loaded load={found}>
                {({ experiments }) => (
                    <ul aria-label="Experiments found">
                        {experiments.map((experiment) => (
                            <FoundExperiment key={experiment.id} experiment={experiment} />
                        ))}
                        {experiments.length === 0 && (
                            <li class="muted">
                                <Icon name="search" /> No experiments found.
                            </li>
                        )}
                    </ul>
                )}
            </Loaded>
        </div>
    );
}

export function AddRuns() {
    return (
        <Popover label="Add runs" icon="plus" text="Add runs">
            {() => <ExperimentFinder />}
        </Popover>
    );
}
