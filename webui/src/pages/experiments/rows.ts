// The rows of the table: pages of the list, kept true by events.

import { signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { get, type Query } from "../../lib/api";
import { type LiveEvent, useLive } from "../../lib/live";
import { type PagedRows, pagedRows, reloadOn } from "../../lib/rows";
import type { Experiment, Paged } from "../../lib/types";
import { LIGHT, question, shown } from "./state";

export interface Row extends Experiment {
    values: Record<string, number | string | null>;
}

interface Answer extends Paged {
    experiments: Experiment[];
    values?: (number | string | null)[][];
}

type ExperimentEvent = Extract<LiveEvent, { topic: "experiments" }>;

export function toRows(answer: Answer, names: readonly string[]): Row[] {
    return answer.experiments.map((experiment, i) => ({
        ...experiment,
        values: Object.fromEntries(names.map((name, k) => [name, answer.values?.[i]?.[k] ?? null])),
    }));
}

/** How many experiments that belong into the list were submitted since it was read. */
export const fresh = signal(0);

export function useRows() {
    const rows = useMemo(
        () =>
            pagedRows<Row>(
                async (page, abort) => {
                    const names = shown.peek();
                    const query = { ...question.peek(), ...page };
                    const answer = await get<Answer>("/experiments", query, abort);
                    return {
                        rows: toRows(answer, names),
                        total: answer.pagination.total,
                        least: answer.totalIsLeast ?? false,
                        next: answer.nextCursor,
                    };
                },
                (row) => String(row.id),
                {
                    count: async (abort) => {
                        const query = { ...question.peek(), limit: 1, show: [], count: "exact" };
                        return (await get<Answer>("/experiments", query, abort)).pagination.total;
                    },
                },
            ),
        [],
    );
    const submitted = useMemo(watchSubmitted, []);
    const reload = () => {
        submitted.begin();
        rows.reload();
    };
    useEffect(() => {
        submitted.begin();
        const end = reloadOn({ reload }, () => question.value);
        return () => {
            end();
            submitted.stop();
            rows.stop();
        };
    }, [rows]);
    useLive(
        { topics: ["experiments"] },
        (event) => {
            if (event.topic === "experiments" && (event.kind ?? "EXPERIMENT") === "EXPERIMENT")
                if (!hear(rows, event)) submitted.hear(event.id, event.state);
        },
        reload,
    );
    return { rows, reload };
}

/** A row changes in its place, and nothing moves. False: there is no such row. */
function hear(rows: PagedRows<Row>, event: ExperimentEvent): boolean {
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

const SUBMITTED_MS = 1000; // between two questions

/** Counts the experiments of the list's question that are newer than all that were there when it began. */
function watchSubmitted() {
    let newest = Infinity;
    let heard = new Set<string>();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let abort = new AbortController();

    const stop = () => {
        abort.abort();
        clearTimeout(timer);
        timer = undefined;
    };
    const ask = async <T>(query: Query, use: (answer: Answer) => T) => {
        const { signal } = abort;
        const answer = await get<Answer>("/experiments", { ...query, limit: 1, omit: LIGHT }, signal);
        if (!signal.aborted) use(answer);
    };
    const count = () => {
        timer = undefined;
        const { filter } = question.peek();
        const isNewer = `id > ${newest}`;
        const query = {
            ...question.peek(),
            show: [],
            count: "exact",
            filter: filter ? `(${filter}) and ${isNewer}` : isNewer,
        };
        ask(query, (answer) => (fresh.value = answer.pagination.total)).catch(() => undefined);
    };
    return {
        begin() {
            stop();
            abort = new AbortController();
            heard = new Set();
            newest = Infinity;
            fresh.value = 0;
            ask({ sort: "-id" }, ({ experiments: [first] }) => (newest = first?.id ?? 0)).catch(() => undefined);
        },
        hear(id: number, state: string) {
            const word = `${id} ${state}`;
            if (id <= newest || heard.has(word)) return;
            heard.add(word);
            timer ??= setTimeout(count, SUBMITTED_MS);
        },
        stop,
    };
}

/** One experiment with the values that are shown; null: there is none. */
export async function readBaseline(id: number, abort: AbortSignal): Promise<Row | null> {
    const names = shown.value;
    const query = { filter: `id = ${id}`, show: names, omit: LIGHT };
    return toRows(await get<Answer>("/experiments", query, abort), names)[0] ?? null;
}
