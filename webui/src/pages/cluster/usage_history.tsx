// Slot-hours per day or month, by user, pool or label.

import { get, apiUrl } from "../../lib/api";
import { categoryColour } from "../../lib/cluster";
import { count, formatMetric, number } from "../../lib/format";
import { useLoad } from "../../lib/load";
import type { ResourcePool } from "../../lib/types";
import { queryParam, text } from "../../lib/url";
import { Empty, Loaded, Select } from "../../parts";

interface UsageEntry {
    periodStart: string;
    seconds: number;
    byUsername: Record<string, number>;
    byResourcePool: Record<string, number>;
    byExperimentLabel: Record<string, number>;
}

const days = queryParam("days", text("30"));
const grouping = queryParam("by", text("byUsername"));
const OTHERS = "others";
const MAX_NAMES = 7; // further names are summed up as "others"

const periods = [
    { value: "14", title: "14 days" },
    { value: "30", title: "30 days" },
    { value: "90", title: "90 days" },
    { value: "366", title: "1 year, by month" },
];
const groupings = [
    { value: "byUsername", title: "user" },
    { value: "byResourcePool", title: "pool" },
    { value: "byExperimentLabel", title: "label" },
];

function usageQuery(): Record<string, string> {
    const isMonthly = days.value === "366";
    const size = isMonthly ? 7 : 10; // letters of "2026-11" or "2026-11-21"
    const back = (Number(days.value) || 30) - 1;
    const date = (ago: number) => new Date(Date.now() - ago * 86_400_000).toISOString();
    return {
        startDate: date(back).slice(0, size),
        endDate: date(0).slice(0, size),
        period: `RESOURCE_ALLOCATION_AGGREGATION_PERIOD_${isMonthly ? "MONTHLY" : "DAILY"}`,
    };
}

const secondsByName = (entry: UsageEntry): Record<string, number> =>
    grouping.value === "byResourcePool"
        ? entry.byResourcePool
        : grouping.value === "byExperimentLabel"
          ? entry.byExperimentLabel
          : entry.byUsername;

/** The names by slot-hours, in descending order. Small ones are summed up. */
function hoursByName(entries: readonly UsageEntry[]): [name: string, hours: number][] {
    const total = new Map<string, number>();
    for (const entry of entries)
        for (const [name, seconds] of Object.entries(secondsByName(entry)))
            total.set(name, (total.get(name) ?? 0) + seconds / 3600);
    const sorted = [...total].sort((a, b) => b[1] - a[1]);
    if (sorted.length <= MAX_NAMES + 1) return sorted;
    const rest = sorted.slice(MAX_NAMES).reduce((sum, [, hours]) => sum + hours, 0);
    return [...sorted.slice(0, MAX_NAMES), [OTHERS, rest]];
}

function slotHours(entry: UsageEntry, name: string, names: readonly string[]): number {
    const parts = secondsByName(entry);
    if (name !== OTHERS || OTHERS in parts) return (parts[name] ?? 0) / 3600;
    const rest = Object.entries(parts).filter(([one]) => !names.includes(one));
    return rest.reduce((sum, [, seconds]) => sum + seconds / 3600, 0);
}

function columnTitle(entry: UsageEntry, names: readonly string[]): string {
    const text = (name: string, hours: number) => `${name}: ${formatMetric(Number(hours.toPrecision(4)))}`;
    const parts = names.map((name) => [name, slotHours(entry, name, names)] as const);
    return [
        text(`${entry.periodStart}, slot-hours`, entry.seconds / 3600),
        ...parts.filter(([, hours]) => hours > 0).map(([name, hours]) => text(name, hours)),
    ].join("\n");
}

function UsageColumns({ entries, names }: { entries: readonly UsageEntry[]; names: readonly string[] }) {
    const maxHours = Math.max(...entries.map((entry) => entry.seconds / 3600), 1e-9);
    return (
        <div class="usage-columns-box">
            <span class="muted num usage-columns-max">{formatMetric(maxHours)} slot-hours</span>
            <div class="usage-columns" aria-hidden="true">
                {entries.map((entry) => (
                    <div
                        key={entry.periodStart}
                        class="usage-column"
                        title={columnTitle(entry, names)}
                    >
                        {names.map((name, i) => (
                            <span
                                key={name}
                                style={{
                                    "--tint": categoryColour(i),
                                    "--part": `${(100 * slotHours(entry, name, names)) / maxHours}%`,
                                }}
                            />
                        ))}
                    </div>
                ))}
            </div>
            <div class="spread muted num">
                <span>{entries[0]?.periodStart}</span>
                <span>{entries.at(-1)?.periodStart} (UTC)</span>
            </div>
        </div>
    );
}

function UsageTable({ entries, slots }: { entries: readonly UsageEntry[]; slots: number }) {
    const sorted = hoursByName(entries);
    const names = sorted.map(([name]) => name);
    const total = entries.reduce((sum, entry) => sum + entry.seconds / 3600, 0);
    if (total === 0)
        return (
            <Empty title="No slots were used in this period" icon="clock">
                <p>Choose a longer period, or run an experiment.</p>
            </Empty>
        );
    return (
        <div class="history">
            <UsageColumns entries={entries} names={names} />
            <table class="history-sums">
                <thead>
                    <tr>
                        <th scope="col">{groupings.find((sum) => sum.value === grouping.value)?.title}</th>
                        <th scope="col" class="num">
                            slot-hours
                        </th>
                        <th scope="col" class="num">
                            share
                        </th>
                    </tr>
                </thead>
                <tbody>
                    {sorted.map(([name, hours], i) => (
                        <tr key={name}>
                            <th scope="row">
                                <span class="slot-holder-colour" style={{ "--tint": categoryColour(i) }} />
                                {name}
                            </th>
                            <td class="num">{formatMetric(Number(hours.toPrecision(4)))}</td>
                            <td class="num">{Math.round((100 * hours) / total)} %</td>
                        </tr>
                    ))}
                    <tr>
                        <th scope="row">All</th>
                        <td class="num">{formatMetric(Number(total.toPrecision(4)))}</td>
                        <td />
                    </tr>
                </tbody>
                <caption class="muted">
                    Capacity: {count(slots, "slot")}, {number(24 * slots)} slot-hours per day.
                </caption>
            </table>
        </div>
    );
}

export function History() {
    const history = useLoad(async (abort) => {
        const path = "/resources/allocation/aggregated";
        const [{ resourceEntries: entries }, { resourcePools: pools }] = await Promise.all([
            get<{ resourceEntries: UsageEntry[] }>(path, usageQuery(), abort),
            get<{ resourcePools: ResourcePool[] }>("/resource-pools", {}, abort),
        ]);
        return { entries, slots: pools.reduce((sum, pool) => sum + pool.slotsAvailable, 0) };
    });
    const csv = apiUrl("/resources/allocation/aggregated", usageQuery()).replace("/api/v1", "");
    return (
        <section class="card stack" aria-label="Usage history">
            <div class="spread">
                <div class="line">
                    <Select label="Period" bind={days} options={periods} />
                    <Select label="By" bind={grouping} options={groupings} />
                </div>
                <a href={csv} download="use.csv">
                    Download as CSV
                </a>
            </div>
            <Loaded load={history}>{(given) => <UsageTable {...given} />}</Loaded>
        </section>
    );
}
