// The page of a model: its details, its versions, and the selected version.

import { useComputed, useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { Action } from "../../lib/actions";
import { useActions } from "../../lib/actions";
import { get, send } from "../../lib/api";
import { count, formatMetric } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { listRows } from "../../lib/rows";
import { changeDeniedReason } from "../../lib/session";
import type { Model, ModelVersion, Paged, Workspace } from "../../lib/types";
import { navigate, queryParam, text } from "../../lib/url";
import { Ago, Empty, Field, FormDialog, PageHead, Loaded, Select } from "../../parts";
import { type Column, Table } from "../../parts/table/table";
import { RegisterVersionDialog, Version } from "./version";
import { DetailFields, detailsBody, detailsOf, Labels, NotesAndMetadata } from "./details_form";

const chosenVersion = queryParam("version", text());
const sort = queryParam("sort", text("-version"));

interface ModelData {
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
        alignEnd: true,
        sort: "metric",
        value: (one) => one.checkpoint.training.searcherMetric,
        cell: (one) => formatMetric(one.checkpoint.training.searcherMetric ?? null),
    },
    {
        id: "trial",
        title: "Trial",
        width: 80,
        alignEnd: true,
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

type OpenDialog = "" | "edit" | "move" | "register";

function EditModelDialog({ model, onClose }: { model: Model; onClose: () => void }) {
    const details = useMemo(() => {
        const { name, description, labels, notes, metadata } = model;
        return detailsOf({ name, about: description ?? "", labels: labels ?? [], notes: notes ?? "", metadata });
    }, []);
    const submit = async () => {
        const body = detailsBody(details, "description");
        const answer = await send<{ model: Model }>("PATCH", `/models/${model.id}`, body);
        if (answer.model.name !== model.name) navigate(`/models/${encodeURIComponent(answer.model.name)}`, true);
    };
    return (
        <FormDialog title={`Edit ${model.name}`} submitLabel="Save" doneText="Saved" onClose={onClose} submit={submit}>
            <DetailFields details={details} about="Description" />
        </FormDialog>
    );
}

function MoveModelDialog({ model, onClose }: { model: Model; onClose: () => void }) {
    const workspaceId = useSignal("");
    const teams = useLoad((abort) =>
        get<{ workspaces: Workspace[] }>("/workspaces", { archived: false }, abort),
    );
    const others = (teams.data.value?.workspaces ?? []).filter((one) => one.id !== model.workspaceId);
    const submit = async () => {
        if (!workspaceId.value) throw new Error("Choose a team.");
        await send("POST", `/models/${model.id}/move`, { destinationWorkspaceId: Number(workspaceId.value) });
    };
    return (
        <FormDialog title={`Move ${model.name}`} submitLabel="Move" doneText="Moved" onClose={onClose} submit={submit}>
            <p>Everyone who can view the other team will see the model and the checkpoints of its versions.</p>
            <Field label="Team">
                <Select
                    label="Team"
                    hidesLabel
                    bind={workspaceId}
                    options={[
                        { value: "", title: "Choose a team" },
                        ...others.map((one) => ({ value: String(one.id), title: one.name })),
                    ]}
                />
            </Field>
        </FormDialog>
    );
}

function modelActions(
    model: Model,
    refused: string | undefined,
    open: (dialog: OpenDialog) => void,
    onChanged: () => void,
): Action[] {
    const path = `/models/${model.id}`;
    const closed = model.archived ? "The model is archived. Unarchive it first" : undefined;
    const mayAdd = changeDeniedReason(model.workspaceId);
    const verb = model.archived ? "unarchive" : "archive";
    return [
        { name: "New version", icon: "plus", key: "n", disabledReason: mayAdd ?? closed, run: () => open("register") },
        { name: "Edit", key: "e", disabledReason: refused, run: () => open("edit") },
        { name: "Move to another team", icon: "move", disabledReason: refused, run: () => open("move") },
        {
            name: model.archived ? "Unarchive" : "Archive",
            icon: "archive",
            disabledReason: refused,
            call: { method: "POST", path: `${path}/${verb}`, muster: ["model", verb, model.name] },
            run: onChanged,
        },
        {
            name: "Delete the model",
            icon: "kill",
            disabledReason: refused,
            danger: `${model.name} and its ${count(model.numVersions, "version")} are removed from the registry. The checkpoints stay.`,
            call: { method: "DELETE", path, muster: ["model", "delete", model.name] },
            run: () => navigate("/models"),
        },
    ];
}

function ModelFacts({ model, team }: { model: Model; team: Workspace }) {
    return (
        <aside class="card stack" aria-label="About the model">
            <dl class="facts">
                <dt>Team</dt>
                <dd>{team.name}</dd>
                <dt>Owner</dt>
                <dd>{model.username}</dd>
                <dt>Created</dt>
                <dd>
                    <Ago at={model.creationTime} />
                </dd>
                <dt>Updated</dt>
                <dd>
                    <Ago at={model.lastUpdatedTime} />
                </dd>
            </dl>
            {model.labels && model.labels.length > 0 && <Labels labels={model.labels} />}
            <NotesAndMetadata {...(model.notes ? { notes: model.notes } : {})} metadata={model.metadata} />
        </aside>
    );
}

export function Page({ name }: { name: string }) {
    const open = useSignal<OpenDialog>("");
    const path = `/models/${encodeURIComponent(name)}`;
    const load = useLoad(
        async (abort): Promise<ModelData> => {
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
    const refused = model && changeDeniedReason(model.workspaceId, model.userId);
    const actions = model ? modelActions(model, refused, (what) => (open.value = what), load.reload) : [];
    useActions(actions);
    const close = () => {
        open.value = "";
        load.reload();
    };
    return (
        <main>
            <PageHead
                title={name}
                crumbs={[{ title: "Registry", href: "/models" }]}
                actions={actions.filter((action) => !action.disabledReason)}
                sub={model && [model.description, model.archived && "archived"].filter(Boolean).join(" · ")}
            />
            <Loaded load={load}>
                {({ model, versions, team }) => {
                    const shown =
                        versions.find((one) => String(one.version) === chosenVersion.value) ?? versions[0];
                    return (
                        <div class="model-grid">
                            <div class="stack">
                                {versions.length === 0 ? (
                                    <Empty title="No versions yet" icon="registry">
                                        <p>Register a checkpoint of a trial as the first version.</p>
                                    </Empty>
                                ) : (
                                    <Table
                                        label={`Versions of ${model.name}`}
                                        columns={columns}
                                        rows={rows}
                                        sort={sort}
                                        height={300}
                                        href={(one) => `${path}?version=${one.version}`}
                                        rowClass={(one) => (one === shown ? "table-selected" : undefined)}
                                    />
                                )}
                                {shown && (
                                    <Version
                                        key={shown.version}
                                        version={shown}
                                        refused={changeDeniedReason(model.workspaceId, shown.userId)}
                                        onChanged={load.reload}
                                    />
                                )}
                            </div>
                            <ModelFacts model={model} team={team} />
                        </div>
                    );
                }}
            </Loaded>
            {open.value === "edit" && model && <EditModelDialog model={model} onClose={close} />}
            {open.value === "move" && model && <MoveModelDialog model={model} onClose={close} />}
            {open.value === "register" && <RegisterVersionDialog model={name} onClose={close} />}
        </main>
    );
}
