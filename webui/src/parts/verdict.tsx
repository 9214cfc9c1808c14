// What the master says of a configuration while one types it.

import { type ReadonlySignal, useSignal, useSignalEffect } from "@preact/signals";
import { ApiError, isAbort, send, sleep } from "../lib/api";
import { type Mark, readPlace } from "../lib/marks";
import { errorText, toastError } from "../lib/notices";
import type { Experiment } from "../lib/types";
import { Icon } from "./icon";

const QUIET_S = 0.4;

/** The answer to a submission, and to the question whether it would be taken. */
export interface Made {
    experiment: Experiment;
    warningTexts?: string[];
}

export type Verdict =
    | { kind: "checking" }
    | { kind: "good"; warnings: readonly string[]; marks: readonly Mark[] }
    | { kind: "bad"; message: string; marks: readonly Mark[] };

interface Asked {
    config: string;
}

/** Asks the master whether it would take it. */
type Ask = (asked: Asked & { validateOnly: true }, abort: AbortSignal) => Promise<Pick<Made, "warningTexts">>;

const asExperiment: Ask = (asked, abort) => send<Made>("POST", "/experiments", asked, abort);

async function check(asked: Asked, by: Ask, abort: AbortSignal): Promise<Verdict> {
    try {
        await sleep(QUIET_S, abort);
        const answer = await by({ ...asked, validateOnly: true }, abort);
        const warnings = (answer.warningTexts ?? []).map(readPlace);
        return {
            kind: "good",
            warnings: warnings.map(({ message }) => message),
            marks: warnings.flatMap(({ marks }) => marks),
        };
    } catch (error) {
        if (isAbort(error) || (error instanceof ApiError && error.status >= 500)) throw error;
        return { kind: "bad", ...readPlace(errorText(error)) };
    }
}

/** `ask` reads signals; the master is asked again a moment after they change. Undefined: it need not be. */
export function useVerdict(ask: () => Asked | undefined, by = asExperiment): ReadonlySignal<Verdict> {
    const verdict = useSignal<Verdict>({ kind: "checking" });
    useSignalEffect(() => {
        const asked = ask();
        if (!asked) {
            verdict.value = { kind: "good", warnings: [], marks: [] };
            return;
        }
        const abort = new AbortController();
        verdict.value = { kind: "checking" };
        check(asked, by, abort.signal).then(
            (found) => abort.signal.aborted || (verdict.value = found),
            (error: unknown) => abort.signal.aborted || toastError(error),
        );
        return () => abort.abort();
    });
    return verdict;
}

export const marksIn = (verdict: Verdict): readonly Mark[] => (verdict.kind === "checking" ? [] : verdict.marks);

export function Verdict({ of }: { of: Verdict }) {
    if (of.kind === "checking")
        return (
            <p class="muted" role="status" aria-busy="true">
                <Icon name="spinner" /> The master looks at it…
            </p>
        );
    if (of.kind === "bad")
        return (
            <p class="bad" role="status">
                <Icon name="warning" /> {of.message}
            </p>
        );
    return (
        <div role="status">
            <p class="good">
                <Icon name="check" /> The master would take it.
            </p>
            {of.warnings.map((warning) => (
                <p key={warning}>
                    <Icon name="warning" /> {warning}
                </p>
            ))}
        </div>
    );
}
