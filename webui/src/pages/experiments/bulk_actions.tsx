// The toolbar with actions on the selected experiments.

import { type Signal, useSignal } from "@preact/signals";
import { type Action, useActions } from "../../lib/actions";
import { get, performCall, send } from "../../lib/api";
import { count } from "../../lib/format";
import { confirm, toast, toastError } from "../../lib/toasts";
import { readProjects } from "../../lib/projects";
import type { ActionResult, Experiment, Project } from "../../lib/types";
import { navigate } from "../../lib/url";
import { ActionButton } from "../../parts/basic/button";
import { copyItems, Menu } from "../../parts/overlay/menu";
import { LabelDialog, MoveDialog, type Outcome, OutcomeDialog } from "./bulk_dialogs";

const MAX_COMPARED = 50;

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
        danger: "They save a checkpoint and end. You can continue them later.",
    },
    {
        word: "kill",
        title: "Kill",
        past: "Killed",
        icon: "kill",
        danger: "They end at once. Work since their last checkpoint is lost.",
    },
    { word: "archive", title: "Archive", past: "Archived", icon: "archive" },
    { word: "unarchive", title: "Unarchive", past: "Unarchived", icon: "archive" },
];

/** The best trial of each experiment, or its first one. */
async function bestTrialIds(ids: readonly string[]): Promise<number[]> {
    const answers = await Promise.all(
        ids.map((id) => get<{ experiment: Experiment }>(`/experiments/${id}`)),
    );
    return answers.flatMap(({ experiment: { bestTrialId, trialIds } }) => {
        const trial = bestTrialId ?? trialIds?.[0];
        return trial === undefined ? [] : [trial];
    });
}

interface BulkProps {
    selected: Signal<ReadonlySet<string>>;
    labels: readonly string[];
    onDone: () => void;
    onPin: (id: number) => void;
}

/** The calls on all selected experiments. A dialog shows the errors, a toast the success. */
function useBulkCalls(ids: readonly string[], onDone: () => void) {
    const outcome = useSignal<Outcome | null>(null);
    const finish = (title: string, past: string, results: readonly ActionResult[]) => {
        const failed = results.filter((one) => one.error);
        const done = results.length - failed.length;
        if (failed.length) outcome.value = { title, failed, done };
        else toast(`${past} ${count(done, "experiment")}`, "good");
        onDone();
    };
    const callOf = (word: string) => ({
        method: "POST" as const,
        path: `/experiments/${word}`,
        body: { experimentIds: ids.map(Number), projectId: 0 },
        muster: ["experiment", word, ...ids],
    });
    const runVerb = async (verb: Verb) => {
        const title = `${verb.title} ${count(ids.length, "experiment")}?`;
        const question = { title, text: verb.danger ?? "", verb: verb.title, danger: true };
        if (verb.danger && !(await confirm(question))) return;
        const { results } = await performCall<{ results: ActionResult[] }>(callOf(verb.word));
        finish(verb.title, verb.past, results);
    };
    const addLabel = async (label: string) => {
        const results = await Promise.all(
            ids.map((id) =>
                send("PUT", `/experiments/${id}/labels/${encodeURIComponent(label)}`).then(
                    () => ({ id: Number(id), error: "" }),
                    (error: Error) => ({ id: Number(id), error: error.message }),
                ),
            ),
        );
        finish(`Add the label ${label}`, "Labelled", results);
    };
    const move = async (project: Project) => {
        const body = { experimentIds: ids.map(Number), destinationProjectId: project.id, projectId: 0 };
        const { results } = await send<{ results: ActionResult[] }>("POST", "/experiments/move", body);
        finish(`Move to ${project.name}`, "Moved", results);
    };
    return { outcome, callOf, runVerb, addLabel, move };
}

export function BulkActions({ selected, labels, onDone, onPin }: BulkProps) {
    const ids = [...selected.value].sort((a, b) => Number(a) - Number(b));
    const open = useSignal<"label" | "move" | null>(null);
    const projects = useSignal<readonly Project[]>([]);
    const { outcome, callOf, runVerb, addLabel, move } = useBulkCalls(ids, onDone);
    const close = () => (open.value = null);
    const openMove = async () => {
        projects.value = await readProjects();
        open.value = "move";
    };
    const compare = async () => navigate(`/compare?trials=${(await bestTrialIds(ids)).join(",")}`);
    const pin: Action = { name: "Pin as baseline", icon: "pin", run: () => onPin(Number(ids[0])) };
    const actions: Action[] = [
        {
            name: "Compare",
            key: "c",
            icon: "compare",
            run: compare,
            disabledReason: ids.length > MAX_COMPARED ? `You can compare at most ${MAX_COMPARED} experiments` : undefined,
        },
        ...verbs.map((verb) => ({ name: verb.title, icon: verb.icon, run: () => runVerb(verb) })),
        { name: "Label…", icon: "label", run: () => (open.value = "label") },
        { name: "Move…", icon: "move", run: openMove },
        ...(ids.length === 1 ? [pin] : []),
        { name: "Clear selection", key: "Escape", run: () => (selected.value = new Set()) },
    ];
    useActions(ids.length ? actions : []);
    const copies = copyItems(verbs.map((verb) => ({ name: verb.title, call: callOf(verb.word) })));
    const onLabel = (label: string) => {
        close();
        addLabel(label).catch(toastError);
    };
    const onMove = (project: Project) => {
        close();
        move(project).catch(toastError);
    };
    return (
        <>
            {ids.length > 0 && (
                <div class="bulk" role="toolbar" aria-label="Actions on the selected experiments">
                    <strong class="num">{count(ids.length, "experiment")} selected</strong>
                    {actions.map((action) => (
                        <ActionButton key={action.name} action={action} />
                    ))}
                    <Menu label="Copy as a command" icon="copy" items={copies} />
                </div>
            )}
            {outcome.value && <OutcomeDialog outcome={outcome.value} onClose={() => (outcome.value = null)} />}
            {open.value === "label" && <LabelDialog known={labels} onLabel={onLabel} onClose={close} />}
            {open.value === "move" && <MoveDialog projects={projects.value} onMove={onMove} onClose={close} />}
        </>
    );
}
