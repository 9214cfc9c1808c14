// The timeline of an experiment: each start of each trial as a bar and as an entry in a list of events.

import { get } from "../../lib/api";
import { shortTime, count, duration, fullTime, millis, now, number } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { auditText, endReason } from "../../lib/experiment/starts";
import { hasEnded } from "../../lib/experiment/state";
import { isAdmin } from "../../lib/session";
import type { AuditRow, Experiment, Paged, Start, Trial } from "../../lib/types";
import { flag, queryParam } from "../../lib/url";
import { Icon, type IconName, Loaded, stateText, Switch } from "../../parts";
import type { ExperimentData } from "./experiment_data";

const PAGE_SIZE = 400;
const MAX_ROWS = 60;

const newestFirst = queryParam("newest", flag());

const timeOfDay = (at: string | number) => new Date(at).toLocaleTimeString("en-GB");

interface TimelineEntry {
    at: string;
    icon: IconName;
    tone: string;
    text: string;
    trialId?: number;
    reason?: string;
}

const isFailure = (start: Start) =>
    start.endTime && /signal|exit [1-9]|lost|fail/i.test(start.reason);

function startEntries(start: Start, isLast: boolean): TimelineEntry[] {
    const { trialId, epoch, startTime, endTime } = start;
    const out: TimelineEntry[] = [];
    if (startTime)
        out.push({
            at: startTime,
            icon: "play",
            tone: "busy",
            trialId,
            text: `${epoch > 1 ? `restarted (start ${epoch})` : "started"} on ${start.agents.join(", ")}, ${count(start.slots, "slot")}`,
        });
    if (endTime && !isLast)
        out.push({
            at: endTime,
            icon: isFailure(start) ? "warning" : "stop",
            tone: isFailure(start) ? "bad" : "idle",
            trialId,
            text: isFailure(start) ? "failed" : "freed its slots",
            reason: endReason(start),
        });
    return out;
}

function trialEntries(trial: Trial, last: Start | undefined): TimelineEntry[] {
    if (!trial.endTime || !hasEnded(trial.state)) return [];
    const failed = trial.state.endsWith("ERROR");
    const wasAsked = last && /asked/.test(last.reason);
    const reason = failed ? trial.exitReason : wasAsked ? "stopped by the search" : "";
    return [
        {
            at: trial.endTime,
            icon: failed ? "warning" : "check",
            tone: failed ? "bad" : "good",
            trialId: trial.id,
            text: `${stateText(trial.state).toLowerCase()} after ${count(trial.totalBatchesProcessed, "step")}`,
            ...(reason ? { reason } : {}),
        },
    ];
}

function submittedEntry({ startTime, displayName, username, forkedFrom }: Experiment): TimelineEntry {
    return {
        at: startTime,
        icon: "plus",
        tone: "idle",
        text: `Submitted by ${displayName || username}`,
        ...(forkedFrom ? { reason: `fork of experiment ${forkedFrom}` } : {}),
    };
}

function endedEntries({ startTime, endTime, state }: Experiment): TimelineEntry[] {
    if (!endTime || !hasEnded(state)) return [];
    const failed = state.endsWith("ERROR");
    return [
        {
            at: endTime,
            icon: failed ? "warning" : "check",
            tone: failed ? "bad" : "good",
            text: `The experiment ${failed ? "failed" : `is ${stateText(state).toLowerCase()}`}`,
            reason: `after ${duration((millis(endTime) - millis(startTime)) / 1000)}`,
        },
    ];
}

function timelineEntries(
    experiment: Experiment,
    trials: readonly Trial[],
    starts: readonly Start[],
    audit: readonly AuditRow[],
): TimelineEntry[] {
    const known = new Map(trials.map((trial) => [trial.id, trial]));
    const all = [submittedEntry(experiment)];
    const inOrder = [...starts].sort((a, b) => a.trialId - b.trialId || a.epoch - b.epoch);
    const last = new Map(inOrder.map((start) => [start.trialId, start]));
    inOrder.forEach((start) => {
        const trial = known.get(start.trialId);
        const isLast = last.get(start.trialId) === start && Boolean(trial && hasEnded(trial.state));
        all.push(...startEntries(start, isLast));
    });
    for (const trial of trials) all.push(...trialEntries(trial, last.get(trial.id)));
    for (const row of audit) {
        const text = auditText(row, experiment.id);
        if (text) all.push({ at: row.time, icon: "admin", tone: "idle", text });
    }
    all.push(...endedEntries(experiment)); // the sort is stable, so this stays the last of its time
    return all.sort((a, b) => millis(a.at) - millis(b.at));
}

// --- bars ----------------------------------------------------------------------------------------

function StartBars({ experiment, starts }: { experiment: Experiment; starts: readonly Start[] }) {
    const from = millis(experiment.startTime);
    const to = Math.max(from + 1, experiment.endTime ? millis(experiment.endTime) : now.value);
    const trialIds = [...new Set(starts.map((start) => start.trialId))].sort((a, b) => a - b);
    const tick = to - from < 600_000 ? timeOfDay : shortTime;
    const position = (time: number) => (1000 * (time - from)) / (to - from);
    const rows = trialIds.slice(0, MAX_ROWS).map((trialId) => ({
        trialId,
        ofTrial: starts.filter((start) => start.trialId === trialId),
    }));
    return (
        <section class="card stack">
            <div class="spread">
                <h3>Waiting and run time of each trial</h3>
                <span class="line muted">
                    <span class="bar-key bar-waited" aria-hidden="true" /> waiting
                    <span class="bar-key bar-ran" aria-hidden="true" /> running
                    <span class="bar-key bar-failed" aria-hidden="true" /> failed
                </span>
            </div>
            <div class="bars" role="list">
                {rows.map(({ trialId, ofTrial }) => (
                    <div key={trialId} class="bars-row" role="listitem">
                        <a href={`/trials/${trialId}?tab=starts`} class="num">
                            trial {trialId}
                        </a>
                        <svg
                            viewBox="0 0 1000 16"
                            preserveAspectRatio="none"
                            role="img"
                            aria-label={`Trial ${trialId}: ${count(ofTrial.length, "start")}`}
                        >
                            {ofTrial.map((start) => {
                                const queued = position(millis(start.queuedTime));
                                const began = start.startTime
                                    ? position(millis(start.startTime))
                                    : position(to);
                                const end = start.endTime ? position(millis(start.endTime)) : 1000;
                                return (
                                    <g key={start.allocationId}>
                                        <title>{`start ${start.epoch}: ${endReason(start) || "runs"}`}</title>
                                        <rect
                                            class="bar-waited"
                                            x={queued}
                                            y="5"
                                            width={Math.max(0, began - queued)}
                                            height="6"
                                        />
                                        <rect
                                            class={isFailure(start) ? "bar-failed" : "bar-ran"}
                                            x={began}
                                            width={Math.max(1.5, end - began - 1)}
                                            height="16"
                                        />
                                    </g>
                                );
                            })}
                        </svg>
                    </div>
                ))}
            </div>
            <div class="spread muted num">
                <span>{tick(from)}</span>
                {trialIds.length > MAX_ROWS && (
                    <span>
                        first {MAX_ROWS} of {number(trialIds.length)} trials
                    </span>
                )}
                <span>{experiment.endTime ? tick(to) : "now"}</span>
            </div>
        </section>
    );
}

/** The audit trail of the experiment. Only administrators may read it. */
async function readAudit({ id, startTime }: Experiment, abort: AbortSignal) {
    if (!isAdmin()) return { audit: [] };
    const rows = [`/experiments/${id}/`, "/experiments/continue"].map((path) => {
        const query = { path, since: startTime, limit: PAGE_SIZE };
        return get<{ audit: AuditRow[] }>("/audit", query, abort);
    });
    return { audit: (await Promise.all(rows)).flatMap(({ audit }) => audit) };
}

export function Timeline({ experiment, trials }: ExperimentData) {
    const path = `/experiments/${experiment.id}/starts`;
    const load = useLoad(
        async (abort) => {
            const [answer, { audit }] = await Promise.all([
                get<{ starts: Start[] } & Paged>(path, { limit: PAGE_SIZE }, abort),
                readAudit(experiment, abort),
            ]);
            return { ...answer, audit };
        },
        { topics: ["experiments", "trials"], experimentId: experiment.id, minIntervalS: 2 },
    );
    return (
        <Loaded load={load}>
            {({ starts, pagination, audit }) => {
                const isToday = now.value - millis(experiment.startTime) < 86_400_000;
                const entries = timelineEntries(experiment, trials, starts, audit);
                return (
                    <div class="stack">
                        <StartBars experiment={experiment} starts={starts} />
                        <div class="spread">
                            <Switch label="Newest first" bind={newestFirst} />
                            {pagination.total > starts.length && (
                                <span class="muted">
                                    The newest {number(starts.length)} of {number(pagination.total)}{" "}
                                    starts
                                </span>
                            )}
                        </div>
                        <ol class="timeline card">
                            {(newestFirst.value ? entries.reverse() : entries).map((one, i) => (
                                <li key={i} class="timeline-entry">
                                    <span class="muted num" title={fullTime(one.at)}>
                                        {isToday
                                            ? timeOfDay(one.at)
                                            : fullTime(one.at)}
                                    </span>
                                    <span class={`state-${one.tone}`}>
                                        <Icon name={one.icon} />
                                    </span>
                                    <span class="grow">
                                        {one.trialId !== undefined && (
                                            <a href={`/trials/${one.trialId}`}>
                                                Trial {one.trialId}
                                            </a>
                                        )}{" "}
                                        {one.text}
                                        {one.reason && <span class="muted"> · {one.reason}</span>}
                                    </span>
                                </li>
                            ))}
                        </ol>
                    </div>
                );
            }}
        </Loaded>
    );
}
