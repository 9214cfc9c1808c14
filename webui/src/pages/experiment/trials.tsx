// The trials as a table that the master sorts and filters.

import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { get } from "../../lib/api";
import { duration, metric, number } from "../../lib/format";
import { useLive } from "../../lib/live";
import { pagedRows, reloadOn } from "../../lib/rows";
import { flatten } from "../../lib/runs";
import type { Experiment, Paged, Trial } from "../../lib/types";
import { param, text } from "../../lib/url";
import { Empty, LinkButton, Progress, Search, TrialState } from "../../parts";
import { type Column, Table } from "../../parts/table";
import { hasEnded } from "../../lib/runs";

const PAGE = 100;
const HPARAMS = 8; // columns at most

const sort = param("sort", text("id"));
const filter = param("filter", text());

function hparamColumns(names: readonly string[]): Column<Trial>[] {
    return names.slice(0, HPARAMS).map((name) => ({
        id: `hparams.${name}`,
        title: name,
        width: 130,
        end: true,
        sort: `hparams.${name}`,
        cell: ({ hparams }) => {
            const value = flatten(hparams).get(name);
            return typeof value === "number" ? metric(value) : (value ?? "–");
        },
    }));
}

function columnsOf(experiment: Experiment, names: readonly string[]): Column<Trial>[] {
    return [
        {
            id: "id",
            title: "Trial",
            width: 80,
            sort: "id",
            cell: ({ id }) => <a href={`/trials/${id}`}>{id}</a>,
        },
        {
            id: "state",
            title: "State",
            width: 150,
            sort: "state",
            cell: (trial) => <TrialState trial={trial} experiment={experiment} />,
        },
        {
            id: "progress",
            title: "Progress",
            width: 150,
            sort: "progress",
            cell: (trial) =>
                hasEnded(trial.state) ? (
                    ""
                ) : (
                    <Progress value={trial.progress ?? 0} label={`Progress of trial ${trial.id}`} />
                ),
        },
        {
            id: "metric",
            title: `Best ${experiment.searcherMetric ?? "metric"}`,
            width: 180,
            end: true,
            sort: "metric",
            cell: (trial) => (
                <>
                    {trial.id === experiment.bestTrialId && <strong class="good">★ best </strong>}
                    {metric(trial.searcherMetricValue)}
                </>
            ),
        },
        ...hparamColumns(names),
        {
            id: "steps",
            title: "Steps",
            width: 90,
            end: true,
            sort: "steps",
            cell: (trial) => number(trial.totalBatchesProcessed),
        },
        {
            id: "restarts",
            title: "Failures",
            width: 90,
            end: true,
            sort: "restarts",
            cell: (trial) => trial.restarts || "",
        },
        {
            id: "ran",
            title: "Ran",
            help: "All of its starts together, without what it waited",
            width: 100,
            end: true,
            sort: "ran",
            cell: (trial) => (trial.wallClockTime ? duration(trial.wallClockTime) : ""),
        },
        {
            id: "reason",
            title: "Said at its end",
            width: 260,
            sort: "reason",
            cell: (trial) => <span title={trial.exitReason ?? ""}>{trial.exitReason}</span>,
        },
    ];
}

export function Trials({ experiment }: { experiment: Experiment }) {
    const { id } = experiment;
    const selected = useSignal<ReadonlySet<string>>(new Set());
    const names = useSignal<readonly string[]>([]);
    const rows = useMemo(
        () =>
            pagedRows<Trial>(
                async ({ cursor, offset, limit }, abort) => {
                    const page = cursor ? { cursor } : { offset };
                    const query = {
                        sort: sort.value,
                        ...(filter.value ? { filter: filter.value } : {}),
                        limit,
                        ...page,
                    };
                    const answer = await get<{ trials: Trial[] } & Paged>(
                        `/experiments/${id}/trials`,
                        query,
                        abort,
                    );
                    const { trials, pagination, nextCursor, totalIsLeast = false } = answer;
                    const found = new Set([
                        ...names.peek(),
                        ...trials.flatMap(({ hparams }) => [...flatten(hparams).keys()]),
                    ]);
                    if (found.size > names.peek().length) names.value = [...found];
                    return {
                        rows: trials,
                        total: pagination.total,
                        least: totalIsLeast,
                        next: nextCursor,
                    };
                },
                (trial) => String(trial.id),
                { size: PAGE },
            ),
        [id],
    );
    useEffect(() => {
        const end = reloadOn(rows, () => [sort.value, filter.value]);
        return () => {
            end();
            rows.stop();
        };
    }, [rows]);
    useLive(
        { topics: ["trials"], experimentId: id },
        (event) => {
            if (event.topic !== "trials") return;
            const { state, progress, steps, restarts } = event;
            const change = {
                state,
                progress,
                restarts,
                totalBatchesProcessed: steps,
                exitReason: event.exitReason ?? null,
                liveAllocations: event.liveAllocations ?? 0,
                ...(event.wallClockTime === undefined ? {} : { wallClockTime: event.wallClockTime }),
            };
            if (!rows.patch(String(event.id), change)) rows.reload();
        },
        () => rows.reload(),
    );
    const columns = useComputed(() => columnsOf(experiment, names.value)).value;
    const chosen = [...selected.value];
    return (
        <div class="stack">
            <div class="spread">
                <div class="line trials-find">
                    <Search at={filter} label="Filter, say state = ERROR or hparams.lr > 0.01" />
                </div>
                {chosen.length > 1 && (
                    <LinkButton main href={`/compare?trials=${chosen.join(",")}`}>
                        Compare {chosen.length} trials
                    </LinkButton>
                )}
            </div>
            <Table
                label={`Trials of experiment ${id}`}
                columns={columns}
                rows={rows}
                sort={sort}
                selected={selected}
                name={(trial) => `trial ${trial.id}`}
                href={(trial) => `/trials/${trial.id}`}
                height={640}
                empty={
                    <Empty title={filter.value ? "No trial fits" : "No trial yet"}>
                        <p>
                            {filter.value
                                ? "Clear the filter to see all."
                                : "The searcher makes them when the experiment begins."}
                        </p>
                    </Empty>
                }
            />
        </div>
    );
}
