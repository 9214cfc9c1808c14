// The dialogs "Fork" and "Continue". A fork submits the experiment again with another configuration, which the master
// checks while the user types. Continuing resumes the experiment, with the text of the editor as an override.

import { type Signal, useComputed, useSignal } from "@preact/signals";
import { type Call, performCall } from "../../lib/api";
import { confirm, toast } from "../../lib/toasts";
import { navigate } from "../../lib/url";
import { Button, CopyAs, Dialog, ErrorBox, Switch } from "../../parts";
import { Diff } from "../../parts/config/code";
import { Editor } from "../../parts/config/editor";
import { type CreatedExperiment, diagnosticsOf, useConfigCheck, ConfigCheck } from "../../parts/config/config_check";
import type { DialogProps } from "./actions";

export interface ForkProps extends DialogProps {
    /** Continues the experiment instead of starting a new one. */
    isContinued?: boolean;
}

/** The call that submits the configuration, and the state of submitting it. */
function useFork({ experiment, onClose, reload, isContinued = false }: ForkProps) {
    const { id, projectId } = experiment;
    const before = isContinued ? "" : (experiment.originalConfig ?? "");
    const config = useSignal(before);
    const isPaused = useSignal(false);
    const isBusy = useSignal(false);
    const error = useSignal<unknown>(undefined);
    const call = useComputed<Call>(() =>
        isContinued
            ? { method: "POST", path: "/experiments/continue", body: { id, overrideConfig: config.value } }
            : {
                  method: "POST",
                  path: "/experiments",
                  body: { config: config.value, parentId: id, projectId, activate: !isPaused.value },
              },
    );
    const submit = async () => {
        isBusy.value = true;
        error.value = undefined;
        try {
            const created = await performCall<CreatedExperiment>(call.value);
            toast(isContinued ? `Experiment ${id} continues` : `Submitted experiment ${created.experiment.id}`, "good");
            onClose();
            if (isContinued) reload();
            else navigate(`/experiments/${created.experiment.id}`);
        } catch (failure) {
            error.value = failure;
        }
        isBusy.value = false;
    };
    const cancel = async () => {
        const question = { title: "Discard your changes?", verb: "Discard", danger: true };
        if (config.value === before || (await confirm(question))) onClose();
    };
    return { before, config, isPaused, isBusy, error, call, submit, cancel };
}

/** The check of a fork's configuration, and its differences from the original. */
function ForkOptions(props: { check: ConfigCheck; isPaused: Signal<boolean>; before: string; config: Signal<string> }) {
    const { check, isPaused, before, config } = props;
    const showsDiff = useSignal(false);
    return (
        <>
            <ConfigCheck result={check} />
            <div class="line">
                <Switch label="Submit paused" bind={isPaused} />
                <Switch label="Show changes" bind={showsDiff} />
            </div>
            {showsDiff.value && <Diff before={before} after={config.value} label="Changes" />}
        </>
    );
}

export function ForkDialog(props: ForkProps) {
    const { isContinued = false } = props;
    const { id, projectId } = props.experiment;
    const { before, config, isPaused, isBusy, error, call, submit, cancel } = useFork(props);
    const check = useConfigCheck(() => (isContinued ? undefined : { config: config.value, parentId: id, projectId })).value;
    return (
        <Dialog
            wide
            title={isContinued ? `Continue experiment ${id}` : `Fork experiment ${id}`}
            onClose={() => void cancel()}
            actions={
                <>
                    <CopyAs call={call.value} />
                    <Button onClick={() => void cancel()}>Cancel</Button>
                    <Button kind="main" disabled={check.kind === "bad" || isBusy.value} onClick={() => void submit()}>
                        {isContinued ? "Continue" : isPaused.value ? "Submit paused" : "Submit"}
                    </Button>
                </>
            }
        >
            <div class="stack">
                <p class="muted">
                    {isContinued
                        ? "The experiment continues from its newest checkpoint. The text below overrides its configuration, for example: trainer: {steps: 20000}"
                        : "The fork uses the same files. Change the configuration as you like."}
                </p>
                <Editor label="Configuration" bind={config} rows={isContinued ? 8 : 22} diagnostics={diagnosticsOf(check)} />
                {error.value !== undefined && <ErrorBox error={error.value} />}
                {!isContinued && (
                    <ForkOptions check={check} isPaused={isPaused} before={before} config={config} />
                )}
            </div>
        </Dialog>
    );
}
