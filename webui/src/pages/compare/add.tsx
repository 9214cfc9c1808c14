// Finding runs to compare: experiments by name, label or number, and their trials.

import { useSignal } from "@preact/signals";
import { get } from "../../lib/api";
import { count, metric } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { toastError } from "../../lib/notices";
import type { Experiment, Paged, Trial } from "../../lib/types";
import { Button, Icon, Loaded, Popover, Search, StateBadge } from "../../parts";
import * as state from "./state";

const FOUND = 20;

/** A filter for what one typed. */
export function filterOf(typed: string): string {
    const words = typed.trim();
    if (!words) return "";
    if (/^\d+$/.test(words)) return `id = ${words}`;
    const quoted = JSON.stringify(words);
    return `name ~ ${quoted} or label ~ ${quoted} or owner = ${quoted}`;
}

async function addTrials(experiment: Experiment): Promise<void> {
    try {
        const query = { limit: state.MOST, sort: "metric" };
        const { trials } = await get<{ trials: Trial[] }>(`/experiments/${experiment.id}/trials`, query);
        state.add(
            state.trials,
            trials.map((trial) => trial.id),
        );
    } catch (error) {
        toastError(error);
    }
}

function Found({ experiment }: { experiment: Experiment }) {
    const best = experiment.bestTrialSearcherMetric;
    const isIn = state.experiments.value.includes(String(experiment.id));
    return (
        <li class="compare-found">
            <div class="grow">
                <div class="cut">
                    {experiment.name} <span class="muted">{experiment.id}</span>
                </div>
                <div class="line muted">
                    <StateBadge state={experiment.state} />
                    {count(experiment.numTrials, "trial")}
                    {best !== null && best !== undefined && <span>best {metric(best)}</span>}
                </div>
            </div>
            <Button
                icon={isIn ? "check" : "plus"}
                disabled={isIn || experiment.numTrials === 0}
                label={`Add the best trial of ${experiment.name} ${experiment.id}`}
                onClick={() => state.add(state.experiments, [experiment.id])}
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

function Finder() {
    const typed = useSignal("");
    const found = useLoad((abort) => {
        const query = { filter: filterOf(typed.value), limit: FOUND, sort: "-started" };
        return get<{ experiments: Experiment[] } & Paged>(
            "/experiments",
            { ...query, omit: "config,originalConfig,description,notes" },
            abort,
        );
    });
    return (
        <div class="compare-finder">
            <Search at={typed} label="Name, label, owner or number" />
            <Loaded of={found}>
                {({ experiments }) => (
                    <ul aria-label="Experiments found">
                        {experiments.map((experiment) => (
                            <Found key={experiment.id} experiment={experiment} />
                        ))}
                        {experiments.length === 0 && (
                            <li class="muted">
                                <Icon name="search" /> None has that name, label, owner or number.
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
            {() => <Finder />}
        </Popover>
    );
}
