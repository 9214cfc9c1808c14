// One trial: what it measured, what it wrote, where it ran and why it started, what it kept.

import type { Action } from "../../lib/actions";
import { useActions } from "../../lib/actions";
import { get } from "../../lib/api";
import { count, duration, metric, now, number } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { flatten, hasEnded, secondsRan, stoppedEarly } from "../../lib/runs";
import { mayChange } from "../../lib/session";
import type { Experiment, Start, Trial } from "../../lib/types";
import { param, text } from "../../lib/url";
import { Ago, Due, Head, LastWords, Loaded, Progress, Tabs, Time, TrialState } from "../../parts";
import { BestCheckpoint } from "../../parts/checkpoint";
import { CheckpointTable } from "../../parts/checkpoint_table";
import { TaskLog } from "../../parts/task_log";
import { Charts } from "./charts";
import { Starts } from "./starts";
import "./trial.css";

const tab = param("tab", text("metrics"));

interface Whole {
    trial: Trial;
    experiment: Experiment;
    starts: Start[];
}

async function readTrial(id: string, abort: AbortSignal): Promise<Whole> {
    const [{ trial }, { starts }] = await Promise.all([
        get<{ trial: Trial }>(`/trials/${id}`, {}, abort),
        get<{ starts: Start[] }>(`/trials/${id}/starts`, {}, abort),
    ]);
    const path = `/experiments/${trial.experimentId}`;
    const { experiment } = await get<{ experiment: Experiment }>(path, {}, abort);
    return { trial, experiment, starts };
}

/** What runs now, and where; or how it ended. */
function Cause({ trial, experiment, starts }: Whole) {
    const last = starts.at(-1);
    if (stoppedEarly(trial, experiment))
        return <p class="cause muted">Stopped early by the search: others did better.</p>;
    if (trial.state.endsWith("COMPLETED"))
        return trial.restarts > 0 && trial.exitReason ? (
            <p class="cause muted">
                It failed {trial.restarts === 1 ? "once" : `${trial.restarts} times`} on the way:{" "}
                {trial.exitReason}
            </p>
        ) : null;
    if (hasEnded(trial.state))
        return trial.exitReason ? (
            <p class="cause">
                <strong>{trial.exitReason}</strong> <a href="?tab=log">See its log</a>
                <LastWords trial={trial} />
            </p>
        ) : null;
    if (experiment.unmanaged)
        return <p class="cause muted">Its program runs outside of the cluster.</p>;
    if (trial.restartTime)
        return (
            <p class="cause">
                It failed{(trial.failedAlike ?? 0) > 1 && " again in the same way, right after its start"}:{" "}
                <strong>{trial.exitReason}</strong>. It starts again <Due at={trial.restartTime} />.
                <LastWords trial={trial} />
            </p>
        );
    if (!last || last.endTime || !last.agents.length)
        return (
            <p class="cause">
                It has no slots now: <a href={`/experiments/${experiment.id}`}>its experiment</a>{" "}
                says why.
            </p>
        );
    return (
        <p class="cause muted">
            On {count(last.slots, "slot")} of {last.agents.join(", ")}
            {last.epoch > 1 && `, start ${last.epoch}`}
        </p>
    );
}

function Facts({ trial, experiment, starts }: Whole) {
    const searcher = experiment.searcherMetric ?? "";
    const ran = secondsRan(starts, now.value);
    return (
        <dl class="headline-facts">
            <div>
                <dt>Steps</dt>
                <dd class="num">{number(trial.totalBatchesProcessed)}</dd>
            </div>
            {searcher && (
                <div>
                    <dt>Best {searcher}</dt>
                    <dd class="num">{metric(trial.searcherMetricValue)}</dd>
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
                <dt>Since</dt>
                <dd>
                    <Ago at={trial.startTime} />
                </dd>
            </div>
            <div>
                <dt>Ran</dt>
                <dd class="num" title="All of its starts together, without what it waited">
                    {duration(ran)}
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
                        <dd class="mono">{typeof value === "number" ? metric(value) : value}</dd>
                    </>
                ))}
                <dt>seed</dt>
                <dd class="mono">{trial.seed}</dd>
                <dt>begun</dt>
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

function Panel({ trial, experiment, starts }: Whole) {
    switch (tab.value) {
        case "log":
            return <TaskLog trialId={trial.id} />;
        case "starts":
            return <Starts starts={starts} />;
        case "checkpoints":
            return <CheckpointTable experiment={experiment} trialId={trial.id} />;
        case "hyperparameters":
            return <Hyperparameters trial={trial} />;
        default:
            return <Charts trial={trial} experiment={experiment} starts={starts} />;
    }
}

function Everything(whole: Whole) {
    const { trial, starts } = whole;
    const tabs = [
        { id: "metrics", title: "Metrics" },
        { id: "log", title: "Log" },
        { id: "starts", title: "Starts and ranks", count: starts.length },
        { id: "checkpoints", title: "Checkpoints", count: trial.checkpointCount ?? 0 },
        { id: "hyperparameters", title: "Hyperparameters" },
    ];
    return (
        <>
            <div class="headline card">
                <div class="line">
                    <TrialState trial={trial} experiment={whole.experiment} />
                    {!hasEnded(trial.state) && (
                        <Progress value={trial.progress ?? 0} label="Progress" />
                    )}
                </div>
                <Cause {...whole} />
                <Facts {...whole} />
            </div>
            <Tabs label="About the trial" at={tab} tabs={tabs} />
            <h2 class="hidden">{tabs.find(({ id }) => id === tab.value)?.title}</h2>
            <Panel {...whole} />
        </>
    );
}

function actionsOf({ trial, experiment }: Whole): Action[] {
    const { id } = trial;
    if (hasEnded(trial.state)) return [];
    return [
        {
            name: `Kill trial ${id}`,
            icon: "kill",
            danger: "Its program ends at once; what it has not checkpointed is lost.",
            refused: mayChange(experiment.workspaceId, experiment.userId),
            call: { method: "POST", path: `/trials/${id}/kill`, muster: ["trial", "kill", id] },
        },
    ];
}

export function Page({ id }: { id: string }) {
    const trialId = Number(id);
    const whole = useLoad((abort) => readTrial(id, abort), { topics: ["trials"], trialId });
    const data = whole.data.value;
    const experiment = data?.experiment;
    const actions = data ? actionsOf(data) : [];
    useActions(actions);
    const crumbs = [{ title: "Experiments", href: "/experiments" }];
    if (experiment)
        crumbs.push({
            title: `${experiment.id} ${experiment.name}`,
            href: `/experiments/${experiment.id}`,
        });
    return (
        <main>
            <Head title={`Trial ${id}`} crumbs={crumbs} actions={actions} />
            <Loaded of={whole}>{(all) => <Everything {...all} />}</Loaded>
        </main>
    );
}
