// The starts of a trial: why each began and ended, and how long they ran.

import { millis } from "../format";
import type { AuditRow, Start } from "../types";

const causes: Record<string, string> = {
    PRIORITY: "preempted by a job of higher priority",
    SHARE: "preempted by a team below its share",
    SERVICE: "took turns with other jobs of its team",
    SHRINK: "shrunk to free slots for other jobs",
    GROW: "grown to use free slots",
    MOVE: "moved to other slots",
};

/** Returns why a start ended: the decision of the scheduler, or the exit reason of the program. */
export function endReason(start: Start): string {
    const cause = causes[start.cause] ?? start.cause.toLowerCase();
    const other = start.preemptedForTrialId ? ` (trial ${start.preemptedForTrialId})` : "";
    const reason = cause ? cause + other : start.reason;
    if (reason) return reason;
    return start.endTime ? "ended normally" : "";
}

/** Returns why a start took place. `before`: the previous start. */
export function startReason(before: Start | undefined): string {
    return before ? `after: ${endReason(before) || "the previous start ended"}` : "first start";
}

const auditVerbs: Record<string, string> = {
    pause: "Paused",
    activate: "Resumed",
    cancel: "Canceled",
    kill: "Killed",
    continue: "Continued",
};

/** A row of the audit trail about the experiment as text: "Paused by ann"; "": the row is about something else. */
export function auditText(
    { path, status, username, detail }: Pick<AuditRow, "path" | "status" | "username" | "detail">,
    id: number,
): string {
    const of = path.endsWith("/experiments/continue")
        ? /\bid=(\d+)/.exec(detail)?.[1]
        : /\/experiments\/(\d+)\//.exec(path)?.[1];
    const word = Number(of) === id && status < 400 && auditVerbs[path.split("/").at(-1)!];
    return word ? `${word} by ${username}` : "";
}

/** The sum of the run times of all starts in seconds. A running start counts until `now`. */
export function totalRunSeconds(starts: readonly Pick<Start, "startTime" | "endTime">[], now: number) {
    return starts.reduce(
        (sum, { startTime, endTime }) =>
            startTime ? sum + (endTime ? millis(endTime) : now) - millis(startTime) : sum,
        0,
    ) / 1000;
}
