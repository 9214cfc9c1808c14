// Submitting it again with another configuration, which the master checks while one types; or going
// on with it, with what one writes put over its configuration.

import { useComputed, useSignal } from "@preact/signals";
import { type Call, perform } from "../../lib/api";
import { confirm, toast } from "../../lib/notices";
import { go } from "../../lib/url";
import { Button, CopyAs, Dialog, ErrorBox, Switch } from "../../parts";
import { Diff } from "../../parts/code";
import { Editor } from "../../parts/editor";
import { type Made, marksIn, useVerdict, Verdict } from "../../parts/verdict";
import type { DialogProps } from "./actions";

export interface ForkProps extends DialogProps {
    /** Goes on with it, rather than beginning anew. */
    isContinued?: boolean;
}

export function Fork({ experiment, onClose, reload, isContinued = false }: ForkProps) {
    const before = isContinued ? "" : (experiment.originalConfig ?? "");
    const config = useSignal(before);
    const isPaused = useSignal(false);
    const showsDiff = useSignal(false);
    const isBusy = useSignal(false);
    const refused = useSignal<unknown>(undefined);
    const { id, projectId } = experiment;
    const verdict = useVerdict(() => (isContinued ? undefined : { config: config.value, parentId: id, projectId }));
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
    const submit = async () => {
        isBusy.value = true;
        refused.value = undefined;
        try {
            const made = await perform<Made>(call.value);
            toast(
                isContinued
                    ? `Experiment ${id} goes on`
                    : `Submitted as experiment ${made.experiment.id}`,
                "good",
            );
            onClose();
            if (isContinued) reload();
            else go(`/experiments/${made.experiment.id}`);
        } catch (error) {
            refused.value = error;
        }
        isBusy.value = false;
    };
    const leave = async () => {
        const ask = { title: "Throw away what you wrote?", verb: "Throw away", danger: true };
        if (config.value === before || (await confirm(ask))) onClose();
    };
    const said = verdict.value;
    return (
        <Dialog
            wide
            title={isContinued ? `Continue experiment ${id}` : `Fork of experiment ${id}`}
            onClose={() => void leave()}
            actions={
                <>
                    <CopyAs call={call.value} />
                    <Button onClick={() => void leave()}>Leave it</Button>
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
                    marks={marksIn(said)}
                />
                {refused.value !== undefined && <ErrorBox error={refused.value} />}
                {!isContinued && (
                    <>
                        <Verdict of={said} />
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
