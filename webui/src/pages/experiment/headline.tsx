// How it stands, in words: the state and its cause, how far it is, what is best.

import { get } from "../../lib/api";
import { count, duration, metric, number, stateWord } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { hasEnded, secondsLeft, shownState } from "../../lib/runs";
import type { Trial, WaitReason } from "../../lib/types";
import { Ago, Due, Icon, LastWords, Progress, StateBadge, stateText } from "../../parts";
import { BestCheckpoint } from "../../parts/checkpoint";
import type { Asked } from "./actions";
import { type Known, troubledTrial } from "./known";

interface Why {
    reason: string;
    requestedSlots?: number;
    allocatedSlots?: number;
    waiting: WaitReason[];
}

/** How often it failed, and what follows. */
function failedOften({ restarts, failedAlike = 0, restartTime }: Trial): string {
    const often = restarts === 1 ? "once" : `${restarts} times`;
    const alike = failedAlike > 1 ? ", in the same way right after each start," : "";
    return ` failed ${often}${alike} and ${restartTime ? "starts again soon" : "started again"}: `;
}

/** Why it waits, runs, or came to its end. */
function Cause({ experiment, trials }: Known) {
    const { id, state } = experiment;
    const why = useLoad((abort) => get<Why>(`/experiments/${id}/why`, {}, abort), {
        topics: ["experiments", "trials", "queue", "agents"],
        experimentId: id,
        every: 2,
    }).data.value;
    const trouble = troubledTrial(trials);
    const waits = why?.waiting[0];
    const start = why?.waiting.find((one) => one.estimatedStart)?.estimatedStart;
    return (
        <>
            {why && !hasEnded(state) && (
                <p class="cause">
                    {why.reason
                        ? `${waits && why.allocatedSlots ? `Trial ${waits.trialId}` : "It"} ${why.reason}.`
                        : why.allocatedSlots
                          ? `It runs on ${count(why.allocatedSlots, "slot")}.`
                          : ""}
                    {start && (
                        <>
                            {" "}
                            It may start <Due at={start} />.
                        </>
                    )}
                    {waits && (
                        <>
                            {" "}
                            <a href="/queue">Change its place in the queue</a>
                        </>
                    )}
                </p>
            )}
            {trouble && (
                <p class="cause">
                    <Icon name="warning" label="Failure" />{" "}
                    <a href={`/trials/${trouble.id}`}>Trial {trouble.id}</a>
                    {hasEnded(trouble.state) ? " failed: " : failedOften(trouble)}
                    <strong>{trouble.exitReason?.replace(/; see its log$/, "")}</strong>{" "}
                    <a href={`/trials/${trouble.id}?tab=log`}>See its log</a>
                    <LastWords trial={trouble} />
                </p>
            )}
        </>
    );
}

function tally(trials: readonly Trial[]): string {
    const counts = new Map<string, number>();
    for (const trial of trials) {
        const word = stateText(shownState(trial)).toLowerCase();
        counts.set(word, (counts.get(word) ?? 0) + 1);
    }
    return [...counts].map(([word, n]) => `${number(n)} ${word}`).join(", ");
}

function Left({ experiment, trials }: Known) {
    const { progress = 0, runSeconds = 0 } = experiment;
    const runs = (one: { state: string }) => stateWord(one.state) === "RUNNING";
    const left = secondsLeft(progress, runSeconds, trials.filter(runs).length);
    return left !== undefined && runs(experiment) ? (
        <span class="muted num">about {duration(left)} left</span>
    ) : null;
}

export function Headline(props: Known & { asked: Asked }) {
    const { experiment, trials, asked } = props;
    const { state, labels = [], runSeconds: ran = 0 } = experiment;
    const pool = experiment.resourcePool;
    return (
        <div class="headline card">
            <div class="line">
                <StateBadge state={shownState(experiment)} />
                {experiment.archived && <span class="muted">archived</span>}
                {!hasEnded(state) && <Progress value={experiment.progress ?? 0} label="Progress" />}
                <Left experiment={experiment} trials={trials} />
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
                {ran > 0 && (
                    <div>
                        <dt>Ran</dt>
                        <dd class="num" title="All starts of its trials together">
                            {duration(ran)}
                        </dd>
                    </div>
                )}
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
