// A table of any length. Only the visible rows are in the document; a row that is not loaded yet keeps its place.
// The head and the first column stay visible.
//
// While the table has the focus, the keyboard moves a cursor: j and k or the arrows move it, x selects the row, and
// Enter opens it. Shift with a click or with x selects a range.

import type { Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import type { Rows } from "../../lib/rows";
import type { Binding } from "../form/field";
import { ErrorBox } from "../page/page";
import { TableHead } from "./head";
import { Row } from "./row";
import { ROW, useCursor, useListOrder, useVisibleRows } from "./use_rows";
import "./table.css";

export interface Column<T> {
    id: string;
    title: string;
    cell: (row: T) => ComponentChildren;
    /** In pixels; 120 by default. */
    width?: number;
    /** Aligns the column at its end, for numbers. */
    alignEnd?: boolean;
    /** The name of the column in `sort`: the master's name for paged rows, any name for a list with `value`. */
    sort?: string;
    /** The value that a list is sorted by and that a CSV file contains. */
    value?: (row: T) => string | number | null | undefined;
    help?: string;
    /** Content of the head beside the title. */
    head?: () => ComponentChildren;
}

export interface TableProps<T> {
    label: string;
    columns: readonly Column<T>[];
    rows: Rows<T>;
    /** The order, for example "-started,id". */
    sort?: Binding<string>;
    /** The keys of the selected rows. With it, every row has a checkbox. */
    selected?: Signal<ReadonlySet<string>>;
    /** The name of a row, for the label of its checkbox. */
    name?: (row: T) => string;
    href?: (row: T) => string;
    /** Shown when there are no rows. */
    empty?: ComponentChildren;
    /** The maximum height in pixels. Without it, the table fills its container. */
    height?: number;
    rowClass?: (row: T) => string | undefined;
    /** The caller shows the errors of the rows. */
    hidesError?: boolean;
}

interface BodyProps<T> {
    id: string;
    table: TableProps<T>;
    from: number;
    end: number;
    cursor: number;
}

function Gap({ rows }: { rows: number }) {
    return (
        <tr class="table-gap" aria-hidden="true">
            <td style={{ height: `${rows * ROW}px` }} />
        </tr>
    );
}

function TableBody<T>({ id, table, from, end, cursor }: BodyProps<T>) {
    const { rows, selected } = table;
    void rows.version.value; // renders the rows again when one changes
    const shown: ComponentChildren[] = [];
    for (let i = from; i < end; i++) {
        const row = rows.at(i);
        const key = row === undefined ? "" : rows.key(row);
        const isSelected = selected?.value.has(key) ?? false;
        const ownClass = (row !== undefined && table.rowClass?.(row)) || "";
        shown.push(
            <Row
                key={i}
                id={`${id}r${i}`}
                index={i}
                row={row}
                columns={table.columns}
                isSelected={isSelected}
                hasCheckbox={selected !== undefined}
                name={row === undefined ? "" : (table.name?.(row) ?? key)}
                class={`${i === cursor ? "table-cursor " : ""}${isSelected ? "table-selected " : ""}${ownClass}`}
            />,
        );
    }
    return (
        <tbody>
            <Gap rows={from} />
            {shown}
            <Gap rows={rows.count.value - end} />
        </tbody>
    );
}

let tables = 0;

export function Table<T>(props: TableProps<T>) {
    const { rows, columns, selected, sort } = props;
    const id = useRef(`table${++tables}`).current;
    const count = rows.count.value;
    const { box, span, update } = useVisibleRows(rows);
    const { cursor, onKey, onClick } = useCursor(props, box);
    useListOrder(rows, columns, sort);
    const end = Math.min(span.value.to, count);
    const from = Math.min(span.value.from, end);
    const isCursorShown = cursor.value >= from && cursor.value < end;
    const width = columns.reduce((sum, column) => sum + (column.width ?? 120), selected ? 36 : 0);
    return (
        <>
            {rows.error.value !== undefined && !props.hidesError && (
                <ErrorBox error={rows.error.value} retry={rows.reload.bind(rows)} />
            )}
            <div
                ref={box}
                class={`table${props.height ? "" : " table-fill"}`}
                style={props.height ? { maxHeight: `${props.height}px` } : undefined}
                onScroll={update}
            >
                <table
                    class={`table-grid${selected ? " table-boxes" : ""}`}
                    style={{ width: `max(100%, ${width}px)` }}
                    role="grid"
                    tabIndex={0}
                    aria-label={props.label}
                    aria-rowcount={count + 1}
                    aria-multiselectable={selected ? true : undefined}
                    aria-activedescendant={isCursorShown ? `${id}r${cursor.value}` : undefined}
                    aria-busy={rows.busy.value}
                    onKeyDown={onKey}
                    onClick={onClick}
                >
                    <colgroup>
                        {selected && <col style={{ width: "36px" }} />}
                        {columns.map((column) => (
                            <col key={column.id} style={{ width: `${column.width ?? 120}px` }} />
                        ))}
                    </colgroup>
                    <TableHead columns={columns} rows={rows} sort={sort} selected={selected} />
                    <TableBody id={id} table={props} from={from} end={end} cursor={cursor.value} />
                </table>
                {count === 0 && !rows.busy.value && rows.error.value === undefined && props.empty}
            </div>
        </>
    );
}
