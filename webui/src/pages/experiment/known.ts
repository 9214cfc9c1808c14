// What all tabs of an experiment's page know.

import { hasEnded } from "../../lib/runs";
import type { Experiment, Trial } from "../../lib/types";

export interface Known {
    experiment: Experiment;
    /** The best first. */
    trials: readonly Trial[];
}

/** A trial that failed for good, else one that failed on the way; for the headline and the logs. */
export function troubledTrial(trials: readonly Trial[]): Trial | undefined {
    return (
        trials.find((trial) => trial.state.endsWith("ERROR")) ??
        trials.find((trial) => trial.restarts > 0 && !hasEnded(trial.state))
    );
}
