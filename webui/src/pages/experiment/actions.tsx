// The actions on an experiment, and the dialogs of those that need input.

import { type Signal, useSignal } from "@preact/signals";
import type { Action } from "../../lib/actions";
import { performCall, type Call } from "../../lib/api";
import { stateName } from "../../lib/format";
import { hasEnded, isStopping } from "../../lib/experiment/state";
import { changeDeniedReason } from "../../lib/session";
import type { Experiment } from "../../lib/types";
import { navigate } from "../../lib/url";
import { lazy } from "../../parts/basic/lazy";
import { Field, FormDialog, TextArea, TextInput } from "../../parts";
import { MoveDialog } from "./move_dialog";
import { ResizeDialog } from "./resize_dialog";

const Fork = lazy(() => import("./fork_dialog").then((all) => all.ForkDialog));

export type OpenDialog = Signal<"" | "fork" | "continue" | "move" | "resize" | "about" | "labels">;

export const useOpenDialog = (): OpenDialog => useSignal<OpenDialog["value"]>("");

type Verb = "pause" | "activate" | "cancel" | "kill" | "archive" | "unarchive";

const verbs: Record<Verb, { name: string; icon: string; danger?: string; doneText: string }> = {
    pause: { name: "Pause", icon: "pause", doneText: "Pausing: the trials save a checkpoint and free their slots" },
    activate: { name: "Resume", icon: "play", doneText: "The experiment resumes when it gets slots" },
    cancel: {
        name: "Cancel",
        icon: "stop",
        doneText: "Canceling: the trials save a checkpoint and end",
        danger: "Its trials save a checkpoint and end. You can continue the experiment later.",
    },
    kill: {
        name: "Kill",
        icon: "kill",
        doneText: "The experiment ends at once",
        danger: "Its programs end at once. Work since their last checkpoint is lost.",
    },
    archive: { name: "Archive", icon: "archive", doneText: "Archived" },
    unarchive: { name: "Unarchive", icon: "archive", doneText: "Unarchived" },
};

/** Returns why the state does not allow a verb; undefined: it does. */
function stateDeniesReason(verb: Verb, { state, archived }: Experiment): string | undefined {
    const word = stateName(state);
    if (verb === "archive" || verb === "unarchive") {
        if (!hasEnded(state)) return "Only ended experiments can be archived";
        return archived === (verb === "archive") ? `The experiment is already ${verb}d` : undefined;
    }
    if (hasEnded(state)) return "The experiment has ended";
    if (verb === "activate") return word === "PAUSED" ? undefined : "The experiment is not paused";
    if (verb === "pause")
        return word === "PAUSED" || isStopping(state) ? "The experiment is already paused or ending" : undefined;
    return undefined;
}

function resizeDeniedReason({ state, unmanaged }: Experiment): string | undefined {
    if (unmanaged) return "Its programs run outside of this cluster";
    return isStopping(state) ? "The experiment is ending" : undefined;
}

/** `reload` is called after each action, so that the page shows its result at once. */
export function experimentActions(experiment: Experiment, openDialog: OpenDialog, reload: () => void): Action[] {
    const { id, state, archived } = experiment;
    const refused = changeDeniedReason(experiment.workspaceId, experiment.userId);
    const ended = hasEnded(state);
    const verb = (which: Verb): Action => ({
        ...verbs[which],
        disabledReason: refused ?? stateDeniesReason(which, experiment),
        call: {
            method: "POST",
            path: `/experiments/${id}/${which}`,
            muster: ["experiment", which, id],
        },
        run: reload,
    });
    const open = (which: OpenDialog["value"], name: string, icon: string, why?: string): Action => ({
        name,
        icon,
        disabledReason: why,
        run: () => void (openDialog.value = which),
    });
    const isPaused = stateName(state) === "PAUSED";
    const fork = open("fork", "Fork", "plus", changeDeniedReason(experiment.workspaceId));
    const resize = open("resize", "Resize", "columns", refused ?? resizeDeniedReason(experiment));
    const activeActions = [verb(isPaused ? "activate" : "pause"), verb("cancel"), verb("kill"), resize, fork];
    const endedActions = [
        fork,
        open("continue", "Continue", "play", refused),
        verb(archived ? "unarchive" : "archive"),
    ];
    return [
        ...(ended ? endedActions : activeActions),
        open("about", "Name and notes", "label", refused),
        open("labels", "Labels", "label", refused),
        open("move", "Move", "move", refused),
        ...(ended
            ? [
                  {
                      name: "Delete",
                      icon: "close",
                      danger: "Its metrics, logs and checkpoints are deleted permanently.",
                      disabledReason: refused,
                      call: {
                          method: "DELETE" as const,
                          path: `/experiments/${id}`,
                          muster: ["experiment", "delete", id, "--yes"],
                      },
                      run: () => navigate("/experiments"),
                  },
              ]
            : []),
    ];
}

// --- dialogs -------------------------------------------------------------------------------------

export interface DialogProps {
    experiment: Experiment;
    onClose: () => void;
    reload: () => void;
}

function DetailsDialog({ experiment, onClose, reload }: DialogProps) {
    const name = useSignal(experiment.name);
    const description = useSignal(experiment.description ?? "");
    const notes = useSignal(experiment.notes ?? "");
    const call: Call = {
        method: "PATCH",
        path: `/experiments/${experiment.id}`,
        body: { name: name.value, description: description.value, notes: notes.value },
        muster: [
            ...["experiment", "set", experiment.id, "--name", name.value],
            ...["--description", description.value, "--notes", notes.value],
        ],
    };
    return (
        <FormDialog
            wide
            title="Name and notes"
            submitLabel="Save"
            doneText="Saved"
            call={call}
            submit={() => performCall(call).then(reload)}
            onClose={onClose}
        >
            <Field label="Name">
                <TextInput bind={name} required />
            </Field>
            <Field label="Description" help="One line, shown below the name">
                <TextInput bind={description} />
            </Field>
            <Field label="Notes">
                <TextArea bind={notes} rows={10} />
            </Field>
        </FormDialog>
    );
}

function LabelsDialog({ experiment, onClose, reload }: DialogProps) {
    const before = experiment.labels ?? [];
    const typed = useSignal(before.join(", "));
    const labels = [
        ...new Set(
            typed.value
                .split(",")
                .map((label) => label.trim())
                .filter(Boolean),
        ),
    ];
    const call: Call = {
        method: "PATCH",
        path: `/experiments/${experiment.id}`,
        body: { labels: labels },
    };
    return (
        <FormDialog
            title="Labels"
            submitLabel="Save"
            doneText="Saved"
            call={call}
            submit={() => performCall(call).then(reload)}
            onClose={onClose}
        >
            <Field label="Labels, separated by commas">
                <TextInput bind={typed} />
            </Field>
        </FormDialog>
    );
}

export function Dialogs(props: { experiment: Experiment; openDialog: OpenDialog; reload: () => void }) {
    const { experiment, openDialog, reload } = props;
    const common = { experiment, reload, onClose: () => void (openDialog.value = "") };
    if (openDialog.value === "about") return <DetailsDialog {...common} />;
    if (openDialog.value === "labels") return <LabelsDialog {...common} />;
    if (openDialog.value === "move") return <MoveDialog {...common} />;
    if (openDialog.value === "resize") return <ResizeDialog {...common} />;
    if (openDialog.value === "fork") return <Fork {...common} />;
    if (openDialog.value === "continue") return <Fork {...common} isContinued />;
    return null;
}
