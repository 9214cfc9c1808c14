// Submitting it again with another configuration, which the master checks while one types; or going
// on with it, with what one writes put over its configuration.

import { useComputed, useSignal, useSignalEffect } from "@preact/signals";
import { ApiError, type Call, isAbort, perform, send, sleep } from "../../lib/api";
import { errorText, toast, toastError } from "../../lib/notices";
import type { Experiment } from "../../lib/types";
import { go } from "../../lib/url";
import { Button, CopyAs, Dialog, Icon, Switch } from "../../parts";
import { Diff, type Mark } from "../../parts/code";
import { Editor } from "../../parts/editor";

const QUIET_S = 0.4;

interface Made {
    experiment: Experiment;
    warningTexts?: string[];
}

type Verdict =
    | { kind: "checking" }
    | { kind: "good"; warnings: readonly string[] }
    | { kind: "bad"; message: string; marks: readonly Mark[] };

/** "config:13:15: searcher.max_trials: .." is about line 13. */
const PLACE = /^config:(\d+):(\d+): /;

function verdictOf(error: unknown): Verdict {
    const said = errorText(error);
    const line = PLACE.exec(said)?.[1];
    const message = said.replace(PLACE, "Line $1, column $2: ");
    return { kind: "bad", message, marks: line ? [{ line: Number(line), message }] : [] };
}

async function check(body: object, abort: AbortSignal): Promise<Verdict> {
    try {
        await sleep(QUIET_S, abort);
        const answer = await send<Made>(
            "POST",
            "/experiments",
            { ...body, validateOnly: true },
            abort,
        );
        return { kind: "good", warnings: answer.warningTexts ?? [] };
    } catch (error) {
        if (isAbort(error) || (error instanceof ApiError && error.status >= 500)) throw error;
        return verdictOf(error);
    }
}

function Said({ verdict }: { verdict: Verdict }) {
    if (verdict.kind === "checking")
        return (
            <p class="muted" role="status">
                <Icon name="spinner" /> The master looks at it…
            </p>
        );
    if (verdict.kind === "bad")
        return (
            <p class="bad" role="status">
                <Icon name="warning" /> {verdict.message}
            </p>
        );
    return (
        <div role="status">
            <p class="good">
                <Icon name="check" /> The master would take it.
            </p>
            {verdict.warnings.map((warning) => (
                <p key={warning}>
                    <Icon name="warning" /> {warning}
                </p>
            ))}
        </div>
    );
}

export interface ForkProps {
    experiment: Experiment;
    onClose: () => void;
    /** Goes on with it, rather than beginning anew. */
    isContinued?: boolean;
}

export function Fork({ experiment, onClose, isContinued = false }: ForkProps) {
    const before = isContinued ? "" : (experiment.originalConfig ?? "");
    const config = useSignal(before);
    const verdict = useSignal<Verdict>({ kind: "checking" });
    const isPaused = useSignal(false);
    const showsDiff = useSignal(false);
    const isBusy = useSignal(false);
    const { id, projectId } = experiment;
    const call = useComputed<Call>(() =>
        isContinued
            ? {
                  method: "POST",
                  path: "/experiments/continue",
                  body: { id, overrideConfig: config.value },
              }
            : {
                  method: "POST",
                  path: "/experiments",
                  body: {
                      config: config.value,
                      parentId: id,
                      projectId,
                      activate: !isPaused.value,
                  },
              },
    );
    useSignalEffect(() => {
        if (isContinued) {
            verdict.value = { kind: "good", warnings: [] };
            return;
        }
        const abort = new AbortController();
        verdict.value = { kind: "checking" };
        check({ config: config.value, parentId: id, projectId }, abort.signal).then(
            (found) => abort.signal.aborted || (verdict.value = found),
            (error: unknown) => abort.signal.aborted || toastError(error),
        );
        return () => abort.abort();
    });
    const submit = async () => {
        isBusy.value = true;
        try {
            const made = await perform<Made>(call.value);
            toast(
                isContinued
                    ? `Experiment ${id} goes on`
                    : `Submitted as experiment ${made.experiment.id}`,
                "good",
            );
            onClose();
            if (!isContinued) go(`/experiments/${made.experiment.id}`);
        } catch (error) {
            toastError(error);
        }
        isBusy.value = false;
    };
    const said = verdict.value;
    return (
        <Dialog
            wide
            title={isContinued ? `Continue experiment ${id}` : `Fork of experiment ${id}`}
            onClose={onClose}
            actions={
                <>
                    <CopyAs call={call.value} />
                    <Button onClick={onClose}>Leave it</Button>
                    <Button
                        kind="main"
                        disabled={said.kind === "bad" || isBusy.value}
                        onClick={() => void submit()}
                    >
                        {isContinued ? "Continue" : isPaused.value ? "Submit paused" : "Submit"}
                    </Button>
                </>
            }
        >
            <div class="stack">
                <p class="muted">
                    {isContinued
                        ? "It goes on from its newest checkpoint. What stands here is put over its configuration, for example: trainer: {steps: 20000}"
                        : "The files go along. Change what you like."}
                </p>
                <Editor
                    label="Configuration"
                    at={config}
                    rows={isContinued ? 8 : 22}
                    marks={said.kind === "bad" ? said.marks : []}
                />
                {!isContinued && (
                    <>
                        <Said verdict={said} />
                        <div class="line">
                            <Switch label="Submit paused" at={isPaused} />
                            <Switch label="Show what differs" at={showsDiff} />
                        </div>
                        {showsDiff.value && (
                            <Diff before={before} after={config.value} label="What differs" />
                        )}
                    </>
                )}
            </div>
        </Dialog>
    );
}
