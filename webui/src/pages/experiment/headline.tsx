// The headline of an experiment: its state and the reason for it, its progress, and its best results.

import { get } from "../../lib/api";
import { count, duration, formatMetric, number, stateName } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { hasEnded, remainingSeconds, displayedState } from "../../lib/experiment/state";
import type { Trial, WaitReason } from "../../lib/types";
import type { ComponentChildren } from "preact";
import { Ago, DueTime, Icon, LastLogLines, Progress, StateBadge, stateText } from "../../parts";
import { BestCheckpoint } from "../../parts/checkpoint/best_checkpoint";
import type { OpenDialog } from "./actions";
import { type ExperimentData, failedTrial } from "./experiment_data";

interface WaitState {
    reason: string;
    requestedSlots?: number;
    allocatedSlots?: number;
    waiting: WaitReason[];
}

/** The number of failures, and whether the trial starts again. */
function failureText({ restarts, failedAlike = 0, restartTime }: Trial): string {
    const often = restarts === 1 ? "once" : `${restarts} times`;
    const alike = failedAlike > 1 ? " right after each start, in the same way," : "";
    return ` failed ${often}${alike} and ${restartTime ? "restarts soon" : "restarted"}: `;
}

/** Why the experiment waits, runs or ended. */
function StateReason({ experiment, trials }: ExperimentData) {
    const { id, state } = experiment;
    const why = useLoad((abort) => get<WaitState>(`/experiments/${id}/why`, {}, abort), {
        topics: ["experiments", "trials", "queue", "agents"],
        experimentId: id,
        minIntervalS: 2,
    }).data.value;
    const failed = failedTrial(trials);
    const waits = why?.waiting[0];
    const start = why?.waiting.find((one) => one.estimatedStart)?.estimatedStart;
    return (
        <>
            {why && !hasEnded(state) && (
                <p class="state-reason">
                    {why.reason
                        ? `${waits && why.allocatedSlots ? `Trial ${waits.trialId}` : "It"} ${why.reason}.`
                        : why.allocatedSlots
                          ? `It runs on ${count(why.allocatedSlots, "slot")}.`
                          : ""}
                    {start && (
                        <>
                            {" "}
                            Estimated start: <DueTime at={start} />.
                        </>
                    )}
                    {waits && (
                        <>
                            {" "}
                            <a href="/queue">Show the queue</a>
                        </>
                    )}
                </p>
            )}
            {experiment.metricWarning && (
                <p class="state-reason">
                    <Icon name="warning" label="Metric" /> Check the metric: {experiment.metricWarning}
                    {experiment.metricWarning.endsWith("?") ? "" : "."}
                </p>
            )}
            {experiment.failureSummary && (
                <p class="state-reason">
                    <Icon name="warning" label="Failures" /> {experiment.failureSummary}.
                </p>
            )}
            {failed && (
                <p class="state-reason">
                    <Icon name="warning" label="Failure" />{" "}
                    <a href={`/trials/${failed.id}`}>Trial {failed.id}</a>
                    {hasEnded(failed.state) ? " failed: " : failureText(failed)}
                    <strong>{failed.exitReason?.replace(/; see its log$/, "")}</strong>{" "}
                    <a href={`/trials/${failed.id}?tab=log`}>Show the log</a>
                    <LastLogLines trial={failed} />
                </p>
            )}
        </>
    );
}

/** The number of trials in each state, for example "3 completed, 1 failed". */
function trialCounts(trials: readonly Trial[]): string {
    const counts = new Map<string, number>();
    for (const trial of trials) {
        const word = stateText(displayedState(trial)).toLowerCase();
        counts.set(word, (counts.get(word) ?? 0) + 1);
    }
    return [...counts].map(([word, n]) => `${number(n)} ${word}`).join(", ");
}

function TimeLeft({ experiment, trials }: ExperimentData) {
    const { progress = 0, runSeconds = 0 } = experiment;
    const isRunning = (one: { state: string }) => stateName(one.state) === "RUNNING";
    const left = remainingSeconds(progress, runSeconds, trials.filter(isRunning).length);
    return left !== undefined && isRunning(experiment) ? (
        <span class="muted num">about {duration(left)} left</span>
    ) : null;
}

function StateLine({ experiment, trials }: ExperimentData) {
    const { state, labels = [] } = experiment;
    return (
        <div class="line">
            <StateBadge state={displayedState(experiment)} />
            {experiment.archived && <span class="muted">archived</span>}
            {!hasEnded(state) && <Progress value={experiment.progress ?? 0} label="Progress" />}
            <TimeLeft experiment={experiment} trials={trials} />
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
    );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
    return (
        <div>
            <dt>{name}</dt>
            <dd>{children}</dd>
        </div>
    );
}

function Facts({ experiment, trials }: ExperimentData) {
    const { id, runSeconds = 0, ranSeconds, waitedSeconds, resourcePool, forkedFrom, bestTrialId, searcherMetric } =
        experiment;
    const counts = trialCounts(trials);
    return (
        <dl class="headline-facts">
            {searcherMetric && searcherMetric !== "none" && (
                <Fact name={`Best ${searcherMetric}`}>
                    <span class="num headline-best">
                        {formatMetric(experiment.bestTrialSearcherMetric)}
                        {bestTrialId !== undefined && <a href={`/trials/${bestTrialId}`}>trial {bestTrialId}</a>}
                    </span>
                </Fact>
            )}
            {(experiment.checkpointCount ?? 0) > 0 && <BestCheckpoint experimentId={id} />}
            <Fact name="Trials">
                <span title={counts}>
                    {number(experiment.numTrials)} <span class="muted">· {counts}</span>
                </span>
            </Fact>
            <Fact name="Submitted">
                <Ago at={experiment.startTime} /> by {experiment.displayName || experiment.username}
            </Fact>
            {ranSeconds !== undefined && (
                <Fact name="Ran">
                    <span class="num" title={`${duration(runSeconds)} over all starts of its trials`}>
                        {duration(ranSeconds)}
                    </span>
                </Fact>
            )}
            {waitedSeconds !== undefined && (
                <Fact name="Waited">
                    <span class="num" title="The time in which its trials only waited for slots">
                        {duration(waitedSeconds)}
                    </span>
                </Fact>
            )}
            {resourcePool && <Fact name="Pool">{resourcePool}</Fact>}
            {forkedFrom && (
                <Fact name="Forked from">
                    <a href={`/experiments/${forkedFrom}`}>{forkedFrom}</a>
                </Fact>
            )}
        </dl>
    );
}

export function Headline({ experiment, trials, openDialog }: ExperimentData & { openDialog: OpenDialog }) {
    return (
        <div class="headline card">
            <StateLine experiment={experiment} trials={trials} />
            <StateReason experiment={experiment} trials={trials} />
            {experiment.description && <p class="state-reason">{experiment.description}</p>}
            <Facts experiment={experiment} trials={trials} />
            {experiment.notes && (
                <details>
                    <summary>Notes</summary>
                    <p class="notes">{experiment.notes}</p>
                    <button type="button" class="button" onClick={() => (openDialog.value = "about")}>
                        Edit
                    </button>
                </details>
            )}
        </div>
    );
}
