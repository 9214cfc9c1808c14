// The dialogs of the actions on several experiments.

import { useSignal } from "@preact/signals";
import { count } from "../../lib/format";
import { projectOptions } from "../../lib/projects";
import type { ActionResult, Project } from "../../lib/types";
import { Button } from "../../parts/basic/button";
import { Field, Select, TextInput } from "../../parts/form/field";
import { Dialog } from "../../parts/overlay/dialog";

/** The result of an action that failed for some experiments. */
export interface Outcome {
    title: string;
    failed: readonly ActionResult[];
    done: number;
}

export function OutcomeDialog({ outcome, onClose }: { outcome: Outcome; onClose: () => void }) {
    return (
        <Dialog title={outcome.title} onClose={onClose}>
            {outcome.done > 0 && <p class="good">Succeeded for {count(outcome.done, "experiment")}.</p>}
            <p class="bad">Failed for {count(outcome.failed.length, "experiment")}:</p>
            <dl class="facts">
                {outcome.failed.map((one) => (
                    <>
                        <dt class="num">{one.id}</dt>
                        <dd>{one.error}</dd>
                    </>
                ))}
            </dl>
        </Dialog>
    );
}

export function LabelDialog(props: { known: readonly string[]; onLabel: (label: string) => void; onClose: () => void }) {
    const label = useSignal("");
    const add = () => label.value.trim() && props.onLabel(label.value.trim());
    return (
        <Dialog
            title="Add a label"
            onClose={props.onClose}
            actions={
                <Button kind="main" onClick={add}>
                    Add
                </Button>
            }
        >
            <Field label="Label">
                <TextInput bind={label} onEnter={add} autofocus />
            </Field>
            <div class="line">
                {props.known.slice(0, 12).map((one) => (
                    <button key={one} type="button" class="label" onClick={() => props.onLabel(one)}>
                        {one}
                    </button>
                ))}
            </div>
        </Dialog>
    );
}

export function MoveDialog(props: {
    projects: readonly Project[];
    onMove: (project: Project) => void;
    onClose: () => void;
}) {
    const projectId = useSignal(String(props.projects[0]?.id ?? ""));
    const move = () => {
        const project = props.projects.find((one) => String(one.id) === projectId.value);
        if (project) props.onMove(project);
    };
    return (
        <Dialog
            title="Move to another project"
            onClose={props.onClose}
            actions={
                <Button kind="main" onClick={move}>
                    Move
                </Button>
            }
        >
            <Select label="Project" bind={projectId} options={projectOptions(props.projects)} />
        </Dialog>
    );
}
