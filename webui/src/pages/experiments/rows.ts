// The rows of the table: pages of the list, kept up to date by events.

import { signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { get, type Query } from "../../lib/api";
import { type ClusterEvent, useEvents } from "../../lib/events/subscribe";
import { type PagedRows, pagedRows, reloadOn } from "../../lib/rows";
import type { Experiment, Paged } from "../../lib/types";
import { OMITTED_FIELDS, listQuery, valueColumns } from "./state";

export interface Row extends Experiment {
    values: Record<string, number | string | null>;
}

interface Answer extends Paged {
    experiments: Experiment[];
    values?: (number | string | null)[][];
}

type ExperimentEvent = Extract<ClusterEvent, { topic: "experiments" }>;

export function toRows(answer: Answer, names: readonly string[]): Row[] {
    return answer.experiments.map((experiment, i) => ({
        ...experiment,
        values: Object.fromEntries(names.map((name, k) => [name, answer.values?.[i]?.[k] ?? null])),
    }));
}

/** The number of new experiments that match the filters, since the list was loaded. */
export const newCount = signal(0);

export function useRows() {
    const rows = useMemo(
        () =>
            pagedRows<Row>(
                async (page, abort) => {
                    const names = valueColumns.peek();
                    const query = { ...listQuery.peek(), ...page };
                    const answer = await get<Answer>("/experiments", query, abort);
                    return {
                        rows: toRows(answer, names),
                        total: answer.pagination.total,
                        isTotalMinimum: answer.totalIsLeast ?? false,
                        next: answer.nextCursor,
                    };
                },
                (row) => String(row.id),
                {
                    count: async (abort) => {
                        const query = { ...listQuery.peek(), limit: 1, show: [], count: "exact" };
                        return (await get<Answer>("/experiments", query, abort)).pagination.total;
                    },
                },
            ),
        [],
    );
    const submitted = useMemo(watchNewExperiments, []);
    const reload = () => {
        submitted.begin();
        rows.reload();
    };
    useEffect(() => {
        submitted.begin();
        const end = reloadOn({ reload }, () => listQuery.value);
        return () => {
            end();
            submitted.stop();
            rows.stop();
        };
    }, [rows]);
    useEvents(
        { topics: ["experiments"] },
        (event) => {
            if (event.topic === "experiments" && (event.kind ?? "EXPERIMENT") === "EXPERIMENT")
                if (!applyEvent(rows, event)) submitted.hear(event.id, event.state);
        },
        reload,
    );
    return { rows, reload };
}

/** Updates a row without moving it. False: the row is not loaded. */
function applyEvent(rows: PagedRows<Row>, event: ExperimentEvent): boolean {
    const key = String(event.id);
    const row = rows.find(key);
    if (row && event.deleted) rows.patch(key, { state: "STATE_DELETED" });
    else if (row) {
        const { state, name, progress, archived, endTime } = event;
        const best = event.bestMetric ?? row.bestTrialSearcherMetric ?? null;
        rows.patch(key, {
            state,
            liveAllocations: event.liveAllocations ?? 0,
            name,
            progress,
            archived,
            endTime: endTime ?? null,
            bestTrialSearcherMetric: best,
        });
    }
    return row !== undefined || event.deleted === true;
}

const COUNT_DELAY_MS = 1000; // between two calls

/** Counts the experiments that match the filters and were submitted after the list was loaded. */
function watchNewExperiments() {
    let newest = Infinity;
    let seenStates = new Set<string>();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let abort = new AbortController();

    const stop = () => {
        abort.abort();
        clearTimeout(timer);
        timer = undefined;
    };
    const ask = async <T>(query: Query, use: (answer: Answer) => T) => {
        const { signal } = abort;
        const answer = await get<Answer>("/experiments", { ...query, limit: 1, omit: OMITTED_FIELDS }, signal);
        if (!signal.aborted) use(answer);
    };
    const count = () => {
        timer = undefined;
        const { filter } = listQuery.peek();
        const isNewer = `id > ${newest}`;
        const query = {
            ...listQuery.peek(),
            show: [],
            count: "exact",
            filter: filter ? `(${filter}) and ${isNewer}` : isNewer,
        };
        ask(query, (answer) => (newCount.value = answer.pagination.total)).catch(() => undefined);
    };
    return {
        begin() {
            stop();
            abort = new AbortController();
            seenStates = new Set();
            newest = Infinity;
            newCount.value = 0;
            ask({ sort: "-id" }, ({ experiments: [first] }) => (newest = first?.id ?? 0)).catch(() => undefined);
        },
        hear(id: number, state: string) {
            const word = `${id} ${state}`;
            if (id <= newest || seenStates.has(word)) return;
            seenStates.add(word);
            timer ??= setTimeout(count, COUNT_DELAY_MS);
        },
        stop,
    };
}

/** The baseline experiment with the values of the shown columns; null: it does not exist. */
export async function readBaseline(id: number, abort: AbortSignal): Promise<Row | null> {
    const names = valueColumns.value;
    const query = { filter: `id = ${id}`, show: names, omit: OMITTED_FIELDS };
    return toRows(await get<Answer>("/experiments", query, abort), names)[0] ?? null;
}
