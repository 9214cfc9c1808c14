// The model registry.

import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { Action } from "../../lib/actions";
import { useActions } from "../../lib/actions";
import { get, send } from "../../lib/api";
import { useEvents } from "../../lib/events/subscribe";
import { useLoad } from "../../lib/load";
import { pagedRows, reloadOn } from "../../lib/rows";
import type { Model, Paged, Workspace } from "../../lib/types";
import { flag, navigate, queryParam, text } from "../../lib/url";
import { Ago, Empty, Field, FormDialog, PageHead, Search, Select, Switch } from "../../parts";
import { type Column, Table } from "../../parts/table/table";
import { Labels, DetailFields, detailsBody, detailsOf } from "./details_form";

const name = queryParam("name", text());
const team = queryParam("team", text());
const archived = queryParam("archived", flag());
const sort = queryParam("sort", text("-updated"));

const sortKeys: Record<string, string> = {
    name: "SORT_BY_NAME",
    updated: "SORT_BY_LAST_UPDATED_TIME",
    created: "SORT_BY_CREATION_TIME",
    versions: "SORT_BY_NUM_VERSIONS",
};

function modelQuery() {
    const key = sort.value.replace(/^-/, "");
    return {
        name: name.value || undefined,
        workspaceIds: team.value || undefined,
        archived: archived.value ? undefined : false,
        sortBy: sortKeys[key],
        orderBy: sort.value.startsWith("-") ? "ORDER_BY_DESC" : "ORDER_BY_ASC",
    };
}

function modelColumns(teams: ReadonlyMap<number, string>): Column<Model>[] {
    return [
        {
            id: "name",
            title: "Model",
            width: 220,
            sort: "name",
            cell: (model) => <a href={`/models/${encodeURIComponent(model.name)}`}>{model.name}</a>,
        },
        { id: "description", title: "Description", width: 280, cell: (model) => model.description },
        {
            id: "versions",
            title: "Versions",
            width: 90,
            alignEnd: true,
            sort: "versions",
            cell: (model) => model.numVersions,
        },
        { id: "labels", title: "Labels", width: 180, cell: (model) => <Labels labels={model.labels} /> },
        { id: "team", title: "Team", width: 130, cell: (model) => teams.get(model.workspaceId) },
        { id: "owner", title: "Owner", width: 110, cell: (model) => model.username },
        {
            id: "updated",
            title: "Updated",
            width: 110,
            sort: "updated",
            cell: (model) => <Ago at={model.lastUpdatedTime} />,
        },
        { id: "archived", title: "State", width: 90, cell: (model) => (model.archived ? "Archived" : "") },
    ];
}

function ModelForm({ teams, onClose }: { teams: readonly Workspace[]; onClose: () => void }) {
    const details = useMemo(() => detailsOf({}), []);
    const workspaceId = useSignal(team.peek() || String(teams[0]?.id ?? 1));
    const submit = async () => {
        const body = { ...detailsBody(details, "description"), workspaceId: Number(workspaceId.value) };
        // For an existing name the master returns the existing model, so the page checks the name first.
        const { models } = await get<{ models: Model[] }>("/models", { name: details.name.value });
        if (models.some((one) => one.name === details.name.value.trim()))
            throw new Error(`A model named ${details.name.value.trim()} already exists. Choose another name.`);
        const { model } = await send<{ model: Model }>("POST", "/models", body);
        navigate(`/models/${encodeURIComponent(model.name)}`);
    };
    return (
        <FormDialog title="New model" submitLabel="Create" onClose={onClose} submit={submit}>
            <DetailFields details={details} about="Description" />
            <Field label="Team">
                <Select label="Team" hidesLabel bind={workspaceId} options={teamOptions(teams)} />
            </Field>
        </FormDialog>
    );
}

export const teamOptions = (teams: readonly Workspace[]) =>
    teams.map((one) => ({ value: String(one.id), title: one.name }));

export function Page() {
    const isCreating = useSignal(false);
    const teams = useLoad(
        (abort) => get<{ workspaces: Workspace[] }>("/workspaces", { archived: false }, abort),
        { topics: ["workspaces"] },
    );
    const all = useComputed(() => teams.data.value?.workspaces ?? []);
    const rows = useMemo(
        () =>
            pagedRows<Model>(
                async ({ offset, limit }, abort) => {
                    const asked = { ...modelQuery(), offset, limit };
                    const answer = await get<{ models: Model[] } & Paged>("/models", asked, abort);
                    return { rows: answer.models, total: answer.pagination.total };
                },
                (model) => String(model.id),
            ),
        [],
    );
    useEffect(() => reloadOn(rows, modelQuery), []);
    useEvents({ topics: ["models"] }, () => rows.reload(), () => rows.reload());
    const columns = useComputed(() => modelColumns(new Map(all.value.map((one) => [one.id, one.name]))));
    const create: Action = { name: "New model", icon: "plus", key: "n", run: () => (isCreating.value = true) };
    useActions([create]);
    return (
        <main class="table-page">
            <PageHead title="Registry" actions={[create]} />
            <div class="line">
                <Search bind={name} label="Find models by name" />
                <Select
                    label="Team"
                    bind={team}
                    options={[{ value: "", title: "all" }, ...teamOptions(all.value)]}
                />
                <Switch label="Show archived" bind={archived} />
            </div>
            <Table
                label="Models"
                columns={columns.value}
                rows={rows}
                sort={sort}
                href={(model) => `/models/${encodeURIComponent(model.name)}`}
                empty={
                    <Empty title="No models" icon="registry">
                        <p>A model has versions. Each version is a checkpoint that is kept.</p>
                    </Empty>
                }
            />
            {isCreating.value && <ModelForm teams={all.value} onClose={() => (isCreating.value = false)} />}
        </main>
    );
}
