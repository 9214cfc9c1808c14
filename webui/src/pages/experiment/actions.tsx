// What one can do with an experiment: verbs at once, and what needs a word more by a dialog.

import { type Signal, useSignal } from "@preact/signals";
import type { Action } from "../../lib/actions";
import { perform, type Call } from "../../lib/api";
import { stateWord } from "../../lib/format";
import { hasEnded, isStopping } from "../../lib/runs";
import { mayChange } from "../../lib/session";
import type { Experiment } from "../../lib/types";
import { go } from "../../lib/url";
import { later } from "../../parts/later";
import { Field, FormDialog, TextArea, TextInput } from "../../parts";
import { Move } from "./move";

const Fork = later(() => import("./fork").then((all) => all.Fork));

export type Asked = Signal<"" | "fork" | "continue" | "move" | "about" | "labels">;

export const useAsked = (): Asked => useSignal<Asked["value"]>("");

type Verb = "pause" | "activate" | "cancel" | "kill" | "archive" | "unarchive";

const verbs: Record<Verb, { name: string; icon: string; danger?: string; done: string }> = {
    pause: { name: "Pause", icon: "pause", done: "It was asked to save its work and leave its slots" },
    activate: { name: "Resume", icon: "play", done: "It goes on as soon as it has slots" },
    cancel: {
        name: "Cancel",
        icon: "stop",
        done: "It saves its work and ends",
        danger: "Its trials checkpoint, then end. It can be continued later.",
    },
    kill: {
        name: "Kill",
        icon: "kill",
        done: "It ends at once",
        danger: "Its programs end at once; what they have not checkpointed is lost.",
    },
    archive: { name: "Archive", icon: "archive", done: "It is in the lists no more" },
    unarchive: { name: "Unarchive", icon: "archive", done: "It is in the lists again" },
};

/** What stands in the way of a verb in the present state. */
function whyNot(verb: Verb, { state, archived }: Experiment): string | undefined {
    const word = stateWord(state);
    if (verb === "archive" || verb === "unarchive") {
        if (!hasEnded(state)) return "Only what has ended can be archived";
        return archived === (verb === "archive") ? `It is ${verb}d already` : undefined;
    }
    if (hasEnded(state)) return "It has ended";
    if (verb === "activate") return word === "PAUSED" ? undefined : "It is not paused";
    if (verb === "pause")
        return word === "PAUSED" || isStopping(state) ? "It is paused or ends" : undefined;
    return undefined;
}

/** `reload` is called when one has changed it, so that one sees that at once. */
export function actionsOf(experiment: Experiment, asked: Asked, reload: () => void): Action[] {
    const { id, state, archived } = experiment;
    const refused = mayChange(experiment.workspaceId, experiment.userId);
    const ended = hasEnded(state);
    const verb = (which: Verb): Action => ({
        ...verbs[which],
        refused: refused ?? whyNot(which, experiment),
        call: {
            method: "POST",
            path: `/experiments/${id}/${which}`,
            muster: ["experiment", which, id],
        },
        run: reload,
    });
    const ask = (which: Asked["value"], name: string, icon: string, why?: string): Action => ({
        name,
        icon,
        refused: why,
        run: () => void (asked.value = which),
    });
    const isPaused = stateWord(state) === "PAUSED";
    const fork = ask("fork", "Fork", "plus", mayChange(experiment.workspaceId));
    const live = [verb(isPaused ? "activate" : "pause"), verb("cancel"), verb("kill"), fork];
    const over = [
        fork,
        ask("continue", "Continue", "play", refused),
        verb(archived ? "unarchive" : "archive"),
    ];
    return [
        ...(ended ? over : live),
        ask("about", "Name and notes", "label", refused),
        ask("labels", "Labels", "label", refused),
        ask("move", "Move", "move", refused),
        ...(ended
            ? [
                  {
                      name: "Delete",
                      icon: "close",
                      danger: "Its metrics, logs and checkpoints are deleted with it, for good.",
                      refused,
                      call: {
                          method: "DELETE" as const,
                          path: `/experiments/${id}`,
                          muster: ["experiment", "delete", id, "--yes"],
                      },
                      run: () => go("/experiments"),
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

function About({ experiment, onClose, reload }: DialogProps) {
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
            verb="Save"
            done="Saved"
            call={call}
            submit={() => perform(call).then(reload)}
            onClose={onClose}
        >
            <Field label="Name">
                <TextInput at={name} required />
            </Field>
            <Field label="Description" help="A line, shown below the name.">
                <TextInput at={description} />
            </Field>
            <Field label="Notes">
                <TextArea at={notes} rows={10} />
            </Field>
        </FormDialog>
    );
}

function Labels({ experiment, onClose, reload }: DialogProps) {
    const before = experiment.labels ?? [];
    const typed = useSignal(before.join(", "));
    const wanted = [
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
        body: { labels: wanted },
    };
    return (
        <FormDialog
            title="Labels"
            verb="Save"
            done="Saved"
            call={call}
            submit={() => perform(call).then(reload)}
            onClose={onClose}
        >
            <Field label="Labels, with commas between">
                <TextInput at={typed} />
            </Field>
        </FormDialog>
    );
}

export function Dialogs(props: { experiment: Experiment; asked: Asked; reload: () => void }) {
    const { experiment, asked, reload } = props;
    const common = { experiment, reload, onClose: () => void (asked.value = "") };
    if (asked.value === "about") return <About {...common} />;
    if (asked.value === "labels") return <Labels {...common} />;
    if (asked.value === "move") return <Move {...common} />;
    if (asked.value === "fork") return <Fork {...common} />;
    if (asked.value === "continue") return <Fork {...common} isContinued />;
    return null;
}
