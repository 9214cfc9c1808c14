// Checks a configuration with the master while the user types.

import { type ReadonlySignal, useSignal, useSignalEffect } from "@preact/signals";
import { ApiError, isAbort, send, sleep } from "../../lib/api";
import { type Diagnostic, parseDiagnostic } from "../../lib/config/diagnostics";
import { errorText, toastError } from "../../lib/toasts";
import type { Experiment } from "../../lib/types";
import { Icon } from "../basic/icon";

const TYPING_PAUSE_S = 0.4;

/** The answer to a submission, or to a submission with validateOnly. */
export interface CreatedExperiment {
    experiment: Experiment;
    warningTexts?: string[];
}

export type ConfigCheck =
    | { kind: "checking" }
    | { kind: "good"; warnings: readonly string[]; diagnostics: readonly Diagnostic[] }
    | { kind: "bad"; message: string; diagnostics: readonly Diagnostic[] };

interface SubmittedConfig {
    config: string;
}

/** A call that validates a configuration. */
type CheckCall = (
    body: SubmittedConfig & { validateOnly: true },
    abort: AbortSignal,
) => Promise<Pick<CreatedExperiment, "warningTexts">>;

const checkExperiment: CheckCall = (body, abort) => send<CreatedExperiment>("POST", "/experiments", body, abort);

async function check(config: SubmittedConfig, call: CheckCall, abort: AbortSignal): Promise<ConfigCheck> {
    try {
        await sleep(TYPING_PAUSE_S, abort);
        const answer = await call({ ...config, validateOnly: true }, abort);
        const warnings = (answer.warningTexts ?? []).map(parseDiagnostic);
        return {
            kind: "good",
            warnings: warnings.map(({ message }) => message),
            diagnostics: warnings.flatMap(({ diagnostics }) => diagnostics),
        };
    } catch (error) {
        if (isAbort(error) || (error instanceof ApiError && error.status >= 500)) throw error;
        return { kind: "bad", ...parseDiagnostic(errorText(error)) };
    }
}

/** Checks the configuration again when signals that `getConfig` reads change. Undefined: nothing is checked. */
export function useConfigCheck(
    getConfig: () => SubmittedConfig | undefined,
    call = checkExperiment,
): ReadonlySignal<ConfigCheck> {
    const result = useSignal<ConfigCheck>({ kind: "checking" });
    useSignalEffect(() => {
        const config = getConfig();
        if (!config) {
            result.value = { kind: "good", warnings: [], diagnostics: [] };
            return;
        }
        const abort = new AbortController();
        result.value = { kind: "checking" };
        check(config, call, abort.signal).then(
            (found) => abort.signal.aborted || (result.value = found),
            (error: unknown) => abort.signal.aborted || toastError(error),
        );
        return () => abort.abort();
    });
    return result;
}

export const diagnosticsOf = (result: ConfigCheck): readonly Diagnostic[] =>
    result.kind === "checking" ? [] : result.diagnostics;

export function ConfigCheck({ result }: { result: ConfigCheck }) {
    if (result.kind === "checking")
        return (
            <p class="muted" role="status" aria-busy="true">
                <Icon name="spinner" /> Checking…
            </p>
        );
    if (result.kind === "bad")
        return (
            <p class="bad" role="status">
                <Icon name="warning" /> {result.message}
            </p>
        );
    return (
        <div role="status">
            <p class="good">
                <Icon name="check" /> The configuration is valid.
            </p>
            {result.warnings.map((warning) => (
                <p key={warning}>
                    <Icon name="warning" /> {warning}
                </p>
            ))}
        </div>
    );
}
