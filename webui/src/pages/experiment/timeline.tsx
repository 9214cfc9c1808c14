// What happened, when, and why: each start of each trial as a bar in time, and as a sentence.

import { get } from "../../lib/api";
import { clock, count, duration, millis, now, number } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { hasEnded, whyEnded, whyStarted } from "../../lib/runs";
import type { Experiment, Paged, Start, Trial } from "../../lib/types";
import { flag, param } from "../../lib/url";
import { Icon, type IconName, Loaded, stateText, Switch, Time } from "../../parts";
import type { Known } from "./known";

const PAGE = 400;
const ROWS = 60;

const newestFirst = param("newest", flag());

interface Happening {
    at: string;
    icon: IconName;
    tone: string;
    text: string;
    trialId?: number;
    reason?: string;
}

const isFailure = (start: Start) => start.endTime && /signal|exit [1-9]|lost|fail/i.test(start.reason);

function ofStarts(starts: readonly Start[]): Happening[] {
    const last = new Map<number, Start>();
    const out: Happening[] = [];
    for (const start of [...starts].sort((a, b) => a.trialId - b.trialId || a.epoch - b.epoch)) {
        const { trialId, epoch } = start;
        if (start.startTime)
            out.push({
                at: start.startTime,
                icon: "play",
                tone: "busy",
                trialId,
                text: `start ${epoch} on ${start.agents.join(", ")}, ${count(start.slots, "slot")}`,
                reason: whyStarted(epoch > 1 ? (last.get(trialId) ?? start) : undefined),
            });
        if (start.endTime && whyEnded(start) !== "came to its end")
            out.push({
                at: start.endTime,
                icon: isFailure(start) ? "warning" : "stop",
                tone: isFailure(start) ? "bad" : "idle",
                trialId,
                text: `start ${epoch} ended`,
                reason: whyEnded(start),
            });
        last.set(trialId, start);
    }
    return out;
}

function happenings(
    experiment: Experiment,
    trials: readonly Trial[],
    starts: readonly Start[],
): Happening[] {
    const all: Happening[] = [
        {
            at: experiment.startTime,
            icon: "plus",
            tone: "idle",
            text: `Submitted by ${experiment.displayName || experiment.username}`,
            ...(experiment.forkedFrom ? { reason: `a fork of experiment ${experiment.forkedFrom}` } : {}),
        },
        ...ofStarts(starts),
    ];
    for (const trial of trials)
        if (trial.endTime && hasEnded(trial.state))
            all.push({
                at: trial.endTime,
                icon: trial.state.endsWith("ERROR") ? "warning" : "check",
                tone: trial.state.endsWith("ERROR") ? "bad" : "good",
                trialId: trial.id,
                text: `${stateText(trial.state).toLowerCase()} after ${number(trial.totalBatchesProcessed)} steps`,
                ...(trial.exitReason ? { reason: trial.exitReason } : {}),
            });
    if (experiment.endTime)
        all.push({
            at: experiment.endTime,
            icon: experiment.state.endsWith("ERROR") ? "warning" : "check",
            tone: experiment.state.endsWith("ERROR") ? "bad" : "good",
            text: `The experiment ${stateText(experiment.state).toLowerCase()}`,
            reason: `after ${duration((millis(experiment.endTime) - millis(experiment.startTime)) / 1000)}`,
        });
    return all.sort((a, b) => millis(a.at) - millis(b.at));
}

// --- bars ----------------------------------------------------------------------------------------

function Bars({ experiment, starts }: { experiment: Experiment; starts: readonly Start[] }) {
    const from = millis(experiment.startTime);
    const to = Math.max(from + 1, experiment.endTime ? millis(experiment.endTime) : now.value);
    const trialIds = [...new Set(starts.map((start) => start.trialId))].sort((a, b) => a - b);
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
                                const began = start.startTime ? place(millis(start.startTime)) : place(to);
                                const end = start.endTime ? place(millis(start.endTime)) : 1000;
                                return (
                                    <g key={start.allocationId}>
                                        <title>{`start ${start.epoch}: ${whyEnded(start) || "runs"}`}</title>
                                        <rect class="bar-waited" x={queued} y="5" width={Math.max(0, began - queued)} height="6" />
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
                <span>{clock(from)}</span>
                {trialIds.length > ROWS && (
                    <span>
                        the first {ROWS} of {number(trialIds.length)} trials
                    </span>
                )}
                <span>{experiment.endTime ? clock(to) : "now"}</span>
            </div>
        </section>
    );
}

export function Timeline({ experiment, trials }: Known) {
    const path = `/experiments/${experiment.id}/starts`;
    const load = useLoad(
        (abort) => get<{ starts: Start[] } & Paged>(path, { limit: PAGE }, abort),
        { topics: ["trials"], experimentId: experiment.id, every: 2 },
    );
    return (
        <Loaded of={load}>
            {({ starts, pagination }) => {
                const all = happenings(experiment, trials, starts);
                return (
                    <div class="stack">
                        <Bars experiment={experiment} starts={starts} />
                        <div class="spread">
                            <Switch label="Newest first" at={newestFirst} />
                            {pagination.total > starts.length && (
                                <span class="muted">
                                    The newest {number(starts.length)} of {number(pagination.total)} starts
                                </span>
                            )}
                        </div>
                        <ol class="timeline card">
                            {(newestFirst.value ? all.reverse() : all).map((one, i) => (
                                <li key={i} class="happening">
                                    <span class="muted">
                                        <Time at={one.at} />
                                    </span>
                                    <span class={`state-${one.tone}`}>
                                        <Icon name={one.icon} />
                                    </span>
                                    <span class="grow">
                                        {one.trialId !== undefined && (
                                            <a href={`/trials/${one.trialId}`}>Trial {one.trialId}</a>
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
