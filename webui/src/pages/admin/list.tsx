// Lists that are short enough to be read whole, and what can be done with a row of them.

import { type ReadonlySignal, useComputed } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { type Action, useActions } from "../../lib/actions";
import type { Load } from "../../lib/load";
import { listRows } from "../../lib/rows";
import type { Workspace } from "../../lib/types";
import { param, text } from "../../lib/url";
import { ActionButton, ErrorBox, Menu } from "../../parts";
import { copyItems } from "../../parts/menu";
import { type Column, Table } from "../../parts/table";

export const find = param("find", text());
export const sort = param("sort", text());

export function ListTable<T, D>(props: {
    label: string;
    of: Load<D>;
    pick: (data: D) => readonly T[];
    columns: readonly Column<T>[];
    name: (row: T) => string;
    id: (row: T) => string;
    /** What Search looks in, where the list has one. */
    words?: (row: T) => string;
    href?: (row: T) => string;
    rowClass?: (row: T) => string | undefined;
    empty?: ComponentChildren;
    height?: number;
}) {
    const list: ReadonlySignal<readonly T[] | undefined> = useComputed(() => {
        const data = props.of.data.value;
        const letters = find.value.toLowerCase();
        const { words, pick } = props;
        const all = data && pick(data);
        return words ? all?.filter((row) => words(row).toLowerCase().includes(letters)) : all;
    });
    const rows = useMemo(() => listRows<T>(list, props.id), []);
    const error = props.of.error.value;
    const { label, columns, name, href, rowClass, empty, height = 640 } = props;
    return (
        <>
            {error !== undefined && <ErrorBox error={error} retry={props.of.reload} />}
            <Table
                {...{ label, columns, rows, sort, name, height }}
                {...(href ? { href } : {})}
                {...(rowClass ? { rowClass } : {})}
                empty={empty ?? <p class="admin-none muted">None{find.value ? " with these letters" : " yet"}.</p>}
            />
        </>
    );
}

/** What makes a new one, also by the key n. */
export function NewButton({ name, run }: { name: string; run: () => void }) {
    const action: Action = { name, icon: "plus", key: "n", run };
    useActions([action]);
    return <ActionButton action={action} />;
}

/** The menu of a row: only what the caller may, and the commands that do it. */
export function RowMenu({ name, actions }: { name: string; actions: () => readonly Action[] }) {
    const offered = actions().filter((action) => !action.refused);
    if (offered.length === 0) return null;
    const copies = copyItems(offered.filter((action) => action.call));
    return (
        <Menu
            kind="quiet"
            icon="more"
            label={`Actions of ${name}`}
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
