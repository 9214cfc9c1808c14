// How it stands, in words: the state and its cause, how far it is, what is best.

import { get } from "../../lib/api";
import { count, duration, metric, millis, now, number, stateWord } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { hasEnded, secondsLeft } from "../../lib/runs";
import type { Experiment, Trial, WaitReason } from "../../lib/types";
import { Ago, Due, Icon, Progress, StateBadge } from "../../parts";
import { BestCheckpoint } from "../../parts/checkpoint";
import type { Asked } from "./actions";
import { troubledTrial } from "./known";

interface Why {
    reason: string;
    requestedSlots?: number;
    allocatedSlots?: number;
    waiting: WaitReason[];
}

/** Why it waits, runs, or came to its end. */
function Cause({ experiment, trials }: { experiment: Experiment; trials: readonly Trial[] }) {
    const { id, state } = experiment;
    const why = useLoad((abort) => get<Why>(`/experiments/${id}/why`, {}, abort), {
        topics: ["experiments", "trials", "queue"],
        experimentId: id,
        every: 2,
    }).data.value;
    const trouble = troubledTrial(trials);
    const start = why?.waiting.find((one) => one.estimatedStart)?.estimatedStart;
    return (
        <>
            {why && !hasEnded(state) && (
                <p class="cause">
                    {why.reason
                        ? `It ${why.reason}.`
                        : why.allocatedSlots
                          ? `It runs on ${count(why.allocatedSlots, "slot")}.`
                          : ""}
                    {start && (
                        <>
                            {" "}
                            It may start <Due at={start} />.
                        </>
                    )}
                </p>
            )}
            {trouble && (
                <p class="cause">
                    <Icon name="warning" label="Failure" />{" "}
                    <a href={`/trials/${trouble.id}`}>Trial {trouble.id}</a>
                    {hasEnded(trouble.state)
                        ? " failed: "
                        : ` failed ${trouble.restarts === 1 ? "once" : `${trouble.restarts} times`} and started again: `}
                    <strong>{trouble.exitReason}</strong>{" "}
                    <a href={`/trials/${trouble.id}?tab=log`}>See its log</a>
                </p>
            )}
        </>
    );
}

function tally(trials: readonly Trial[]): string {
    const counts = new Map<string, number>();
    for (const { state } of trials) {
        const word = stateWord(state).toLowerCase().replaceAll("_", " ");
        counts.set(word, (counts.get(word) ?? 0) + 1);
    }
    return [...counts].map(([word, n]) => `${number(n)} ${word}`).join(", ");
}

function Left({ experiment }: { experiment: Experiment }) {
    const seconds = (now.value - millis(experiment.startTime)) / 1000;
    const left = secondsLeft(experiment.progress ?? 0, seconds);
    const runs = stateWord(experiment.state) === "RUNNING";
    return left !== undefined && runs ? (
        <span class="muted num">about {duration(left)} left</span>
    ) : null;
}

export function Headline(props: {
    experiment: Experiment;
    trials: readonly Trial[];
    asked: Asked;
}) {
    const { experiment, trials, asked } = props;
    const { state, labels = [] } = experiment;
    const end = experiment.endTime ? millis(experiment.endTime) : now.value;
    const pool = experiment.resourcePool;
    return (
        <div class="headline card">
            <div class="line">
                <StateBadge state={state} />
                {experiment.archived && <span class="muted">archived</span>}
                {!hasEnded(state) && <Progress value={experiment.progress ?? 0} label="Progress" />}
                <Left experiment={experiment} />
                {labels.map((label) => (
                    <a
                        key={label}
                        class="headline-label"
                        href={`/experiments?filter=${encodeURIComponent(`label = "${label}"`)}`}
                    >
                        {label}
                    </a>
                ))}
            </div>
            <Cause experiment={experiment} trials={trials} />
            {experiment.description && <p class="cause">{experiment.description}</p>}
            <dl class="headline-facts">
                {experiment.searcherMetric && experiment.searcherMetric !== "none" && (
                    <div>
                        <dt>Best {experiment.searcherMetric}</dt>
                        <dd class="num headline-best">
                            {metric(experiment.bestTrialSearcherMetric)}
                            {experiment.bestTrialId !== undefined && (
                                <a href={`/trials/${experiment.bestTrialId}`}>
                                    trial {experiment.bestTrialId}
                                </a>
                            )}
                        </dd>
                    </div>
                )}
                {(experiment.checkpointCount ?? 0) > 0 && (
                    <BestCheckpoint experimentId={experiment.id} />
                )}
                <div>
                    <dt>Trials</dt>
                    <dd title={tally(trials)}>
                        {number(experiment.numTrials)} <span class="muted">· {tally(trials)}</span>
                    </dd>
                </div>
                <div>
                    <dt>Submitted</dt>
                    <dd>
                        <Ago at={experiment.startTime} /> by{" "}
                        {experiment.displayName || experiment.username}
                    </dd>
                </div>
                <div>
                    <dt>{hasEnded(state) ? "Took" : "For"}</dt>
                    <dd class="num">{duration((end - millis(experiment.startTime)) / 1000)}</dd>
                </div>
                {pool && (
                    <div>
                        <dt>Pool</dt>
                        <dd>{pool}</dd>
                    </div>
                )}
                {experiment.forkedFrom && (
                    <div>
                        <dt>Forked from</dt>
                        <dd>
                            <a href={`/experiments/${experiment.forkedFrom}`}>
                                {experiment.forkedFrom}
                            </a>
                        </dd>
                    </div>
                )}
            </dl>
            {experiment.notes && (
                <details>
                    <summary>Notes</summary>
                    <p class="notes">{experiment.notes}</p>
                    <button type="button" class="button" onClick={() => (asked.value = "about")}>
                        Edit
                    </button>
                </details>
            )}
        </div>
    );
}
