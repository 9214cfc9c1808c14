// The head of a table: titles, which sort the table, and the checkbox that selects all rows.

import type { Signal } from "@preact/signals";
import { number } from "../../lib/format";
import { nextSort, type Rows, sortDirection } from "../../lib/rows";
import { Icon } from "../basic/icon";
import type { Binding } from "../form/field";
import type { Column } from "./table";

function HeadCell<T>({ column, sort }: { column: Column<T>; sort: Binding<string> | undefined }) {
    const direction = sort && column.sort ? sortDirection(sort.value, column.sort) : 0;
    const isSortable = Boolean(sort && column.sort);
    return (
        <th
            scope="col"
            class={column.alignEnd ? "table-end" : undefined}
            aria-sort={direction ? (direction > 0 ? "ascending" : "descending") : undefined}
            title={column.help}
        >
            <span class="table-head">
                {isSortable ? (
                    <button
                        type="button"
                        class="table-sort"
                        onClick={(event) =>
                            (sort!.value = nextSort(sort!.value, column.sort!, event.shiftKey))
                        }
                    >
                        <span class="ellipsis">{column.title}</span>
                        {direction !== 0 && <Icon name={direction > 0 ? "ascending" : "descending"} />}
                    </button>
                ) : (
                    <span class="ellipsis">{column.title}</span>
                )}
                {column.head?.()}
            </span>
        </th>
    );
}

/** The checkbox that selects all loaded rows, or none. */
function SelectAllBox<T>(props: { rows: Rows<T>; selected: Signal<ReadonlySet<string>> }) {
    const { rows, selected } = props;
    const hasSelection = selected.value.size > 0;
    const onChange = () => {
        const next = new Set<string>();
        for (let i = 0; !hasSelection && i < rows.count.peek(); i++) {
            const row = rows.at(i);
            if (row !== undefined) next.add(rows.key(row));
        }
        selected.value = next;
    };
    return (
        <input
            type="checkbox"
            checked={hasSelection}
            indeterminate={hasSelection && selected.value.size < rows.count.value}
            aria-label={hasSelection ? `Clear the selection of ${number(selected.value.size)}` : "Select all loaded rows"}
            onChange={onChange}
        />
    );
}

export function TableHead<T>(props: {
    columns: readonly Column<T>[];
    rows: Rows<T>;
    sort: Binding<string> | undefined;
    selected: Signal<ReadonlySet<string>> | undefined;
}) {
    const { columns, rows, sort, selected } = props;
    return (
        <thead>
            <tr aria-rowindex={1}>
                {selected && (
                    <th class="table-box">
                        <SelectAllBox rows={rows} selected={selected} />
                    </th>
                )}
                {columns.map((column) => (
                    <HeadCell key={column.id} column={column} sort={sort} />
                ))}
            </tr>
        </thead>
    );
}
