// The runs that are compared, what they reported, and their lines, read in few calls.

import { type ReadonlySignal, useSignalEffect } from "@preact/signals";
import { get } from "../../lib/api";
import { millis } from "../../lib/format";
import { follow } from "../../lib/live";
import { lowerBound, type Range, type XKind } from "../../lib/plot";
import type { Experiment, Json, JsonObject, Series, Trial } from "../../lib/types";
import * as state from "./state";

export interface Run {
    id: number;
    label: string;
    /** Colour and dash. */
    kind: number;
    /** Of an experiment, which then stands in the address instead of the trial. */
    isBest: boolean;
    trial: Trial;
    experiment: Experiment;
}

export interface Runs {
    runs: Run[];
    /** What of the address could not be read, in words. */
    failed: string[];
}

interface Chosen {
    id: number;
    isBest: boolean;
}

async function settled<A, B>(ask: readonly A[], answer: (one: A) => Promise<B>, failed: string[]) {
    const found: B[] = [];
    for (const one of await Promise.allSettled(ask.map(answer)))
        if (one.status === "fulfilled") found.push(one.value);
        else failed.push((one.reason as Error).message);
    return found;
}

export async function loadRuns(abort: AbortSignal): Promise<Runs> {
    const own = state.trials.value.map(Number);
    const of = state.experiments.value;
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
    for (const one of await settled(of, read, failed)) known.set(one.id, one);
    const chosen: Chosen[] = own.map((id) => ({ id, isBest: false }));
    for (const one of known.values())
        if (!one.bestTrialId) failed.push(`Experiment ${one.id} has no trial yet that reported its metric`);
        else if (!own.includes(one.bestTrialId)) chosen.push({ id: one.bestTrialId, isBest: true });
    const asked = await settled(
        chosen.slice(0, state.MOST),
        async ({ id, isBest }) => {
            const { trial } = await get<{ trial: Trial }>(`/trials/${id}`, {}, abort);
            return { trial, isBest };
        },
        failed,
    );
    const missing = new Set(asked.map(({ trial }) => trial.experimentId));
    for (const id of known.keys()) missing.delete(id);
    for (const one of await settled([...missing], read, failed)) known.set(one.id, one);
    const runs = asked.flatMap(({ trial, isBest }, kind) => {
        const experiment = known.get(trial.experimentId);
        if (!experiment) return [];
        return [{ id: trial.id, label: `${experiment.name} ${trial.id}`, kind, isBest, trial, experiment }];
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

const groups: Record<string, string> = {
    avg_metrics: "training",
    validation_metrics: "validation",
};

function summaries(trial: Trial): [string, Record<string, Summary>][] {
    return Object.entries(trial.summaryMetrics ?? {}).map(([key, all]) => [
        groups[key] ?? key,
        all as unknown as Record<string, Summary>,
    ]);
}

/** The searched metric first, then validations, then losses. */
function rank(metric: Metric, searched: ReadonlySet<string>): number {
    if (metric.group === "validation") return searched.has(metric.name) ? 0 : 1;
    if (metric.group === "training") return /loss/.test(metric.name) ? 2 : 3;
    return 4;
}

export function metricsOf(runs: readonly Run[]): Metric[] {
    const found = new Map<string, Metric>();
    for (const { trial } of runs)
        for (const [group, all] of summaries(trial))
            for (const [name, one] of Object.entries(all)) {
                const id = `${group}.${name}`;
                if (one.type === undefined || one.type === "number") found.set(id, { id, group, name });
            }
    const searched = new Set(runs.map((run) => run.experiment.searcherMetric ?? searchedOf(run)));
    return [...found.values()].sort(
        (a, b) => rank(a, searched) - rank(b, searched) || a.group.localeCompare(b.group),
    );
}

function searchedOf(run: Run): string {
    const searcher = run.experiment.config?.["searcher"] as JsonObject | undefined;
    return String(searcher?.["metric"] ?? "");
}

export function valueOf(run: Run, metric: Metric, pick: string): number | null {
    const group = summaries(run.trial).find(([name]) => name === metric.group)?.[1];
    const value = group?.[metric.name]?.[pick as keyof Summary];
    return value === undefined || value === null ? null : Number(value);
}

// --- lines ---------------------------------------------------------------------------------------

interface Wish {
    metric: string;
    give: (series: Series) => void;
    fail: (error: unknown) => void;
}

interface Wishes {
    path: string;
    query: Record<string, string | number>;
    all: Wish[];
}

const wishes = new Map<string, Wishes>();

/** What several charts want of a trial at the same time is one call. */
function wish(trial: number, metric: Metric, max: number, range: Range | null): Promise<Series> {
    const path = `/trials/${trial}/series`;
    const query = { group: metric.group, max, ...(range ?? {}) };
    const key = JSON.stringify([path, query]);
    if (wishes.size === 0) setTimeout(grant);
    return new Promise((give, fail) => {
        const call: Wishes = wishes.get(key) ?? { path, query, all: [] };
        call.all.push({ metric: metric.name, give, fail });
        wishes.set(key, call);
    });
}

async function ask(path: string, query: Wishes["query"], all: readonly Wish[]): Promise<void> {
    try {
        const names = [...new Set(all.map((one) => one.metric))];
        const { series } = await get<{ series: Series[] }>(path, { ...query, metric: names });
        for (const one of all) one.give(series.find((found) => found.metric === one.metric)!);
    } catch (error) {
        for (const one of all) one.fail(error);
    }
}

// Of a line. Many lines hide each other before one sees what fewer points leave out.
const POINTS = 2000;
const POINTS_OF_MANY = 800;
const FEW = 10;

const AT_ONCE = 60; // metrics of a call

function grant(): void {
    for (const { path, query, all } of wishes.values())
        for (let i = 0; i < all.length; i += AT_ONCE) void ask(path, query, all.slice(i, i + AT_ONCE));
    wishes.clear();
}

export interface Drawn {
    run: Run;
    series: Series;
}

/** The steps of a series that lie in a range of x; null: none. */
function stepsIn(drawn: Drawn, kind: XKind, range: Range): Range | null {
    const x = xOf(drawn, kind);
    const first = Math.max(0, lowerBound(x, range.from) - 1);
    const last = Math.min(x.length - 1, lowerBound(x, range.to));
    const { steps } = drawn.series;
    return first > last ? null : { from: steps[first]!, to: steps[last]! };
}

export function xOf({ run, series }: Drawn, kind: XKind): number[] {
    const start = startOf(run);
    const batch = batchOf(run);
    if (kind === "time") return series.times;
    if (kind === "elapsed") return series.times.map((time) => time - start);
    return kind === "samples" ? series.steps.map((step) => step * batch) : series.steps;
}

export const startOf = (run: Run) => millis(run.trial.startTime) / 1000;

/** Samples of a step. */
export function batchOf(run: Run): number {
    const trainer = run.experiment.config?.["trainer"] as JsonObject | undefined;
    const given: Json | undefined =
        trainer?.["global_batch_size"] ?? run.trial.hparams["global_batch_size"];
    const size = typeof given === "string" ? run.trial.hparams[given.slice(2, -1)] : given;
    return Number(size) || 1;
}

/** The series of all runs that have the metric; with a range only what lies in it, in full detail. */
export async function loadSeries(
    runs: readonly Run[],
    metric: Metric,
    zoom?: { kind: XKind; range: Range; of: readonly Drawn[] },
): Promise<Drawn[]> {
    const points = runs.length > FEW ? POINTS_OF_MANY : POINTS;
    const all = runs.map(async (run): Promise<Drawn[]> => {
        if (valueOf(run, metric, "last") === null) return [];
        const before = zoom?.of.find((drawn) => drawn.run.id === run.id);
        const steps = zoom && before ? stepsIn(before, zoom.kind, zoom.range) : null;
        const isWhole = before && before.series.total <= before.series.shown;
        if (zoom && (!steps || isWhole)) return before ? [before] : [];
        return [{ run, series: await wish(run.id, metric, points, steps) }];
    });
    return (await Promise.all(all)).flat();
}

// --- live ----------------------------------------------------------------------------------------

const QUIET_MS = 2000;
const QUIET_OF_RUN_MS = 100; // more, for each run that is read again

/** Calls `changed` some time after one of the runs has reported something. */
export function useRunEvents(runs: ReadonlySignal<readonly Run[]>, changed: () => void): void {
    useSignalEffect(() => {
        let timer: ReturnType<typeof setTimeout> | undefined;
        const quiet = QUIET_MS + QUIET_OF_RUN_MS * runs.value.length;
        const soon = () => (timer ??= setTimeout(changed, quiet));
        const topics = ["trials", "metrics"] as const;
        const ends = runs.value
            .filter((run) => !run.trial.endTime)
            .map((run) => follow({ topics, trialId: run.id }, soon, soon));
        return () => {
            clearTimeout(timer);
            for (const end of ends) end();
        };
    });
}
