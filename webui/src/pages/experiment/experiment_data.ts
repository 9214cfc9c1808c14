// The data that all tabs of an experiment's page share.

import { hasEnded } from "../../lib/experiment/state";
import type { Experiment, Trial } from "../../lib/types";

export interface ExperimentData {
    experiment: Experiment;
    /** The best trial comes first. */
    trials: readonly Trial[];
}

/** A trial that failed permanently, or else one that failed and was restarted. */
export function failedTrial(trials: readonly Trial[]): Trial | undefined {
    return (
        trials.find((trial) => trial.state.endsWith("ERROR")) ??
        trials.find((trial) => trial.restarts > 0 && !hasEnded(trial.state))
    );
}
