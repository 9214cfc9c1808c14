// Slot-hours by day or month, and by whom.

import { get, link } from "../../lib/api";
import { tintOf } from "../../lib/cluster";
import { count, metric, number } from "../../lib/format";
import { useLoad } from "../../lib/load";
import type { ResourcePool } from "../../lib/types";
import { param, text } from "../../lib/url";
import { Empty, Loaded, Select } from "../../parts";

interface Entry {
    periodStart: string;
    seconds: number;
    byUsername: Record<string, number>;
    byResourcePool: Record<string, number>;
    byExperimentLabel: Record<string, number>;
}

const days = param("days", text("30"));
const by = param("by", text("byUsername"));
const OTHERS = "others";
const SHOWN = 7; // as many as have a colour, but one for the rest

const spans = [
    { value: "14", title: "14 days" },
    { value: "30", title: "30 days" },
    { value: "90", title: "90 days" },
    { value: "366", title: "A year, by month" },
];
const sums = [
    { value: "byUsername", title: "user" },
    { value: "byResourcePool", title: "pool" },
    { value: "byExperimentLabel", title: "label" },
];

function question(): Record<string, string> {
    const isMonthly = days.value === "366";
    const size = isMonthly ? 7 : 10; // "2026-11", "2026-11-21"
    const back = (Number(days.value) || 30) - 1;
    const date = (ago: number) => new Date(Date.now() - ago * 86_400_000).toISOString();
    return {
        startDate: date(back).slice(0, size),
        endDate: date(0).slice(0, size),
        period: `RESOURCE_ALLOCATION_AGGREGATION_PERIOD_${isMonthly ? "MONTHLY" : "DAILY"}`,
    };
}

const partsOf = (entry: Entry): Record<string, number> =>
    by.value === "byResourcePool"
        ? entry.byResourcePool
        : by.value === "byExperimentLabel"
          ? entry.byExperimentLabel
          : entry.byUsername;

/** Those who used most first; the rest are one. */
function namesOf(entries: readonly Entry[]): [name: string, hours: number][] {
    const total = new Map<string, number>();
    for (const entry of entries)
        for (const [name, seconds] of Object.entries(partsOf(entry)))
            total.set(name, (total.get(name) ?? 0) + seconds / 3600);
    const sorted = [...total].sort((a, b) => b[1] - a[1]);
    if (sorted.length <= SHOWN + 1) return sorted;
    const rest = sorted.slice(SHOWN).reduce((sum, [, hours]) => sum + hours, 0);
    return [...sorted.slice(0, SHOWN), [OTHERS, rest]];
}

function hoursOf(entry: Entry, name: string, names: readonly string[]): number {
    const parts = partsOf(entry);
    if (name !== OTHERS || OTHERS in parts) return (parts[name] ?? 0) / 3600;
    const rest = Object.entries(parts).filter(([one]) => !names.includes(one));
    return rest.reduce((sum, [, seconds]) => sum + seconds / 3600, 0);
}

function titleOf(entry: Entry, names: readonly string[]): string {
    const said = (name: string, hours: number) => `${name}: ${metric(Number(hours.toPrecision(4)))}`;
    const parts = names.map((name) => [name, hoursOf(entry, name, names)] as const);
    return [
        said(`${entry.periodStart}, slot-hours`, entry.seconds / 3600),
        ...parts.filter(([, hours]) => hours > 0).map(([name, hours]) => said(name, hours)),
    ].join("\n");
}

function Columns({ entries, names }: { entries: readonly Entry[]; names: readonly string[] }) {
    const most = Math.max(...entries.map((entry) => entry.seconds / 3600), 1e-9);
    return (
        <div class="columns-box">
            <span class="muted num columns-most">{metric(most)} slot-hours</span>
            <div class="columns" aria-hidden="true">
                {entries.map((entry) => (
                    <div
                        key={entry.periodStart}
                        class="column"
                        title={titleOf(entry, names)}
                    >
                        {names.map((name, i) => (
                            <span
                                key={name}
                                style={{
                                    "--tint": tintOf(i),
                                    "--part": `${(100 * hoursOf(entry, name, names)) / most}%`,
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

function Sums({ entries, slots }: { entries: readonly Entry[]; slots: number }) {
    const sorted = namesOf(entries);
    const names = sorted.map(([name]) => name);
    const total = entries.reduce((sum, entry) => sum + entry.seconds / 3600, 0);
    if (total === 0)
        return (
            <Empty title="No slot was used in this time" icon="clock">
                <p>Choose a longer time, or run an experiment.</p>
            </Empty>
        );
    return (
        <div class="history">
            <Columns entries={entries} names={names} />
            <table class="history-sums">
                <thead>
                    <tr>
                        <th scope="col">{sums.find((sum) => sum.value === by.value)?.title}</th>
                        <th scope="col" class="num">
                            slot-hours
                        </th>
                        <th scope="col" class="num">
                            part
                        </th>
                    </tr>
                </thead>
                <tbody>
                    {sorted.map(([name, hours], i) => (
                        <tr key={name}>
                            <th scope="row">
                                <span class="holder-mark" style={{ "--tint": tintOf(i) }} />
                                {name}
                            </th>
                            <td class="num">{metric(Number(hours.toPrecision(4)))}</td>
                            <td class="num">{Math.round((100 * hours) / total)} %</td>
                        </tr>
                    ))}
                    <tr>
                        <th scope="row">All</th>
                        <td class="num">{metric(Number(total.toPrecision(4)))}</td>
                        <td />
                    </tr>
                </tbody>
                <caption class="muted">
                    Today's {count(slots, "slot")} could give {number(24 * slots)} slot-hours a day.
                </caption>
            </table>
        </div>
    );
}

export function History() {
    const history = useLoad(async (abort) => {
        const path = "/resources/allocation/aggregated";
        const [{ resourceEntries: entries }, { resourcePools: pools }] = await Promise.all([
            get<{ resourceEntries: Entry[] }>(path, question(), abort),
            get<{ resourcePools: ResourcePool[] }>("/resource-pools", {}, abort),
        ]);
        return { entries, slots: pools.reduce((sum, pool) => sum + pool.slotsAvailable, 0) };
    });
    const csv = link("/resources/allocation/aggregated", question()).replace("/api/v1", "");
    return (
        <section class="card stack" aria-label="History of use">
            <div class="spread">
                <div class="line">
                    <Select label="Time" at={days} options={spans} />
                    <Select label="By" at={by} options={sums} />
                </div>
                <a href={csv} download="use.csv">
                    Download as CSV
                </a>
            </div>
            <Loaded of={history}>{(given) => <Sums {...given} />}</Loaded>
        </section>
    );
}
