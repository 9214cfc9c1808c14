// A model: what it is, its versions, and the one that is looked at.

import { useComputed, useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { Action } from "../../lib/actions";
import { useActions } from "../../lib/actions";
import { get, send } from "../../lib/api";
import { count, metric } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { listRows } from "../../lib/rows";
import { mayChange } from "../../lib/session";
import type { Model, ModelVersion, Paged, Workspace } from "../../lib/types";
import { go, param, text } from "../../lib/url";
import { Ago, Empty, Field, FormDialog, Head, Loaded, Select } from "../../parts";
import { type Column, Table } from "../../parts/table";
import { RegisterVersion, Version } from "./version";
import { Described, Labels, WordFields, wordsBody, wordsOf } from "./words";

const chosen = param("version", text());
const sort = param("sort", text("-version"));

interface Whole {
    model: Model;
    versions: ModelVersion[];
    team: Workspace;
}

const columns: Column<ModelVersion>[] = [
    {
        id: "version",
        title: "Version",
        width: 90,
        sort: "version",
        value: (one) => one.version,
        cell: (one) => (
            <a href={`?version=${one.version}`} aria-label={`Version ${one.version}`}>
                {one.version}
            </a>
        ),
    },
    { id: "name", title: "Name", width: 130, sort: "name", value: (one) => one.name, cell: (one) => one.name },
    { id: "comment", title: "Comment", width: 220, cell: (one) => one.comment },
    {
        id: "metric",
        title: "Metric",
        width: 90,
        end: true,
        sort: "metric",
        value: (one) => one.checkpoint.training.searcherMetric,
        cell: (one) => metric(one.checkpoint.training.searcherMetric ?? null),
    },
    {
        id: "trial",
        title: "Trial",
        width: 80,
        end: true,
        cell: (one) => {
            const id = one.checkpoint.training.trialId;
            return id === undefined ? "–" : <a href={`/trials/${id}`}>{id}</a>;
        },
    },
    { id: "labels", title: "Labels", width: 140, cell: (one) => <Labels labels={one.labels} /> },
    { id: "user", title: "By", width: 110, cell: (one) => one.username },
    {
        id: "created",
        title: "Registered",
        width: 110,
        sort: "created",
        value: (one) => one.creationTime,
        cell: (one) => <Ago at={one.creationTime} />,
    },
];

type Open = "" | "edit" | "move" | "register";

function EditModel({ model, onClose }: { model: Model; onClose: () => void }) {
    const words = useMemo(() => {
        const { name, description, labels, notes, metadata } = model;
        return wordsOf({ name, about: description ?? "", labels: labels ?? [], notes: notes ?? "", metadata });
    }, []);
    const submit = async () => {
        const body = wordsBody(words, "description");
        const answer = await send<{ model: Model }>("PATCH", `/models/${model.id}`, body);
        if (answer.model.name !== model.name) go(`/models/${encodeURIComponent(answer.model.name)}`, true);
    };
    return (
        <FormDialog title={`Edit ${model.name}`} verb="Save" done="Saved" onClose={onClose} submit={submit}>
            <WordFields words={words} about="Description" />
        </FormDialog>
    );
}

function MoveModel({ model, onClose }: { model: Model; onClose: () => void }) {
    const to = useSignal("");
    const teams = useLoad((abort) =>
        get<{ workspaces: Workspace[] }>("/workspaces", { archived: false }, abort),
    );
    const others = (teams.data.value?.workspaces ?? []).filter((one) => one.id !== model.workspaceId);
    const submit = async () => {
        if (!to.value) throw new Error("Choose the team that is to have it.");
        await send("POST", `/models/${model.id}/move`, { destinationWorkspaceId: Number(to.value) });
    };
    return (
        <FormDialog title={`Move ${model.name}`} verb="Move it" done="Moved" onClose={onClose} submit={submit}>
            <p>Who sees the other team will see the model and the checkpoints of its versions.</p>
            <Field label="To the team">
                <Select
                    label="Team"
                    quiet
                    at={to}
                    options={[
                        { value: "", title: "choose" },
                        ...others.map((one) => ({ value: String(one.id), title: one.name })),
                    ]}
                />
            </Field>
        </FormDialog>
    );
}

function actionsOf(model: Model, refused: string | undefined, open: (what: Open) => void, changed: () => void): Action[] {
    const path = `/models/${model.id}`;
    const closed = model.archived ? "The model is archived: unarchive it first" : undefined;
    const mayAdd = mayChange(model.workspaceId);
    const verb = model.archived ? "unarchive" : "archive";
    return [
        { name: "New version", icon: "plus", key: "n", refused: mayAdd ?? closed, run: () => open("register") },
        { name: "Edit", key: "e", refused, run: () => open("edit") },
        { name: "Move to another team", icon: "move", refused, run: () => open("move") },
        {
            name: model.archived ? "Unarchive" : "Archive",
            icon: "archive",
            refused,
            call: { method: "POST", path: `${path}/${verb}`, muster: ["model", verb, model.name] },
            run: changed,
        },
        {
            name: "Delete the model",
            icon: "kill",
            refused,
            danger: `${model.name} and its ${count(model.numVersions, "version")} leave the registry; their checkpoints stay.`,
            call: { method: "DELETE", path, muster: ["model", "delete", model.name] },
            run: () => go("/models"),
        },
    ];
}

function About({ model, team }: { model: Model; team: Workspace }) {
    return (
        <aside class="card stack" aria-label="About the model">
            <dl class="facts">
                <dt>Team</dt>
                <dd>{team.name}</dd>
                <dt>Owner</dt>
                <dd>{model.username}</dd>
                <dt>Made</dt>
                <dd>
                    <Ago at={model.creationTime} />
                </dd>
                <dt>Updated</dt>
                <dd>
                    <Ago at={model.lastUpdatedTime} />
                </dd>
            </dl>
            {model.labels && model.labels.length > 0 && <Labels labels={model.labels} />}
            <Described {...(model.notes ? { notes: model.notes } : {})} metadata={model.metadata} />
        </aside>
    );
}

export function Page({ name }: { name: string }) {
    const open = useSignal<Open>("");
    const path = `/models/${encodeURIComponent(name)}`;
    const load = useLoad(
        async (abort): Promise<Whole> => {
            const { model, modelVersions } = await get<{ model: Model; modelVersions: ModelVersion[] } & Paged>(
                `${path}/versions`,
                {},
                abort,
            );
            const { workspace } = await get<{ workspace: Workspace }>(
                `/workspaces/${model.workspaceId}`,
                {},
                abort,
            );
            return { model, versions: modelVersions, team: workspace };
        },
        { topics: ["models"] },
    );
    const versions = useComputed(() => load.data.value?.versions);
    const rows = useMemo(() => listRows<ModelVersion>(versions, (one) => String(one.version)), []);
    const model = load.data.value?.model;
    const refused = model && mayChange(model.workspaceId, model.userId);
    const actions = model ? actionsOf(model, refused, (what) => (open.value = what), load.reload) : [];
    useActions(actions);
    const close = () => {
        open.value = "";
        load.reload();
    };
    return (
        <main>
            <Head
                title={name}
                crumbs={[{ title: "Registry", href: "/models" }]}
                actions={actions.filter((action) => !action.refused)}
                sub={model && [model.description, model.archived && "archived"].filter(Boolean).join(" · ")}
            />
            <Loaded of={load}>
                {({ model, versions, team }) => {
                    const shown =
                        versions.find((one) => String(one.version) === chosen.value) ?? versions[0];
                    return (
                        <div class="model-grid">
                            <div class="stack">
                                {versions.length === 0 ? (
                                    <Empty title="No versions yet" icon="registry">
                                        <p>Register a checkpoint of a trial as its first version.</p>
                                    </Empty>
                                ) : (
                                    <Table
                                        label={`Versions of ${model.name}`}
                                        columns={columns}
                                        rows={rows}
                                        sort={sort}
                                        height={300}
                                        href={(one) => `${path}?version=${one.version}`}
                                        rowClass={(one) => (one === shown ? "table-chosen" : undefined)}
                                    />
                                )}
                                {shown && (
                                    <Version
                                        key={shown.version}
                                        version={shown}
                                        refused={mayChange(model.workspaceId, shown.userId)}
                                        changed={load.reload}
                                    />
                                )}
                            </div>
                            <About model={model} team={team} />
                        </div>
                    );
                }}
            </Loaded>
            {open.value === "edit" && model && <EditModel model={model} onClose={close} />}
            {open.value === "move" && model && <MoveModel model={model} onClose={close} />}
            {open.value === "register" && <RegisterVersion model={name} onClose={close} />}
        </main>
    );
}
