// The states of experiments and trials, and the time that a trial still needs.

import { stateName } from "../format";
import type { Experiment, Trial } from "../types";

const ENDED = new Set(["COMPLETED", "CANCELED", "ERROR"]);

export const hasEnded = (state: string): boolean => ENDED.has(stateName(state));
export const isStopping = (state: string): boolean => stateName(state).startsWith("STOPPING");

/** The state to show. An experiment that is paused but still holds slots is "pausing". */
export const displayedState = (of: { state: string; liveAllocations?: number }): string =>
    stateName(of.state) === "PAUSED" && (of.liveAllocations ?? 0) > 0 ? "STOPPING_PAUSED" : of.state;

/** Returns whether the searcher stopped the trial before its full training. */
export function stoppedEarly(
    { state, progress = 0 }: Pick<Trial, "state" | "progress">,
    { searcherType }: Pick<Experiment, "searcherType">,
): boolean {
    return stateName(state) === "COMPLETED" && progress > 0 && progress < 1 && /asha|halving/.test(searcherType);
}

/** The remaining seconds at the pace so far, with `atOnce` trials in parallel; undefined: unknown. */
export function remainingSeconds(progress: number, seconds: number, atOnce = 1): number | undefined {
    if (progress <= 0.005 || progress >= 1) return undefined;
    return (seconds * (1 - progress)) / progress / Math.max(1, atOnce);
}
