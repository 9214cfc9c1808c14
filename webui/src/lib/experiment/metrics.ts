// The metrics that trials have reported, and their series as lines of a chart.

import { type Line, lineFromSeries, lowerBound, type Range, type XKind } from "../chart/plot";
import { isObject } from "../json";
import type { JsonObject, Series, Trial } from "../types";

export interface MetricName {
    group: string;
    name: string;
}

const groupNames: Record<string, string> = {
    avg_metrics: "training",
    validation_metrics: "validation",
};

/** All metrics with numbers in at least one of the trials, validation first. */
export function metricNames(trials: readonly Pick<Trial, "summaryMetrics">[]): MetricName[] {
    const found = new Map<string, MetricName>();
    for (const { summaryMetrics } of trials)
        for (const [key, metrics] of Object.entries(summaryMetrics ?? {})) {
            if (!isObject(metrics)) continue;
            const group = groupNames[key] ?? key;
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

/** The last, smallest, mean and largest value of a metric of a trial. */
export function metricSummary(
    trial: Pick<Trial, "summaryMetrics">,
    { group, name }: MetricName,
): JsonObject | undefined {
    const key = Object.keys(groupNames).find((word) => groupNames[word] === group) ?? group;
    const metrics = trial.summaryMetrics?.[key];
    const facts = isObject(metrics) ? metrics[name] : undefined;
    return isObject(facts) ? facts : undefined;
}

/** Returns whether muster-trainer reports the metric about the system, not about the model. */
export function isSystemMetric({ name }: MetricName): boolean {
    return /_ms$|_mb$|_per_second$|^mfu$|^exposed_share$/.test(name);
}

/** The title of a metric. It includes the group only if the name does not tell it. */
export const metricTitle = ({ group, name }: MetricName): string =>
    name.startsWith(group) || (group === "training" && isSystemMetric({ group, name })) ? name : `${group} ${name}`;

// --- series --------------------------------------------------------------------------------------

/** The steps that a range of x spans in a series. */
export function stepsInRange(line: Pick<Line, "x">, steps: readonly number[], range: Range): Range {
    const last = steps.length - 1;
    const first = Math.max(0, lowerBound(line.x, range.from) - 1);
    const end = Math.min(last, lowerBound(line.x, range.to));
    return { from: Math.floor(steps[first] ?? 0), to: Math.ceil(steps[end] ?? 0) };
}

export function linesFromSeries(
    series: readonly Series[],
    kind: XKind,
    more: { id: string; label: string; start?: number; batch?: number; styleIndex?: number },
): Line[] {
    const isOne = series.length === 1;
    return series.map((one, i) =>
        lineFromSeries(one, kind, {
            ...more,
            id: `${more.id} ${one.metric}`,
            label: isOne ? more.label : more.label ? `${more.label} ${one.metric}` : one.metric,
            styleIndex: isOne ? (more.styleIndex ?? 0) : (more.styleIndex ?? 0) + i,
        }),
    );
}
