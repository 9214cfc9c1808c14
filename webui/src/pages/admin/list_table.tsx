// Tables for lists that are loaded as a whole, and the menu of actions of a row.

import { type ReadonlySignal, useComputed } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { type Action, useActions } from "../../lib/actions";
import type { Load } from "../../lib/load";
import { listRows } from "../../lib/rows";
import type { Workspace } from "../../lib/types";
import { queryParam, text } from "../../lib/url";
import { ActionButton, ErrorBox, Menu } from "../../parts";
import { copyItems } from "../../parts/overlay/menu";
import { type Column, Table } from "../../parts/table/table";

export const searchText = queryParam("find", text());
export const sort = queryParam("sort", text());

export function ListTable<T, D>(props: {
    label: string;
    load: Load<D>;
    pick: (data: D) => readonly T[];
    columns: readonly Column<T>[];
    name: (row: T) => string;
    id: (row: T) => string;
    /** The text of a row that the search looks in, if the list has a search. */
    searchable?: (row: T) => string;
    href?: (row: T) => string;
    rowClass?: (row: T) => string | undefined;
    empty?: ComponentChildren;
    height?: number;
}) {
    const list: ReadonlySignal<readonly T[] | undefined> = useComputed(() => {
        const data = props.load.data.value;
        const letters = searchText.value.toLowerCase();
        const { searchable, pick } = props;
        const all = data && pick(data);
        return searchable ? all?.filter((row) => searchable(row).toLowerCase().includes(letters)) : all;
    });
    const rows = useMemo(() => listRows<T>(list, props.id), []);
    const error = props.load.error.value;
    const { label, columns, name, href, rowClass, empty, height = 640 } = props;
    return (
        <>
            {error !== undefined && <ErrorBox error={error} retry={props.load.reload} />}
            <Table
                {...{ label, columns, rows, sort, name, height }}
                {...(href ? { href } : {})}
                {...(rowClass ? { rowClass } : {})}
                empty={empty ?? <p class="admin-empty muted">{searchText.value ? "No matches." : "None yet."}</p>}
            />
        </>
    );
}

/** The button that creates an object. Its shortcut is n. */
export function NewButton({ name, run }: { name: string; run: () => void }) {
    const action: Action = { name, icon: "plus", key: "n", run };
    useActions([action]);
    return <ActionButton action={action} />;
}

/** The menu of a row: the actions that the user may run, and their commands to copy. */
export function RowMenu({ name, actions }: { name: string; actions: () => readonly Action[] }) {
    const offered = actions().filter((action) => !action.disabledReason);
    if (offered.length === 0) return null;
    const copies = copyItems(offered.filter((action) => action.call));
    return (
        <Menu
            kind="quiet"
            icon="more"
            label={`Actions for ${name}`}
            items={copies.length ? [...offered, "-", ...copies] : offered}
        />
    );
}

export function menuColumn<T>(name: (row: T) => string, actions: (row: T) => readonly Action[]): Column<T> {
    return {
        id: "menu",
        title: "Actions",
        width: 80,
        cell: (row) => <RowMenu name={name(row)} actions={() => actions(row)} />,
    };
}

export const teamOptions = (teams: readonly Workspace[]) =>
    teams.map((team) => ({ value: String(team.id), title: team.name }));
