// One trial: what it measured, what it wrote, where it ran and why it started, what it kept.

import { useComputed } from "@preact/signals";
import type { Action } from "../../lib/actions";
import { useActions } from "../../lib/actions";
import { get } from "../../lib/api";
import { count, duration, metric, now, number } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { flatten, hasEnded } from "../../lib/runs";
import { mayChange } from "../../lib/session";
import type { Experiment, Start, Trial } from "../../lib/types";
import { param, text } from "../../lib/url";
import { Ago, ErrorBox, Head, Loaded, Progress, StateBadge, Tabs, Time } from "../../parts";
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
function Cause({ trial, starts }: { trial: Trial; starts: readonly Start[] }) {
    const last = starts.at(-1);
    if (hasEnded(trial.state))
        return trial.exitReason ? <p class="cause">{trial.exitReason}</p> : null;
    if (!last || last.endTime || !last.agents.length) {
        return <p class="cause muted">It waits for slots: see why at its experiment.</p>;
    }
    return (
        <p class="cause muted">
            On {count(last.slots, "slot")} of {last.agents.join(", ")}
            {last.epoch > 1 && `, start ${last.epoch}`}
        </p>
    );
}

function Facts({ trial, experiment, starts }: Whole) {
    const searcher = experiment.searcherMetric ?? "";
    const end = trial.endTime ? Date.parse(trial.endTime) : now.value;
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
            <div>
                <dt>Starts</dt>
                <dd class="num">
                    {starts.length}
                    {trial.restarts > 0 && <span class="bad"> · {count(trial.restarts, "failure")}</span>}
                </dd>
            </div>
            <div>
                <dt>Since</dt>
                <dd>
                    <Ago at={trial.startTime} />
                </dd>
            </div>
            <div>
                <dt>Took</dt>
                <dd class="num">{duration((end - Date.parse(trial.startTime)) / 1000)}</dd>
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

export function Page({ id }: { id: string }) {
    const trialId = Number(id);
    const whole = useLoad((abort) => readTrial(id, abort), { topics: ["trials"], trialId });
    const refused = useComputed(() => {
        const data = whole.data.value;
        if (!data) return "Loading";
        if (hasEnded(data.trial.state)) return "It has ended";
        return mayChange(data.experiment.workspaceId, data.experiment.userId);
    });
    const actions: Action[] = [
        {
            name: `Kill trial ${id}`,
            icon: "kill",
            danger: "Its program ends at once; what it has not checkpointed is lost.",
            refused: refused.value,
            call: { method: "POST", path: `/trials/${id}/kill`, muster: ["trial", "kill", id] },
        },
    ];
    useActions(actions);
    const data = whole.data.value;
    const experiment = data?.experiment;
    return (
        <main>
            <Head
                title={`Trial ${id}`}
                crumbs={[
                    { title: "Experiments", href: "/experiments" },
                    ...(experiment
                        ? [
                              {
                                  title: `${experiment.id} ${experiment.name}`,
                                  href: `/experiments/${experiment.id}`,
                              },
                          ]
                        : []),
                ]}
                actions={actions}
            />
            {!Number.isInteger(trialId) ? (
                <ErrorBox error="A trial has a number: /trials/3" />
            ) : (
                <Loaded of={whole}>
                    {({ trial, experiment, starts }) => (
                        <>
                            <div class="headline card">
                                <div class="line">
                                    <StateBadge state={trial.state} />
                                    {!hasEnded(trial.state) && (
                                        <Progress value={trial.progress ?? 0} label="Progress" />
                                    )}
                                </div>
                                <Cause trial={trial} starts={starts} />
                                <Facts trial={trial} experiment={experiment} starts={starts} />
                            </div>
                            <Tabs
                                label="About the trial"
                                at={tab}
                                tabs={[
                                    { id: "metrics", title: "Metrics" },
                                    { id: "log", title: "Log" },
                                    { id: "starts", title: "Starts and ranks", count: starts.length },
                                    {
                                        id: "checkpoints",
                                        title: "Checkpoints",
                                        count: trial.checkpointCount ?? 0,
                                    },
                                    { id: "hyperparameters", title: "Hyperparameters" },
                                ]}
                            />
                            {tab.value === "metrics" && <Charts trial={trial} experiment={experiment} starts={starts} />}
                            {tab.value === "log" && <TaskLog trialId={trial.id} />}
                            {tab.value === "starts" && <Starts starts={starts} />}
                            {tab.value === "checkpoints" && (
                                <CheckpointTable experiment={experiment} trialId={trial.id} />
                            )}
                            {tab.value === "hyperparameters" && <Hyperparameters trial={trial} />}
                        </>
                    )}
                </Loaded>
            )}
        </main>
    );
}
