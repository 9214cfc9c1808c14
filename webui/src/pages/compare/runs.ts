// The compared runs, their metrics and their series, loaded with few calls.

import { type ReadonlySignal, useSignalEffect } from "@preact/signals";
import { get } from "../../lib/api";
import { millis } from "../../lib/format";
import { followEvents } from "../../lib/events/subscribe";
import { lowerBound, type Range, type XKind } from "../../lib/chart/plot";
import type { Experiment, Json, JsonObject, Series, Trial } from "../../lib/types";
import * as state from "./state";

export interface Run {
    id: number;
    label: string;
    /** Selects colour and dash. */
    styleIndex: number;
    /** The best trial of an experiment. The address then names the experiment, not the trial. */
    isBest: boolean;
    trial: Trial;
    experiment: Experiment;
}

export interface Runs {
    runs: Run[];
    /** Messages about runs of the address that could not be loaded. */
    failed: string[];
}

interface ChosenTrial {
    id: number;
    isBest: boolean;
}

async function settleAll<A, B>(asked: readonly A[], answer: (one: A) => Promise<B>, failed: string[]) {
    const found: B[] = [];
    for (const one of await Promise.allSettled(asked.map(answer)))
        if (one.status === "fulfilled") found.push(one.value);
        else failed.push((one.reason as Error).message);
    return found;
}

export async function loadRuns(abort: AbortSignal): Promise<Runs> {
    const trialIds = state.trials.value.map(Number);
    const experimentIds = state.experiments.value;
    const failed: string[] = [];
    const known = new Map<number, Experiment>();
    const read = async (id: number | string) => {
        const answer = await get<{ experiment: Experiment; config?: JsonObject }>(
            `/experiments/${id}`,
            {},
            abort,
        );
        return { ...answer.experiment, config: answer.config ?? answer.experiment.config ?? {} };
    };
    for (const one of await settleAll(experimentIds, read, failed)) known.set(one.id, one);
    const chosen: ChosenTrial[] = trialIds.map((id) => ({ id, isBest: false }));
    for (const one of known.values())
        if (!one.bestTrialId) failed.push(`Experiment ${one.id} has no trial yet that reported its metric`);
        else if (!trialIds.includes(one.bestTrialId)) chosen.push({ id: one.bestTrialId, isBest: true });
    const found = await settleAll(
        chosen.slice(0, state.MAX_RUNS),
        async ({ id, isBest }) => {
            const { trial } = await get<{ trial: Trial }>(`/trials/${id}`, {}, abort);
            return { trial, isBest };
        },
        failed,
    );
    const missing = new Set(found.map(({ trial }) => trial.experimentId));
    for (const id of known.keys()) missing.delete(id);
    for (const one of await settleAll([...missing], read, failed)) known.set(one.id, one);
    const runs = found.flatMap(({ trial, isBest }, styleIndex) => {
        const experiment = known.get(trial.experimentId);
        if (!experiment) return [];
        return [{ id: trial.id, label: `${experiment.name} ${trial.id}`, styleIndex, isBest, trial, experiment }];
    });
    return { runs, failed };
}

export function removeRun(run: Run): void {
    const out = run.isBest ? state.experiments : state.trials;
    const id = String(run.isBest ? run.experiment.id : run.id);
    out.value = out.value.filter((one) => one !== id);
}

// --- metrics -------------------------------------------------------------------------------------

export interface Metric {
    id: string;
    group: string;
    name: string;
}

interface Summary {
    last?: number | string | null;
    min?: number | null;
    max?: number | null;
    type?: string;
}

const groupNames: Record<string, string> = {
    avg_metrics: "training",
    validation_metrics: "validation",
};

function summaries(trial: Trial): [string, Record<string, Summary>][] {
    return Object.entries(trial.summaryMetrics ?? {}).map(([key, all]) => [
        groupNames[key] ?? key,
        all as unknown as Record<string, Summary>,
    ]);
}

/** Sorts the searcher's metric first, then validation metrics, then losses. */
function metricRank(metric: Metric, searched: ReadonlySet<string>): number {
    if (metric.group === "validation") return searched.has(metric.name) ? 0 : 1;
    if (metric.group === "training") return /loss/.test(metric.name) ? 2 : 3;
    return 4;
}

export function metricsOfRuns(runs: readonly Run[]): Metric[] {
    const found = new Map<string, Metric>();
    for (const { trial } of runs)
        for (const [group, all] of summaries(trial))
            for (const [name, one] of Object.entries(all)) {
                const id = `${group}.${name}`;
                if (one.type === undefined || one.type === "number") found.set(id, { id, group, name });
            }
    const searched = new Set(runs.map((run) => run.experiment.searcherMetric ?? searcherMetric(run)));
    return [...found.values()].sort(
        (a, b) => metricRank(a, searched) - metricRank(b, searched) || a.group.localeCompare(b.group),
    );
}

function searcherMetric(run: Run): string {
    const searcher = run.experiment.config?.["searcher"] as JsonObject | undefined;
    return String(searcher?.["metric"] ?? "");
}

export function metricValue(run: Run, metric: Metric, pick: string): number | null {
    const group = summaries(run.trial).find(([name]) => name === metric.group)?.[1];
    const value = group?.[metric.name]?.[pick as keyof Summary];
    return value === undefined || value === null ? null : Number(value);
}

// --- lines ---------------------------------------------------------------------------------------

interface SeriesRequest {
    metric: string;
    resolve: (series: Series) => void;
    reject: (error: unknown) => void;
}

interface SeriesBatch {
    path: string;
    query: Record<string, string | number>;
    requests: SeriesRequest[];
}

const pendingBatches = new Map<string, SeriesBatch>();

/** Requests of several charts for the same trial are combined into one call. */
function requestSeries(trial: number, metric: Metric, max: number, range: Range | null): Promise<Series> {
    const path = `/trials/${trial}/series`;
    const query = { group: metric.group, max, ...(range ?? {}) };
    const key = JSON.stringify([path, query]);
    if (pendingBatches.size === 0) setTimeout(sendBatches);
    return new Promise((resolve, reject) => {
        const call: SeriesBatch = pendingBatches.get(key) ?? { path, query, requests: [] };
        call.requests.push({ metric: metric.name, resolve, reject });
        pendingBatches.set(key, call);
    });
}

async function fetchSeries(path: string, query: SeriesBatch["query"], requests: readonly SeriesRequest[]): Promise<void> {
    try {
        const names = [...new Set(requests.map((request) => request.metric))];
        const { series } = await get<{ series: Series[] }>(path, { ...query, metric: names });
        for (const one of requests) one.resolve(series.find((found) => found.metric === one.metric)!);
    } catch (error) {
        for (const one of requests) one.reject(error);
    }
}

// Points per line. With many lines, fewer points per line are enough.
const POINTS = 2000;
const POINTS_OF_MANY = 800;
const MANY_RUNS = 10;

const METRICS_PER_CALL = 60; // at most

function sendBatches(): void {
    for (const { path, query, requests } of pendingBatches.values())
        for (let i = 0; i < requests.length; i += METRICS_PER_CALL)
            void fetchSeries(path, query, requests.slice(i, i + METRICS_PER_CALL));
    pendingBatches.clear();
}

export interface RunSeries {
    run: Run;
    series: Series;
}

/** The steps of a series within a range of x; null: none. */
function stepRange(drawn: RunSeries, kind: XKind, range: Range): Range | null {
    const x = xValues(drawn, kind);
    const first = Math.max(0, lowerBound(x, range.from) - 1);
    const last = Math.min(x.length - 1, lowerBound(x, range.to));
    const { steps } = drawn.series;
    return first > last ? null : { from: steps[first]!, to: steps[last]! };
}

export function xValues({ run, series }: RunSeries, kind: XKind): number[] {
    const start = startTime(run);
    const batch = batchSize(run);
    if (kind === "time") return series.times;
    if (kind === "elapsed") return series.times.map((time) => time - start);
    return kind === "samples" ? series.steps.map((step) => step * batch) : series.steps;
}

export const startTime = (run: Run) => millis(run.trial.startTime) / 1000;

/** Samples per step. */
export function batchSize(run: Run): number {
    const trainer = run.experiment.config?.["trainer"] as JsonObject | undefined;
    const given: Json | undefined =
        trainer?.["global_batch_size"] ?? run.trial.hparams["global_batch_size"];
    const size = typeof given === "string" ? run.trial.hparams[given.slice(2, -1)] : given;
    return Number(size) || 1;
}

/** The series of all runs that have the metric. With `zoom`, only the zoomed range, in full detail. */
export async function loadSeries(
    runs: readonly Run[],
    metric: Metric,
    zoom?: { kind: XKind; range: Range; of: readonly RunSeries[] },
): Promise<RunSeries[]> {
    const points = runs.length > MANY_RUNS ? POINTS_OF_MANY : POINTS;
    const all = runs.map(async (run): Promise<RunSeries[]> => {
        if (metricValue(run, metric, "last") === null) return [];
        const before = zoom?.of.find((drawn) => drawn.run.id === run.id);
        const steps = zoom && before ? stepRange(before, zoom.kind, zoom.range) : null;
        const isWhole = before && before.series.total <= before.series.shown;
        if (zoom && (!steps || isWhole)) return before ? [before] : [];
        return [{ run, series: await requestSeries(run.id, metric, points, steps) }];
    });
    return (await Promise.all(all)).flat();
}

// --- live ----------------------------------------------------------------------------------------

const RELOAD_DELAY_MS = 2000;
const RELOAD_DELAY_PER_RUN_MS = 100; // added for each run, because all runs are loaded again

/** Calls `changed` some time after one of the runs has reported values. */
export function useRunEvents(runs: ReadonlySignal<readonly Run[]>, changed: () => void): void {
    useSignalEffect(() => {
        let timer: ReturnType<typeof setTimeout> | undefined;
        const quiet = RELOAD_DELAY_MS + RELOAD_DELAY_PER_RUN_MS * runs.value.length;
        const soon = () => (timer ??= setTimeout(changed, quiet));
        const topics = ["trials", "metrics"] as const;
        const ends = runs.value
            .filter((run) => !run.trial.endTime)
            .map((run) => followEvents({ topics, trialId: run.id }, soon, soon));
        return () => {
            clearTimeout(timer);
            for (const end of ends) end();
        };
    });
}
