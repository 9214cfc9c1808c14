// The page of a trial: its metrics, log, starts, checkpoints and hyperparameters.

import type { Action } from "../../lib/actions";
import { useActions } from "../../lib/actions";
import { get } from "../../lib/api";
import { count, duration, formatMetric, now, number } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { flatten } from "../../lib/experiment/hyperparameters";
import { totalRunSeconds } from "../../lib/experiment/starts";
import { hasEnded, stoppedEarly } from "../../lib/experiment/state";
import { changeDeniedReason } from "../../lib/session";
import type { Experiment, Start, Trial } from "../../lib/types";
import { queryParam, text } from "../../lib/url";
import { Ago, DueTime, PageHead, LastLogLines, Loaded, Progress, Tabs, Time, TrialState } from "../../parts";
import { BestCheckpoint } from "../../parts/checkpoint/best_checkpoint";
import { CheckpointTable } from "../../parts/checkpoint/checkpoint_table";
import { TaskLog } from "../../parts/log/task_log";
import { Charts } from "./charts";
import { Media } from "./media";
import { Starts } from "./starts";
import "./trial.css";

const tab = queryParam("tab", text("metrics"));

interface TrialData {
    trial: Trial;
    experiment: Experiment;
    starts: Start[];
}

async function readTrial(id: string, abort: AbortSignal): Promise<TrialData> {
    const [{ trial }, { starts }] = await Promise.all([
        get<{ trial: Trial }>(`/trials/${id}`, {}, abort),
        get<{ starts: Start[] }>(`/trials/${id}/starts`, {}, abort),
    ]);
    const path = `/experiments/${trial.experimentId}`;
    const { experiment } = await get<{ experiment: Experiment }>(path, {}, abort);
    return { trial, experiment, starts };
}

/** Where the trial runs, why it waits, or how it ended. */
function StateReason({ trial, experiment, starts }: TrialData) {
    const last = starts.at(-1);
    if (stoppedEarly(trial, experiment))
        return <p class="state-reason muted">Stopped early by the search because other trials were better.</p>;
    if (trial.state.endsWith("COMPLETED"))
        return trial.restarts > 0 && trial.exitReason ? (
            <p class="state-reason muted">
                Failed {trial.restarts === 1 ? "once" : `${trial.restarts} times`} before it completed:{" "}
                {trial.exitReason}
            </p>
        ) : null;
    if (hasEnded(trial.state))
        return trial.exitReason ? (
            <p class="state-reason">
                <strong>{trial.exitReason}</strong> <a href="?tab=log">Show the log</a>
                <LastLogLines trial={trial} />
            </p>
        ) : null;
    if (experiment.unmanaged)
        return <p class="state-reason muted">The program of this trial runs outside of the cluster.</p>;
    if (trial.restartTime)
        return (
            <p class="state-reason">
                Failed{(trial.failedAlike ?? 0) > 1 && " again right after its start, in the same way"}:{" "}
                <strong>{trial.exitReason}</strong>. Restart: <DueTime at={trial.restartTime} />.
                <LastLogLines trial={trial} />
            </p>
        );
    if (!last || last.endTime || !last.agents.length)
        return (
            <p class="state-reason">
                The trial has no slots now. See <a href={`/experiments/${experiment.id}`}>its experiment</a> for
                the reason.
            </p>
        );
    return (
        <p class="state-reason muted">
            On {count(last.slots, "slot")} of {last.agents.join(", ")}
            {last.epoch > 1 && `, start ${last.epoch}`}
        </p>
    );
}

function Facts({ trial, experiment, starts }: TrialData) {
    const searcher = experiment.searcherMetric ?? "";
    const ran = totalRunSeconds(starts, now.value);
    return (
        <dl class="headline-facts">
            <div>
                <dt>Steps</dt>
                <dd class="num">{number(trial.totalBatchesProcessed)}</dd>
            </div>
            {searcher && (
                <div>
                    <dt>Best {searcher}</dt>
                    <dd class="num">{formatMetric(trial.searcherMetricValue)}</dd>
                </div>
            )}
            {(trial.checkpointCount ?? 0) > 0 && (
                <BestCheckpoint experimentId={experiment.id} trialId={trial.id} />
            )}
            <div>
                <dt>Starts</dt>
                <dd class="num">
                    {starts.length}
                    {trial.restarts > 0 && (
                        <span class="bad"> · {count(trial.restarts, "failure")}</span>
                    )}
                </dd>
            </div>
            <div>
                <dt>Started</dt>
                <dd>
                    <Ago at={trial.startTime} />
                </dd>
            </div>
            <div>
                <dt>Ran</dt>
                <dd class="num" title="The sum over all starts, without waiting">
                    {duration(ran)}
                </dd>
            </div>
            <div>
                <dt>Waited</dt>
                <dd class="num" title="For its slots, over all starts; pauses do not count">
                    {duration(trial.waitedSeconds)}
                </dd>
            </div>
            <div>
                <dt>Checkpoints</dt>
                <dd class="num">{trial.checkpointCount ?? 0}</dd>
            </div>
        </dl>
    );
}

function Hyperparameters({ trial }: { trial: Trial }) {
    const values = [...flatten(trial.hparams)];
    return (
        <div class="card">
            <dl class="facts">
                {values.map(([name, value]) => (
                    <>
                        <dt key={name}>{name}</dt>
                        <dd class="mono">{typeof value === "number" ? formatMetric(value) : value}</dd>
                    </>
                ))}
                <dt>seed</dt>
                <dd class="mono">{trial.seed}</dd>
                <dt>started</dt>
                <dd>
                    <Time at={trial.startTime} />
                </dd>
                {trial.endTime && (
                    <>
                        <dt>ended</dt>
                        <dd>
                            <Time at={trial.endTime} />
                        </dd>
                    </>
                )}
                <dt>task</dt>
                <dd class="mono">{trial.taskId}</dd>
            </dl>
        </div>
    );
}

function Panel({ trial, experiment, starts }: TrialData) {
    switch (tab.value) {
        case "log":
            return <TaskLog trialId={trial.id} />;
        case "starts":
            return <Starts starts={starts} />;
        case "checkpoints":
            return <CheckpointTable experiment={experiment} trialId={trial.id} />;
        case "media":
            return <Media trialId={trial.id} />;
        case "hyperparameters":
            return <Hyperparameters trial={trial} />;
        default:
            return <Charts trial={trial} experiment={experiment} starts={starts} />;
    }
}

function TrialView(data: TrialData) {
    const { trial, starts } = data;
    const tabs = [
        { id: "metrics", title: "Metrics" },
        { id: "media", title: "Media" },
        { id: "log", title: "Log" },
        { id: "starts", title: "Starts and ranks", count: starts.length },
        { id: "checkpoints", title: "Checkpoints", count: trial.checkpointCount ?? 0 },
        { id: "hyperparameters", title: "Hyperparameters" },
    ];
    return (
        <>
            <div class="headline card">
                <div class="line">
                    <TrialState trial={trial} experiment={data.experiment} />
                    {!hasEnded(trial.state) && (
                        <Progress value={trial.progress ?? 0} label="Progress" />
                    )}
                </div>
                <StateReason {...data} />
                <Facts {...data} />
            </div>
            <Tabs label="Trial" bind={tab} tabs={tabs} />
            <h2 class="hidden">{tabs.find(({ id }) => id === tab.value)?.title}</h2>
            <Panel {...data} />
        </>
    );
}

function trialActions({ trial, experiment }: TrialData): Action[] {
    const { id } = trial;
    if (hasEnded(trial.state)) return [];
    return [
        {
            name: `Kill trial ${id}`,
            icon: "kill",
            danger: "Its program ends at once. Work since its last checkpoint is lost.",
            disabledReason: changeDeniedReason(experiment.workspaceId, experiment.userId),
            call: { method: "POST", path: `/trials/${id}/kill`, muster: ["trial", "kill", id] },
        },
    ];
}

export function Page({ id }: { id: string }) {
    const trialId = Number(id);
    const load = useLoad((abort) => readTrial(id, abort), { topics: ["trials"], trialId });
    const data = load.data.value;
    const experiment = data?.experiment;
    const actions = data ? trialActions(data) : [];
    useActions(actions);
    const crumbs = [{ title: "Experiments", href: "/experiments" }];
    if (experiment)
        crumbs.push({
            title: `${experiment.id} ${experiment.name}`,
            href: `/experiments/${experiment.id}`,
        });
    return (
        <main>
            <PageHead title={`Trial ${id}`} crumbs={crumbs} actions={actions} />
            <Loaded load={load}>{(all) => <TrialView {...all} />}</Loaded>
        </main>
    );
}
