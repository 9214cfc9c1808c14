// What happened, when, and why: each start of each trial as a bar in time, and as a sentence.

import { get } from "../../lib/api";
import { clock, count, duration, fullTime, millis, now, number } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { hasEnded, saidOfAsking, whyEnded } from "../../lib/runs";
import { isAdmin } from "../../lib/session";
import type { AuditRow, Experiment, Paged, Start, Trial } from "../../lib/types";
import { flag, param } from "../../lib/url";
import { Icon, type IconName, Loaded, stateText, Switch } from "../../parts";
import type { Known } from "./known";

const PAGE = 400;
const ROWS = 60;

const newestFirst = param("newest", flag());

const timeOfDay = (at: string | number) => new Date(at).toLocaleTimeString("en-GB");

interface Happening {
    at: string;
    icon: IconName;
    tone: string;
    text: string;
    trialId?: number;
    reason?: string;
}

const isFailure = (start: Start) =>
    start.endTime && /signal|exit [1-9]|lost|fail/i.test(start.reason);

function ofStart(start: Start, isLast: boolean): Happening[] {
    const { trialId, epoch, startTime, endTime } = start;
    const out: Happening[] = [];
    if (startTime)
        out.push({
            at: startTime,
            icon: "play",
            tone: "busy",
            trialId,
            text: `${epoch > 1 ? `started again (${epoch})` : "started"} on ${start.agents.join(", ")}, ${count(start.slots, "slot")}`,
        });
    if (endTime && !isLast)
        out.push({
            at: endTime,
            icon: isFailure(start) ? "warning" : "stop",
            tone: isFailure(start) ? "bad" : "idle",
            trialId,
            text: isFailure(start) ? "failed" : "left its slots",
            reason: whyEnded(start),
        });
    return out;
}

function ofTrial(trial: Trial, last: Start | undefined): Happening[] {
    if (!trial.endTime || !hasEnded(trial.state)) return [];
    const failed = trial.state.endsWith("ERROR");
    const wasAsked = last && /asked/.test(last.reason);
    const reason = failed ? trial.exitReason : wasAsked ? "the search stopped it" : "";
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

function submitted({ startTime, displayName, username, forkedFrom }: Experiment): Happening {
    return {
        at: startTime,
        icon: "plus",
        tone: "idle",
        text: `Submitted by ${displayName || username}`,
        ...(forkedFrom ? { reason: `a fork of experiment ${forkedFrom}` } : {}),
    };
}

function ended({ startTime, endTime, state }: Experiment): Happening[] {
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

function happenings(
    experiment: Experiment,
    trials: readonly Trial[],
    starts: readonly Start[],
    asked: readonly AuditRow[],
): Happening[] {
    const known = new Map(trials.map((trial) => [trial.id, trial]));
    const all = [submitted(experiment)];
    const inOrder = [...starts].sort((a, b) => a.trialId - b.trialId || a.epoch - b.epoch);
    const last = new Map(inOrder.map((start) => [start.trialId, start]));
    inOrder.forEach((start) => {
        const trial = known.get(start.trialId);
        const isLast = last.get(start.trialId) === start && Boolean(trial && hasEnded(trial.state));
        all.push(...ofStart(start, isLast));
    });
    for (const trial of trials) all.push(...ofTrial(trial, last.get(trial.id)));
    for (const row of asked) {
        const text = saidOfAsking(row, experiment.id);
        if (text) all.push({ at: row.time, icon: "admin", tone: "idle", text });
    }
    all.push(...ended(experiment)); // at its time it comes last
    return all.sort((a, b) => millis(a.at) - millis(b.at));
}

// --- bars ----------------------------------------------------------------------------------------

function Bars({ experiment, starts }: { experiment: Experiment; starts: readonly Start[] }) {
    const from = millis(experiment.startTime);
    const to = Math.max(from + 1, experiment.endTime ? millis(experiment.endTime) : now.value);
    const trialIds = [...new Set(starts.map((start) => start.trialId))].sort((a, b) => a - b);
    const tick = to - from < 600_000 ? timeOfDay : clock;
    const place = (time: number) => (1000 * (time - from)) / (to - from);
    const rows = trialIds.slice(0, ROWS).map((trialId) => ({
        trialId,
        ofTrial: starts.filter((start) => start.trialId === trialId),
    }));
    return (
        <section class="card stack">
            <div class="spread">
                <h3>When each trial waited and ran</h3>
                <span class="line muted">
                    <span class="bar-key bar-waited" aria-hidden="true" /> waited
                    <span class="bar-key bar-ran" aria-hidden="true" /> ran
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
                                const queued = place(millis(start.queuedTime));
                                const began = start.startTime
                                    ? place(millis(start.startTime))
                                    : place(to);
                                const end = start.endTime ? place(millis(start.endTime)) : 1000;
                                return (
                                    <g key={start.allocationId}>
                                        <title>{`start ${start.epoch}: ${whyEnded(start) || "runs"}`}</title>
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
                {trialIds.length > ROWS && (
                    <span>
                        the first {ROWS} of {number(trialIds.length)} trials
                    </span>
                )}
                <span>{experiment.endTime ? tick(to) : "now"}</span>
            </div>
        </section>
    );
}

/** Who asked for what while it was there: the audit, which administrators see. */
async function readAsked({ id, startTime }: Experiment, abort: AbortSignal) {
    if (!isAdmin()) return { audit: [] };
    const rows = [`/experiments/${id}/`, "/experiments/continue"].map((path) => {
        const query = { path, since: startTime, limit: PAGE };
        return get<{ audit: AuditRow[] }>("/audit", query, abort);
    });
    return { audit: (await Promise.all(rows)).flatMap(({ audit }) => audit) };
}

export function Timeline({ experiment, trials }: Known) {
    const path = `/experiments/${experiment.id}/starts`;
    const load = useLoad(
        async (abort) => {
            const [answer, { audit }] = await Promise.all([
                get<{ starts: Start[] } & Paged>(path, { limit: PAGE }, abort),
                readAsked(experiment, abort),
            ]);
            return { ...answer, audit };
        },
        { topics: ["experiments", "trials"], experimentId: experiment.id, every: 2 },
    );
    return (
        <Loaded of={load}>
            {({ starts, pagination, audit }) => {
                const isToday = now.value - millis(experiment.startTime) < 86_400_000;
                const all = happenings(experiment, trials, starts, audit);
                return (
                    <div class="stack">
                        <Bars experiment={experiment} starts={starts} />
                        <div class="spread">
                            <Switch label="Newest first" at={newestFirst} />
                            {pagination.total > starts.length && (
                                <span class="muted">
                                    The newest {number(starts.length)} of {number(pagination.total)}{" "}
                                    starts
                                </span>
                            )}
                        </div>
                        <ol class="timeline card">
                            {(newestFirst.value ? all.reverse() : all).map((one, i) => (
                                <li key={i} class="happening">
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
