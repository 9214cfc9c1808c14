// The rows of the table: pages of the list, kept true by events.

import { signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { get } from "../../lib/api";
import { type LiveEvent, useLive } from "../../lib/live";
import { pagedRows, reloadOn } from "../../lib/rows";
import type { Experiment, Paged } from "../../lib/types";
import { LIGHT, question, shown } from "./state";

export interface Row extends Experiment {
    values: Record<string, number | string | null>;
}

interface Answer extends Paged {
    experiments: Experiment[];
    values?: (number | string | null)[][];
}

export function toRows(answer: Answer, names: readonly string[]): Row[] {
    return answer.experiments.map((experiment, i) => ({
        ...experiment,
        values: Object.fromEntries(names.map((name, k) => [name, answer.values?.[i]?.[k] ?? null])),
    }));
}

/** Experiments that were submitted since the list was read. */
export const fresh = signal<ReadonlySet<number>>(new Set());

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
    const reload = () => {
        fresh.value = new Set();
        rows.reload();
    };
    useEffect(() => {
        const end = reloadOn({ reload }, () => question.value);
        return () => {
            end();
            rows.stop();
        };
    }, [rows]);
    useLive({ topics: ["experiments"] }, (event) => hear(rows, event), reload);
    return { rows, reload };
}

/** A row changes in its place; a new experiment is told of, and moves nothing. */
function hear(rows: ReturnType<typeof pagedRows<Row>>, event: LiveEvent): void {
    if (event.topic !== "experiments" || (event.kind && event.kind !== "EXPERIMENT")) return;
    const key = String(event.id);
    const row = rows.find(key);
    if (row && event.deleted) rows.patch(key, { state: "STATE_DELETED" });
    else if (row) {
        const { state, name, progress, archived, endTime } = event;
        const best = event.bestMetric ?? row.bestTrialSearcherMetric ?? null;
        rows.patch(key, {
            state,
            name,
            progress,
            archived,
            endTime: endTime ?? null,
            bestTrialSearcherMetric: best,
        });
    } else if (!event.deleted && event.id > newest(rows)) {
        fresh.value = new Set([...fresh.peek(), event.id]);
    }
}

function newest(rows: ReturnType<typeof pagedRows<Row>>): number {
    let most = 0;
    for (const row of rows.known()) if (row.id > most) most = row.id;
    return most;
}

/** One experiment with the values that are shown; null: there is none. */
export async function readBaseline(id: number, abort: AbortSignal): Promise<Row | null> {
    const names = shown.value;
    const query = { filter: `id = ${id}`, show: names, omit: LIGHT };
    return toRows(await get<Answer>("/experiments", query, abort), names)[0] ?? null;
}
