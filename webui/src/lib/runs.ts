// Experiments and trials: what is known of them beside what the master says word for word. Pure.

import { millis, stateWord } from "./format";
import type { Line, Range, XKind } from "./plot";
import { lineOf, lowerBound } from "./plot";
import type { AuditRow, Experiment, Json, JsonObject, Series, Start, Trial } from "./types";

const ENDED = new Set(["COMPLETED", "CANCELED", "ERROR"]);

export const hasEnded = (state: string): boolean => ENDED.has(stateWord(state));
export const isStopping = (state: string): boolean => stateWord(state).startsWith("STOPPING");

/** The state to show: what is paused and holds slots still is pausing. */
export const shownState = (of: { state: string; liveAllocations?: number }): string =>
    stateWord(of.state) === "PAUSED" && (of.liveAllocations ?? 0) > 0 ? "STOPPING_PAUSED" : of.state;

// --- metrics -------------------------------------------------------------------------------------

export interface MetricName {
    group: string;
    name: string;
}

const groupWords: Record<string, string> = {
    avg_metrics: "training",
    validation_metrics: "validation",
};

const isObject = (value: Json | undefined): value is JsonObject =>
    typeof value === "object" && value !== null && !Array.isArray(value);

/** Every metric that has numbers in one of the trials, by group and name; validation first. */
export function metricsOf(trials: readonly Pick<Trial, "summaryMetrics">[]): MetricName[] {
    const found = new Map<string, MetricName>();
    for (const { summaryMetrics } of trials)
        for (const [key, metrics] of Object.entries(summaryMetrics ?? {})) {
            if (!isObject(metrics)) continue;
            const group = groupWords[key] ?? key;
            for (const [name, facts] of Object.entries(metrics))
                if (isObject(facts) && facts["type"] === "number")
                    found.set(`${group}.${name}`, { group, name });
        }
    const weight = (name: string) => (/loss/.test(name) ? 2 : /acc|error|score/.test(name) ? 1 : 0);
    const rank = (group: string) => (group === "validation" ? 0 : group === "training" ? 1 : 2);
    return [...found.values()].sort(
        (a, b) =>
            rank(a.group) - rank(b.group) ||
            a.group.localeCompare(b.group) ||
            weight(b.name) - weight(a.name) ||
            a.name.localeCompare(b.name),
    );
}

/** Last value, least, mean, greatest of a metric of a trial. */
export function summaryOf(
    trial: Pick<Trial, "summaryMetrics">,
    { group, name }: MetricName,
): JsonObject | undefined {
    const key = Object.keys(groupWords).find((word) => groupWords[word] === group) ?? group;
    const metrics = trial.summaryMetrics?.[key];
    const facts = isObject(metrics) ? metrics[name] : undefined;
    return isObject(facts) ? facts : undefined;
}

/** A metric for people: with its group only where the name leaves that open. */
export const titleOf = ({ group, name }: MetricName): string =>
    name.startsWith(group) || (group === "training" && name !== "loss") ? name : `${group} ${name}`;

/** What muster-trainer reports of itself, not of the model. */
export function isOfMachine({ name }: MetricName): boolean {
    return /_ms$|_mb$|_per_second$|^mfu$|^exposed_share$/.test(name);
}

// --- series of a chart ---------------------------------------------------------------------------

/** The steps that a range of x spans in a series. */
export function stepsWithin(line: Pick<Line, "x">, steps: readonly number[], range: Range): Range {
    const last = steps.length - 1;
    const first = Math.max(0, lowerBound(line.x, range.from) - 1);
    const end = Math.min(last, lowerBound(line.x, range.to));
    return { from: Math.floor(steps[first] ?? 0), to: Math.ceil(steps[end] ?? 0) };
}

export function linesOf(
    series: readonly Series[],
    kind: XKind,
    more: { id: string; label: string; start?: number; batch?: number; kind?: number },
): Line[] {
    const isOne = series.length === 1;
    return series.map((one, i) =>
        lineOf(one, kind, {
            ...more,
            id: `${more.id} ${one.metric}`,
            label: isOne ? more.label : more.label ? `${more.label} ${one.metric}` : one.metric,
            kind: isOne ? (more.kind ?? 0) : (more.kind ?? 0) + i,
        }),
    );
}

// --- hyperparameters -----------------------------------------------------------------------------

export type Flat = Map<string, number | string>;

/** {"optimizer": {"lr": 1}} as "optimizer.lr" -> 1. */
export function flatten(value: Json | undefined, head = "", out: Flat = new Map()): Flat {
    if (isObject(value))
        for (const [key, one] of Object.entries(value))
            flatten(one, head ? `${head}.${key}` : key, out);
    else if (typeof value === "number" || typeof value === "string") out.set(head, value);
    else if (value !== undefined) out.set(head, JSON.stringify(value));
    return out;
}

/** Those that differ between trials. */
export function varying(points: readonly Flat[]): string[] {
    const names = new Set(points.flatMap((point) => [...point.keys()]));
    return [...names].filter(
        (name) => new Set(points.map((point) => String(point.get(name)))).size > 1,
    );
}

// --- what goes with what -------------------------------------------------------------------------

/** Places in the order of size from 1; equals share the middle of theirs. */
export function ranks(values: readonly number[]): number[] {
    const order = values.map((_, i) => i).sort((a, b) => values[a]! - values[b]!);
    const out = new Array<number>(values.length).fill(0);
    for (let i = 0; i < order.length;) {
        let end = i;
        while (end < order.length && values[order[end]!] === values[order[i]!]) end++;
        for (let k = i; k < end; k++) out[order[k]!] = (i + 1 + end) / 2;
        i = end;
    }
    return out;
}

const mean = (values: readonly number[]) =>
    values.reduce((sum, value) => sum + value, 0) / values.length;

/** Spearman's rank correlation, -1 to 1; 0 where one of them does not vary. */
export function spearman(x: readonly number[], y: readonly number[]): number {
    const [a, b] = [ranks(x), ranks(y)];
    const [ma, mb] = [mean(a), mean(b)];
    let [ab, aa, bb] = [0, 0, 0];
    for (let i = 0; i < a.length; i++) {
        ab += (a[i]! - ma) * (b[i]! - mb);
        aa += (a[i]! - ma) ** 2;
        bb += (b[i]! - mb) ** 2;
    }
    return aa && bb ? ab / Math.sqrt(aa * bb) : 0;
}

/** Of words: the share of the variance of ranks that lies between them, as a root, 0 to 1. */
export function correlationRatio(words: readonly string[], y: readonly number[]): number {
    const r = ranks(y);
    const all = mean(r);
    const groups = new Map<string, number[]>();
    words.forEach((word, i) => groups.set(word, [...(groups.get(word) ?? []), r[i]!]));
    let between = 0;
    for (const group of groups.values()) between += group.length * (mean(group) - all) ** 2;
    const total = r.reduce((sum, value) => sum + (value - all) ** 2, 0);
    return total ? Math.sqrt(between / total) : 0;
}

// --- starts --------------------------------------------------------------------------------------

const causes: Record<string, string> = {
    PRIORITY: "made room for one of higher priority",
    SHARE: "made room for a team that had less than its share",
    SERVICE: "took turns with others of its team",
    SHRINK: "gave some of its slots to others",
    GROW: "took more slots that had become free",
    MOVE: "moved to other slots",
};

/** Why a start ended, in words; what the scheduler decided, and what the programs said. */
export function whyEnded(start: Start): string {
    const cause = causes[start.cause] ?? start.cause.toLowerCase();
    const other = start.preemptedForTrialId ? ` (trial ${start.preemptedForTrialId})` : "";
    const said = cause ? cause + other : start.reason;
    if (said) return said;
    return start.endTime ? "came to its end" : "";
}

/** Why a start took place: the first, or after what ended the one before. */
export function whyStarted(before: Start | undefined): string {
    return before ? `after this: ${whyEnded(before) || "the start before had ended"}` : "first start";
}

const asked: Record<string, string> = {
    pause: "Paused",
    activate: "Resumed",
    cancel: "Canceled",
    kill: "Killed",
    continue: "Continued",
};

/** "Paused by ann": what somebody asked of the experiment, of a row of the audit; "": nothing of it. */
export function saidOfAsking(
    { path, status, username, detail }: Pick<AuditRow, "path" | "status" | "username" | "detail">,
    id: number,
): string {
    const of = path.endsWith("/experiments/continue")
        ? /\bid=(\d+)/.exec(detail)?.[1]
        : /\/experiments\/(\d+)\//.exec(path)?.[1];
    const word = Number(of) === id && status < 400 && asked[path.split("/").at(-1)!];
    return word ? `${word} by ${username}` : "";
}

/** Seconds that its starts ran together, until `now` those that run still. */
export function secondsRan(starts: readonly Pick<Start, "startTime" | "endTime">[], now: number) {
    return starts.reduce(
        (sum, { startTime, endTime }) =>
            startTime ? sum + (endTime ? millis(endTime) : now) - millis(startTime) : sum,
        0,
    ) / 1000;
}

/** A search has ended it before it had trained as long as it might have. */
export function stoppedEarly(
    { state, progress = 0 }: Pick<Trial, "state" | "progress">,
    { searcherType }: Pick<Experiment, "searcherType">,
): boolean {
    return stateWord(state) === "COMPLETED" && progress > 0 && progress < 1 && /asha|halving/.test(searcherType);
}

/** Seconds that are left at the pace of the time it ran, by so many at once; undefined: nobody can say. */
export function secondsLeft(progress: number, seconds: number, atOnce = 1): number | undefined {
    if (progress <= 0.005 || progress >= 1) return undefined;
    return (seconds * (1 - progress)) / progress / Math.max(1, atOnce);
}
