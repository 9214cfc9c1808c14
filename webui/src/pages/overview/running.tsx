// The running experiments, each with a live line of its loss.

import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get, isAbort } from "../../lib/api";
import { formatMetric } from "../../lib/format";
import { useEvents } from "../../lib/events/subscribe";
import { useLoad } from "../../lib/load";
import { toNumbers } from "../../lib/chart/plot";
import type { Experiment, JsonObject, Paged, Series, Trial } from "../../lib/types";
import { Ago, Loaded, Progress, Spark } from "../../parts";

const MAX_SHOWN = 12;
const POINTS = 96;
const RUNNING = "STATE_RUNNING";

// --- the loss ------------------------------------------------------------------------------------

/** The metric of a trial that is drawn. */
interface LossSeries {
    trialId: number;
    group: string;
    name: string;
    values: number[];
}

/** The most interesting metric: a loss, preferably of training, otherwise any metric. */
function chooseMetric(summary: JsonObject): { group: string; name: string } | undefined {
    const groups = [
        ["training", "avg_metrics"],
        ["validation", "validation_metrics"],
    ] as const;
    const known = groups.flatMap(([group, key]) =>
        Object.keys((summary[key] as JsonObject | undefined) ?? {}).map((name) => ({ group, name })),
    );
    return known.find(({ name }) => name === "loss")
        ?? known.find(({ name }) => name.includes("loss"))
        ?? known[0];
}

async function readLoss(experimentId: number, abort: AbortSignal): Promise<LossSeries | undefined> {
    const { trials } = await get<{ trials: Trial[] }>(
        `/experiments/${experimentId}/trials`,
        { filter: "state = running", sort: "-id", limit: 1 },
        abort,
    );
    const trial = trials[0];
    const chosen = trial && chooseMetric(trial.summaryMetrics ?? {});
    if (!chosen) return undefined;
    const { series } = await get<{ series: Series[] }>(
        `/trials/${trial.id}/series`,
        { group: chosen.group, metric: chosen.name, max: POINTS },
        abort,
    );
    return { trialId: trial.id, ...chosen, values: [...toNumbers(series[0]?.values ?? [])] };
}

/** Appends a value. If there are too many, every second one is dropped. */
export function appendPoint(values: readonly number[], value: number): number[] {
    const kept = values.length < 2 * POINTS ? values : values.filter((_, i) => i % 2 === 1);
    return [...kept, value];
}

function useLoss(experimentId: number): Signal<LossSeries | undefined> {
    const loss = useSignal<LossSeries | undefined>(undefined);
    const round = useSignal(0);
    useEffect(() => {
        const abort = new AbortController();
        readLoss(experimentId, abort.signal).then(
            (drawn) => (loss.value = drawn),
            (error) => isAbort(error) || (loss.value = undefined),
        );
        return () => abort.abort();
    }, [experimentId, round.value]);
    useEvents(
        { topics: ["metrics", "trials"], experimentId },
        (event) => {
            const drawn = loss.peek();
            if (event.topic === "trials" && event.id === drawn?.trialId) {
                if (event.state !== RUNNING) round.value++;
                return;
            }
            if (event.topic !== "metrics") return;
            if (!drawn) round.value++;
            else if (event.trialId === drawn.trialId && event.group === drawn.group) {
                const value = Number(event.metrics?.[drawn.name] ?? NaN);
                if (Number.isFinite(value))
                    loss.value = { ...drawn, values: appendPoint(drawn.values, value) };
            }
        },
        () => round.value++,
    );
    return loss;
}

// --- the list ------------------------------------------------------------------------------------

function RunningRow({ experiment }: { experiment: Experiment }) {
    const loss = useLoss(experiment.id).value;
    const last = loss?.values.at(-1);
    return (
        <li class="running">
            <div class="running-name">
                <a href={`/experiments/${experiment.id}`}>
                    #{experiment.id} {experiment.name}
                </a>
                <p class="muted">
                    {experiment.username} in {experiment.workspaceName}, submitted{" "}
                    <Ago at={experiment.startTime} />
                </p>
            </div>
            <span class="running-loss">
                {loss && last !== undefined ? (
                    <>
                        <Spark
                            values={loss.values}
                            label={`${loss.name} of trial ${loss.trialId} so far`}
                        />
                        <span class="num">
                            <span class="muted">{loss.name}</span> <b>{formatMetric(last)}</b>
                        </span>
                    </>
                ) : (
                    <span class="muted">no metrics yet</span>
                )}
            </span>
            <Progress value={experiment.progress ?? 0} label={`Progress of ${experiment.name}`} />
        </li>
    );
}

type Listed = { experiments: Experiment[] } & Paged;

export function RunningExperiments() {
    const list = useLoad(
        (abort) =>
            get<Listed>(
                "/experiments",
                { filter: "state = running", sort: "-started", limit: MAX_SHOWN, omit: "config" },
                abort,
            ),
    );
    const progress = useSignal<Readonly<Record<number, number>>>({});
    useEvents(
        { topics: ["experiments"] },
        (event) => {
            if (event.topic !== "experiments") return;
            const known = list.data.peek()?.experiments.some((one) => one.id === event.id);
            const isRunning = !event.deleted && event.state === RUNNING;
            const isFull = (list.data.peek()?.pagination.total ?? 0) > MAX_SHOWN;
            if (known ? !isRunning : isRunning && !isFull) list.reload();
            else if (known) progress.value = { ...progress.peek(), [event.id]: event.progress };
        },
        list.reload,
    );
    return (
        <section class="card stack" aria-label="Running experiments">
            <Loaded load={list}>
                {({ experiments, pagination: { total } }) => (
                    <>
                        <div class="spread">
                            <h2>
                                Running <span class="muted num">{total}</span>
                            </h2>
                            <a href="/experiments?filter=state+%3D+RUNNING">
                                {total > MAX_SHOWN ? `All ${total}` : "Experiments"}
                            </a>
                        </div>
                        {total === 0 && <p class="muted">No experiments are running.</p>}
                        <ul class="overview-list">
                            {experiments.map((one) => {
                                const now = progress.value[one.id];
                                const known = now === undefined ? one : { ...one, progress: now };
                                return <RunningRow key={one.id} experiment={known} />;
                            })}
                        </ul>
                    </>
                )}
            </Loaded>
        </section>
    );
}
