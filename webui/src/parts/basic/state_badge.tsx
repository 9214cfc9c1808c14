// The state of an object as a badge with icon, word and colour.

import { stateName } from "../../lib/format";
import { displayedState, stoppedEarly } from "../../lib/experiment/state";
import type { Experiment, Trial } from "../../lib/types";
import { Icon, type IconName } from "./icon";
import "./state_badge.css";

type Tone = "good" | "bad" | "warn" | "busy" | "idle";

const stateStyles: Record<string, readonly [Tone, IconName, string]> = {
    ACTIVE: ["busy", "clock", "Active"],
    QUEUED: ["idle", "clock", "Queued"],
    WAITING: ["idle", "clock", "Waiting"],
    PULLING: ["busy", "download", "Pulling"],
    STARTING: ["busy", "spinner", "Starting"],
    RUNNING: ["busy", "play", "Running"],
    TERMINATING: ["warn", "spinner", "Ending"],
    TERMINATED: ["idle", "stop", "Ended"],
    PAUSED: ["warn", "pause", "Paused"],
    STOPPING_PAUSED: ["warn", "spinner", "Pausing"],
    STOPPING_COMPLETED: ["good", "spinner", "Completing"],
    STOPPING_CANCELED: ["idle", "spinner", "Canceling"],
    STOPPING_KILLED: ["idle", "spinner", "Killing"],
    STOPPING_ERROR: ["bad", "spinner", "Failing"],
    COMPLETED: ["good", "check", "Completed"],
    CANCELED: ["idle", "slash", "Canceled"],
    ERROR: ["bad", "warning", "Failed"],
    DELETING: ["warn", "spinner", "Deleting"],
    DELETE_FAILED: ["bad", "warning", "Deletion failed"],
    DELETED: ["idle", "close", "Deleted"],
    PARTIALLY_DELETED: ["warn", "slash", "Partly deleted"],
    SCHEDULED: ["busy", "play", "Scheduled"],
    SCHEDULED_BACKFILLED: ["busy", "play", "Backfilled"],
    ENABLED: ["good", "check", "Enabled"],
    DISABLED: ["warn", "pause", "Disabled"],
    DRAINING: ["warn", "spinner", "Draining"],
    AWAY: ["warn", "clock", "Disconnected"],
    LOST: ["bad", "warning", "Lost"],
    FREE: ["idle", "ring", "Free"],
};

/** The word to show: "STATE_ERROR" -> "Failed". */
export function stateText(state: string): string {
    const word = stateName(state);
    return stateStyles[word]?.[2] ?? word.charAt(0) + word.slice(1).toLowerCase().replaceAll("_", " ");
}

export function stateTone(state: string): Tone {
    return stateStyles[stateName(state)]?.[0] ?? "idle";
}

export function StateBadge({ state, note, text }: { state: string; note?: string; text?: string }) {
    const [tone, icon] = stateStyles[stateName(state)] ?? (["idle", "ring"] as const);
    return (
        <span class={`state state-${tone}`} title={note}>
            <Icon name={icon} />
            {text ?? stateText(state)}
        </span>
    );
}

/** The state of a trial. A trial that the searcher stopped early is marked, although its state is COMPLETED. */
export function TrialState(of: {
    trial: Pick<Trial, "state" | "progress" | "liveAllocations">;
    experiment: Pick<Experiment, "searcherType">;
}) {
    const state = displayedState(of.trial);
    return stoppedEarly(of.trial, of.experiment) ? (
        <StateBadge state={state} text="Stopped early" note="Stopped early by the search" />
    ) : (
        <StateBadge state={state} />
    );
}
