// The models of the registry.

import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { Action } from "../../lib/actions";
import { useActions } from "../../lib/actions";
import { get, send } from "../../lib/api";
import { useLive } from "../../lib/live";
import { useLoad } from "../../lib/load";
import { pagedRows, reloadOn } from "../../lib/rows";
import type { Model, Paged, Workspace } from "../../lib/types";
import { flag, go, param, text } from "../../lib/url";
import { Ago, Empty, Field, FormDialog, Head, Search, Select, Switch } from "../../parts";
import { type Column, Table } from "../../parts/table";
import { Labels, WordFields, wordsBody, wordsOf } from "./words";

const name = param("name", text());
const team = param("team", text());
const archived = param("archived", flag());
const sort = param("sort", text("-updated"));

const orders: Record<string, string> = {
    name: "SORT_BY_NAME",
    updated: "SORT_BY_LAST_UPDATED_TIME",
    created: "SORT_BY_CREATION_TIME",
    versions: "SORT_BY_NUM_VERSIONS",
};

function query() {
    const key = sort.value.replace(/^-/, "");
    return {
        name: name.value || undefined,
        workspaceIds: team.value || undefined,
        archived: archived.value ? undefined : false,
        sortBy: orders[key],
        orderBy: sort.value.startsWith("-") ? "ORDER_BY_DESC" : "ORDER_BY_ASC",
    };
}

function columnsFor(teams: ReadonlyMap<number, string>): Column<Model>[] {
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
            end: true,
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

function CreateModel({ teams, onClose }: { teams: readonly Workspace[]; onClose: () => void }) {
    const words = useMemo(() => wordsOf({}), []);
    const into = useSignal(team.peek() || String(teams[0]?.id ?? 1));
    const submit = async () => {
        const body = { ...wordsBody(words, "description"), workspaceId: Number(into.value) };
        // The master answers who makes one of a name again with that which is there.
        const { models } = await get<{ models: Model[] }>("/models", { name: words.name.value });
        if (models.some((one) => one.name === words.name.value.trim()))
            throw new Error(`There is a model ${words.name.value.trim()} already; take another name.`);
        const { model } = await send<{ model: Model }>("POST", "/models", body);
        go(`/models/${encodeURIComponent(model.name)}`);
    };
    return (
        <FormDialog title="New model" verb="Make it" onClose={onClose} submit={submit}>
            <WordFields words={words} about="Description" />
            <Field label="Team">
                <Select label="Team" quiet at={into} options={optionsOf(teams)} />
            </Field>
        </FormDialog>
    );
}

export const optionsOf = (teams: readonly Workspace[]) =>
    teams.map((one) => ({ value: String(one.id), title: one.name }));

export function Page() {
    const making = useSignal(false);
    const teams = useLoad(
        (abort) => get<{ workspaces: Workspace[] }>("/workspaces", { archived: false }, abort),
        { topics: ["workspaces"] },
    );
    const all = useComputed(() => teams.data.value?.workspaces ?? []);
    const rows = useMemo(
        () =>
            pagedRows<Model>(
                async ({ offset, limit }, abort) => {
                    const asked = { ...query(), offset, limit };
                    const answer = await get<{ models: Model[] } & Paged>("/models", asked, abort);
                    return { rows: answer.models, total: answer.pagination.total };
                },
                (model) => String(model.id),
            ),
        [],
    );
    useEffect(() => reloadOn(rows, query), []);
    useLive({ topics: ["models"] }, () => rows.reload(), () => rows.reload());
    const columns = useComputed(() => columnsFor(new Map(all.value.map((one) => [one.id, one.name]))));
    const create: Action = { name: "New model", icon: "plus", key: "n", run: () => (making.value = true) };
    useActions([create]);
    return (
        <main class="table-page">
            <Head title="Registry" actions={[create]} />
            <div class="line">
                <Search at={name} label="Models by name" />
                <Select
                    label="Team"
                    at={team}
                    options={[{ value: "", title: "all" }, ...optionsOf(all.value)]}
                />
                <Switch label="Also archived" at={archived} />
            </div>
            <Table
                label="Models"
                columns={columns.value}
                rows={rows}
                sort={sort}
                href={(model) => `/models/${encodeURIComponent(model.name)}`}
                empty={
                    <Empty title="No models here" icon="registry">
                        <p>A model has versions, and each is a checkpoint that is kept and has a name.</p>
                    </Empty>
                }
            />
            {making.value && <CreateModel teams={all.value} onClose={() => (making.value = false)} />}
        </main>
    );
}
