// What can be done with several experiments at once, and what became of each.

import { type Signal, useSignal } from "@preact/signals";
import { type Action, useActions } from "../../lib/actions";
import { get, perform, send } from "../../lib/api";
import { count } from "../../lib/format";
import { confirm, toast, toastError } from "../../lib/notices";
import { projectOptions, readProjects } from "../../lib/projects";
import type { ActionResult, Experiment, Project } from "../../lib/types";
import { go } from "../../lib/url";
import { ActionButton, Button } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { Field, Select, TextInput } from "../../parts/field";
import { copyItems, Menu } from "../../parts/menu";

const COMPARED = 50;

interface Outcome {
    title: string;
    failed: readonly ActionResult[];
    done: number;
}

interface Verb {
    word: string;
    title: string;
    past: string;
    icon: string;
    danger?: string;
}

const verbs: readonly Verb[] = [
    { word: "pause", title: "Pause", past: "Paused", icon: "pause" },
    { word: "activate", title: "Resume", past: "Resumed", icon: "play" },
    {
        word: "cancel",
        title: "Cancel",
        past: "Canceled",
        icon: "stop",
        danger: "They save a checkpoint and end. They can be continued from it.",
    },
    {
        word: "kill",
        title: "Kill",
        past: "Killed",
        icon: "kill",
        danger: "They end at once; what they did since their last checkpoint is lost.",
    },
    { word: "archive", title: "Archive", past: "Archived", icon: "archive" },
    { word: "unarchive", title: "Unarchive", past: "Shown again", icon: "archive" },
];

function Outcomes({ outcome, onClose }: { outcome: Outcome; onClose: () => void }) {
    return (
        <Dialog title={outcome.title} onClose={onClose}>
            {outcome.done > 0 && <p class="good">Done with {count(outcome.done, "experiment")}.</p>}
            <p class="bad">Not with {count(outcome.failed.length, "experiment")}:</p>
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

function LabelDialog(props: { known: readonly string[]; onLabel: (label: string) => void; onClose: () => void }) {
    const label = useSignal("");
    const put = () => label.value.trim() && props.onLabel(label.value.trim());
    return (
        <Dialog
            title="Add a label"
            onClose={props.onClose}
            actions={
                <Button kind="main" onClick={put}>
                    Add it
                </Button>
            }
        >
            <Field label="Label">
                <TextInput at={label} onEnter={put} autofocus />
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

function MoveDialog(props: {
    projects: readonly Project[];
    onMove: (project: Project) => void;
    onClose: () => void;
}) {
    const at = useSignal(String(props.projects[0]?.id ?? ""));
    const move = () => {
        const project = props.projects.find((one) => String(one.id) === at.value);
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
            <Select
                label="Project"
                at={at}
                options={projectOptions(props.projects)}
            />
        </Dialog>
    );
}

/** The trial of each that did best, or its first. */
async function trialsOf(ids: readonly string[]): Promise<number[]> {
    const answers = await Promise.all(
        ids.map((id) => get<{ experiment: Experiment }>(`/experiments/${id}`)),
    );
    return answers.flatMap(({ experiment: { bestTrialId, trialIds } }) => {
        const trial = bestTrialId ?? trialIds?.[0];
        return trial === undefined ? [] : [trial];
    });
}

export function Bulk(props: {
    selected: Signal<ReadonlySet<string>>;
    labels: readonly string[];
    onDone: () => void;
    onPin: (id: number) => void;
}) {
    const { selected } = props;
    const ids = [...selected.value].sort((a, b) => Number(a) - Number(b));
    const outcome = useSignal<Outcome | null>(null);
    const open = useSignal<"label" | "move" | null>(null);
    const projects = useSignal<readonly Project[]>([]);
    const some = count(ids.length, "experiment");

    const finish = (title: string, past: string, results: readonly ActionResult[]) => {
        const failed = results.filter((one) => one.error);
        const done = results.length - failed.length;
        if (failed.length) outcome.value = { title, failed, done };
        else toast(`${past} ${count(done, "experiment")}`, "good");
        props.onDone();
    };
    const callOf = (word: string) => ({
        method: "POST" as const,
        path: `/experiments/${word}`,
        body: { experimentIds: ids.map(Number), projectId: 0 },
        muster: ["experiment", word, ...ids],
    });
    const doVerb = async (verb: Verb) => {
        const asked = { title: `${verb.title} ${some}?`, text: verb.danger ?? "", verb: verb.title };
        if (verb.danger && !(await confirm({ ...asked, danger: true }))) return;
        const { results } = await perform<{ results: ActionResult[] }>(callOf(verb.word));
        finish(verb.title, verb.past, results);
    };
    const doEach = async (title: string, past: string, path: (id: string) => string) => {
        const results = await Promise.all(
            ids.map((id) =>
                send("PUT", path(id)).then(
                    () => ({ id: Number(id), error: "" }),
                    (error: Error) => ({ id: Number(id), error: error.message }),
                ),
            ),
        );
        finish(title, past, results);
    };
    const onLabel = (label: string) => {
        open.value = null;
        const path = (id: string) => `/experiments/${id}/labels/${encodeURIComponent(label)}`;
        doEach(`Add the label ${label}`, "Labelled", path).catch(toastError);
    };
    const onMove = (project: Project) => {
        open.value = null;
        const body = { experimentIds: ids.map(Number), destinationProjectId: project.id, projectId: 0 };
        send<{ results: ActionResult[] }>("POST", "/experiments/move", body).then(
            ({ results }) => finish(`Move to ${project.name}`, "Moved", results),
            toastError,
        );
    };
    const openMove = async () => {
        projects.value = await readProjects();
        open.value = "move";
    };
    const compare = async () => go(`/compare?trials=${(await trialsOf(ids)).join(",")}`);

    const actions: Action[] = ids.length
        ? [
              {
                  name: "Compare",
                  key: "c",
                  icon: "compare",
                  run: compare,
                  refused: ids.length > COMPARED ? `At most ${COMPARED} are compared` : undefined,
              },
              ...verbs.map((verb) => ({
                  name: verb.title,
                  icon: verb.icon,
                  run: () => doVerb(verb),
              })),
              { name: "Label…", icon: "label", run: () => (open.value = "label") },
              { name: "Move…", icon: "move", run: openMove },
              ...(ids.length === 1
                  ? [{ name: "Pin as baseline", icon: "pin", run: () => props.onPin(Number(ids[0])) }]
                  : []),
              { name: "Choose none", key: "Escape", run: () => (selected.value = new Set()) },
          ]
        : [];
    useActions(actions);
    const copies = copyItems(verbs.map((verb) => ({ name: verb.title, call: callOf(verb.word) })));
    return (
        <>
            {ids.length > 0 && (
                <div class="bulk" role="toolbar" aria-label="With those chosen">
                    <strong class="num">{some} chosen</strong>
                    {actions.map((action) => (
                        <ActionButton key={action.name} action={action} />
                    ))}
                    <Menu label="Copy as a command" icon="copy" items={copies} />
                </div>
            )}
            {outcome.value && (
                <Outcomes outcome={outcome.value} onClose={() => (outcome.value = null)} />
            )}
            {open.value === "label" && (
                <LabelDialog
                    known={props.labels}
                    onLabel={onLabel}
                    onClose={() => (open.value = null)}
                />
            )}
            {open.value === "move" && (
                <MoveDialog
                    projects={projects.value}
                    onMove={onMove}
                    onClose={() => (open.value = null)}
                />
            )}
        </>
    );
}
