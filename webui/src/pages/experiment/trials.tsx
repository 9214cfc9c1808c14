// The table of trials. The master sorts and filters it.

import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { get } from "../../lib/api";
import { duration, formatMetric, number } from "../../lib/format";
import { useEvents } from "../../lib/events/subscribe";
import { pagedRows, reloadOn } from "../../lib/rows";
import { flatten } from "../../lib/experiment/hyperparameters";
import { hasEnded } from "../../lib/experiment/state";
import type { Experiment, Paged, Trial } from "../../lib/types";
import { queryParam, text } from "../../lib/url";
import { Empty, LinkButton, Progress, Search, TrialState } from "../../parts";
import { type Column, Table } from "../../parts/table/table";

const PAGE_SIZE = 100;
const HPARAM_COLUMNS = 8; // at most

const sort = queryParam("sort", text("id"));
const filter = queryParam("filter", text());

function hparamColumns(names: readonly string[]): Column<Trial>[] {
    return names.slice(0, HPARAM_COLUMNS).map((name) => ({
        id: `hparams.${name}`,
        title: name,
        width: 130,
        alignEnd: true,
        sort: `hparams.${name}`,
        cell: ({ hparams }) => {
            const value = flatten(hparams).get(name);
            return typeof value === "number" ? formatMetric(value) : (value ?? "–");
        },
    }));
}

const DURATIONS: Column<Trial>[] = [
    {
        id: "ran",
        title: "Ran",
        help: "The sum over all starts, without waiting",
        width: 90,
        alignEnd: true,
        sort: "ran",
        cell: (trial) => (trial.wallClockTime ? duration(trial.wallClockTime) : ""),
    },
    {
        id: "waited",
        title: "Waited",
        help: "For its slots, over all starts; pauses do not count",
        width: 90,
        alignEnd: true,
        cell: (trial) => (trial.waitedSeconds === undefined ? "" : duration(trial.waitedSeconds)),
    },
];

function trialColumns(experiment: Experiment, names: readonly string[]): Column<Trial>[] {
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
            alignEnd: true,
            sort: "metric",
            cell: (trial) => (
                <>
                    {trial.id === experiment.bestTrialId && <strong class="good">★ best </strong>}
                    {formatMetric(trial.searcherMetricValue)}
                </>
            ),
        },
        ...hparamColumns(names),
        {
            id: "steps",
            title: "Steps",
            width: 90,
            alignEnd: true,
            sort: "steps",
            cell: (trial) => number(trial.totalBatchesProcessed),
        },
        {
            id: "restarts",
            title: "Failures",
            width: 90,
            alignEnd: true,
            sort: "restarts",
            cell: (trial) => trial.restarts || "",
        },
        ...DURATIONS,
        {
            id: "reason",
            title: "Exit reason",
            width: 260,
            sort: "reason",
            cell: (trial) => <span title={trial.exitReason ?? ""}>{trial.exitReason}</span>,
        },
    ];
}

/** The rows of the table, kept up to date by events, and the names of all hyperparameters seen so far. */
function useTrialRows(id: number) {
    const names = useSignal<readonly string[]>([]);
    const rows = useMemo(
        () =>
            pagedRows<Trial>(
                async ({ cursor, offset, limit }, abort) => {
                    const query = {
                        sort: sort.value,
                        ...(filter.value ? { filter: filter.value } : {}),
                        limit,
                        ...(cursor ? { cursor } : { offset }),
                    };
                    const path = `/experiments/${id}/trials`;
                    const answer = await get<{ trials: Trial[] } & Paged>(path, query, abort);
                    const { trials, pagination, nextCursor, totalIsLeast = false } = answer;
                    const found = trials.flatMap(({ hparams }) => [...flatten(hparams).keys()]);
                    const all = new Set([...names.peek(), ...found]);
                    if (all.size > names.peek().length) names.value = [...all];
                    return { rows: trials, total: pagination.total, isTotalMinimum: totalIsLeast, next: nextCursor };
                },
                (trial) => String(trial.id),
                { size: PAGE_SIZE },
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
    useEvents(
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
    return { rows, names };
}

export function Trials({ experiment }: { experiment: Experiment }) {
    const { id } = experiment;
    const selected = useSignal<ReadonlySet<string>>(new Set());
    const { rows, names } = useTrialRows(id);
    const columns = useComputed(() => trialColumns(experiment, names.value)).value;
    const ids = [...selected.value];
    return (
        <div class="stack">
            <div class="spread">
                <div class="line trials-find">
                    <Search bind={filter} label="Filter, for example state = ERROR or hparams.lr > 0.01" />
                </div>
                {ids.length > 1 && (
                    <LinkButton main href={`/compare?trials=${ids.join(",")}`}>
                        Compare {ids.length} trials
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
                    <Empty title={filter.value ? "No trials match" : "No trials yet"}>
                        <p>
                            {filter.value
                                ? "Clear the filter to see all trials."
                                : "The searcher creates trials when the experiment starts."}
                        </p>
                    </Empty>
                }
            />
        </div>
    );
}
