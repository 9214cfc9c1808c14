// A table of any length: only the rows on the screen are in the document, and a row that is not
// here yet has its place. Head and first column stay in sight.
//
// The keyboard works on a cursor, which the table shows as long as it has the focus: j and k or the
// arrows move it, x chooses, Enter opens. Shift and a click, or Shift and x, choose a range.

import { type Signal, useSignal } from "@preact/signals";
import { Component, type ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { number } from "../lib/format";
import { compareValues, nextSort, type Rows, sortOf } from "../lib/rows";
import { go } from "../lib/url";
import type { At } from "./field";
import { Icon } from "./icon";
import { ErrorBox } from "./page";
import "./table.css";

export interface Column<T> {
    id: string;
    title: string;
    cell: (row: T) => ComponentChildren;
    /** In pixels; 120 without. */
    width?: number;
    /** Numbers stand at the end. */
    end?: boolean;
    /** What the server calls it in an order; of a list: anything, if `value` is given. */
    sort?: string;
    /** What a list is sorted by, and what stands in a CSV. */
    value?: (row: T) => string | number | null | undefined;
    help?: string;
    /** More in the head, beside the title. */
    head?: () => ComponentChildren;
}

export interface TableProps<T> {
    /** What the table is called. */
    label: string;
    columns: readonly Column<T>[];
    rows: Rows<T>;
    /** "-started,id". */
    sort?: At<string>;
    /** Keys of the chosen rows; with it every row has a box. */
    selected?: Signal<ReadonlySet<string>>;
    /** What a row is called, for its box. */
    name?: (row: T) => string;
    href?: (row: T) => string;
    /** Shown when there are no rows. */
    empty?: ComponentChildren;
    /** As high as its rows, at most so many pixels; else it fills what is around it. */
    height?: number;
    rowClass?: (row: T) => string | undefined;
    /** Who shows the table shows its errors, too. */
    hidesError?: boolean;
}

const ROW = 32;
const AROUND = 12; // rows above and below those that are seen
const STEP = 6; // rows that one scrolls until the document changes

interface Span {
    from: number;
    to: number;
}

function spanOf(box: HTMLElement, count: number): Span {
    const first = Math.floor(box.scrollTop / ROW / STEP) * STEP;
    const seen = Math.ceil(box.clientHeight / ROW) + STEP;
    return { from: Math.max(0, first - AROUND), to: Math.min(count, first + seen + AROUND) };
}

// --- a row ---------------------------------------------------------------------------------------

interface RowProps<T> {
    id: string;
    index: number;
    row: T | undefined;
    columns: readonly Column<T>[];
    isChosen: boolean;
    hasBox: boolean;
    name: string;
    class: string;
}

/** Drawn again only when something of it has changed, so that scrolling costs the new rows alone. */
class Row<T> extends Component<RowProps<T>> {
    override shouldComponentUpdate(next: RowProps<T>): boolean {
        const keys = Object.keys(next) as (keyof RowProps<T>)[];
        return keys.some((key) => next[key] !== this.props[key]);
    }

    override render(props: RowProps<T>) {
        const { row, columns, hasBox, isChosen } = props;
        return (
            <tr
                id={props.id}
                class={props.class}
                aria-rowindex={props.index + 2}
                aria-selected={hasBox ? isChosen : undefined}
                data-index={props.index}
            >
                {hasBox && (
                    <td class="table-box">
                        <input
                            type="checkbox"
                            tabIndex={-1}
                            checked={isChosen}
                            disabled={row === undefined}
                            aria-label={`Choose ${props.name}`}
                        />
                    </td>
                )}
                {columns.map((column) => (
                    <td key={column.id} class={column.end ? "table-end" : undefined}>
                        {row === undefined ? <span class="table-wait" /> : column.cell(row)}
                    </td>
                ))}
            </tr>
        );
    }
}

// --- the head ------------------------------------------------------------------------------------

function HeadCell<T>({ column, sort }: { column: Column<T>; sort: At<string> | undefined }) {
    const way = sort && column.sort ? sortOf(sort.value, column.sort) : 0;
    const isSortable = Boolean(sort && column.sort);
    return (
        <th
            scope="col"
            class={column.end ? "table-end" : undefined}
            aria-sort={way ? (way > 0 ? "ascending" : "descending") : undefined}
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
                        <span class="cut">{column.title}</span>
                        {way !== 0 && <Icon name={way > 0 ? "ascending" : "descending"} />}
                    </button>
                ) : (
                    <span class="cut">{column.title}</span>
                )}
                {column.head?.()}
            </span>
        </th>
    );
}

// --- the table -----------------------------------------------------------------------------------

let tables = 0;

export function Table<T>(props: TableProps<T>) {
    const { rows, columns, selected, sort } = props;
    const box = useRef<HTMLDivElement>(null);
    const id = useRef(`table${++tables}`).current;
    const span = useSignal<Span>({ from: 0, to: 40 });
    const cursor = useSignal(-1);
    const anchor = useRef(-1); // where a range begins
    const count = rows.count.value;
    void rows.version.value;

    const look = () => {
        if (!box.current) return;
        const next = spanOf(box.current, rows.count.peek());
        const { from, to } = span.peek();
        if (next.from !== from || next.to !== to) span.value = next;
    };

    useLayoutEffect(look, [count]);
    useEffect(() => {
        const watcher = new ResizeObserver(look);
        watcher.observe(box.current!);
        return () => watcher.disconnect();
    }, []);
    useEffect(() => rows.want(span.value.from, span.value.to), [span.value, rows]);
    useArrange(rows, columns, sort);

    const chosen = selected?.value;
    const toggle = (index: number, isRange: boolean) => {
        if (!selected) return;
        selected.value = choose(rows, selected.peek(), index, isRange ? anchor.current : -1);
        anchor.current = index;
    };
    const moveTo = (index: number) => {
        const at = Math.max(0, Math.min(rows.count.peek() - 1, index));
        cursor.value = at;
        reveal(box.current!, at);
    };
    const openAt = (index: number) => {
        const row = rows.at(index);
        if (row !== undefined && props.href) go(props.href(row));
    };
    const onKey = (event: KeyboardEvent) => {
        if (event.ctrlKey || event.metaKey || event.altKey || isControl(event.target)) return;
        const page = Math.floor(box.current!.clientHeight / ROW) - 2;
        const steps: Record<string, number> = {
            j: 1,
            k: -1,
            ArrowDown: 1,
            ArrowUp: -1,
            PageDown: page,
            PageUp: -page,
            Home: -count,
            End: count,
        };
        const step = steps[event.key];
        if (step !== undefined) moveTo(cursor.peek() < 0 && step > 0 ? step - 1 : cursor.peek() + step);
        else if (/^x$/i.test(event.key)) toggle(cursor.peek(), event.shiftKey);
        else if (event.key === "Enter") openAt(cursor.peek());
        else return;
        event.preventDefault();
    };
    const onClick = (event: MouseEvent) => {
        const target = event.target as Element;
        const line = target.closest<HTMLElement>("tr[data-index]");
        if (!line) return;
        const index = Number(line.dataset["index"]);
        cursor.value = index;
        const isBox = target.closest(".table-box") !== null;
        if (isBox || (event.shiftKey && selected)) {
            toggle(index, event.shiftKey);
            const row = rows.at(index);
            if (target instanceof HTMLInputElement && row !== undefined)
                target.checked = selected?.peek().has(rows.key(row)) ?? false; // a range may leave it as it was
        }
    };

    const { from, to } = span.value;
    const last = Math.min(to, count);
    const shown: ComponentChildren[] = [];
    for (let i = Math.min(from, last); i < last; i++) {
        const row = rows.at(i);
        const key = row === undefined ? "" : rows.key(row);
        const isAt = i === cursor.value;
        const isChosen = chosen?.has(key) ?? false;
        const own = (row !== undefined && props.rowClass?.(row)) || "";
        shown.push(
            <Row
                key={i}
                id={`${id}r${i}`}
                index={i}
                row={row}
                columns={columns}
                isChosen={isChosen}
                hasBox={selected !== undefined}
                name={row === undefined ? "" : (props.name?.(row) ?? key)}
                class={`${isAt ? "table-at " : ""}${isChosen ? "table-chosen " : ""}${own}`}
            />,
        );
    }
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
                onScroll={look}
            >
                <table
                    class={`table-grid${selected ? " table-boxes" : ""}`}
                    style={{ width: `max(100%, ${width}px)` }}
                    role="grid"
                    tabIndex={0}
                    aria-label={props.label}
                    aria-rowcount={count + 1}
                    aria-multiselectable={selected ? true : undefined}
                    aria-activedescendant={
                        cursor.value >= from && cursor.value < last
                            ? `${id}r${cursor.value}`
                            : undefined
                    }
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
                    <thead>
                        <tr aria-rowindex={1}>
                            {selected && (
                                <th class="table-box">
                                    <AllBox rows={rows} selected={selected} />
                                </th>
                            )}
                            {columns.map((column) => (
                                <HeadCell key={column.id} column={column} sort={sort} />
                            ))}
                        </tr>
                    </thead>
                    <tbody>
                        <tr class="table-gap" aria-hidden="true">
                            <td style={{ height: `${Math.min(from, last) * ROW}px` }} />
                        </tr>
                        {shown}
                        <tr class="table-gap" aria-hidden="true">
                            <td style={{ height: `${(count - last) * ROW}px` }} />
                        </tr>
                    </tbody>
                </table>
                {count === 0 && !rows.busy.value && rows.error.value === undefined && props.empty}
            </div>
        </>
    );
}

/** Whether a key belongs to what has the focus within a row. */
function isControl(target: EventTarget | null): boolean {
    return target instanceof Element && target.matches("input:not([type=checkbox]), select, a, button");
}

/** Scrolls so far that the row is seen below the head. */
function reveal(box: HTMLElement, index: number): void {
    const top = index * ROW;
    const height = box.clientHeight - ROW - 16; // without the head, and a bar at the foot
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + ROW > box.scrollTop + height) box.scrollTop = top + ROW - height;
}

/** The keys with one row turned over, or with all between two rows. */
function choose<T>(
    rows: Rows<T>,
    before: ReadonlySet<string>,
    index: number,
    anchor: number,
): ReadonlySet<string> {
    const next = new Set(before);
    const keyAt = (i: number) => {
        const row = rows.at(i);
        return row === undefined ? undefined : rows.key(row);
    };
    const own = keyAt(index);
    if (anchor < 0) {
        if (own !== undefined && !next.delete(own)) next.add(own);
        return next;
    }
    for (let i = Math.min(anchor, index); i <= Math.max(anchor, index); i++) {
        const key = keyAt(i);
        if (key !== undefined) next.add(key);
    }
    return next;
}

/** Chooses all rows that are here, or none. */
function AllBox<T>(props: { rows: Rows<T>; selected: Signal<ReadonlySet<string>> }) {
    const { rows, selected } = props;
    const some = selected.value.size > 0;
    const onChange = () => {
        const next = new Set<string>();
        for (let i = 0; !some && i < rows.count.peek(); i++) {
            const row = rows.at(i);
            if (row !== undefined) next.add(rows.key(row));
        }
        selected.value = next;
    };
    return (
        <input
            type="checkbox"
            checked={some}
            indeterminate={some && selected.value.size < rows.count.value}
            aria-label={some ? `Choose none of ${number(selected.value.size)}` : "Choose all loaded"}
            onChange={onChange}
        />
    );
}

/** A list has no server that sorts it. */
function useArrange<T>(
    rows: Rows<T>,
    columns: readonly Column<T>[],
    sort: At<string> | undefined,
): void {
    const text = sort?.value ?? "";
    useEffect(() => {
        if (!rows.arrange) return;
        const keys = columns.flatMap((column) => {
            const way = column.sort && column.value ? sortOf(text, column.sort) : 0;
            return way ? [{ way, value: column.value! }] : [];
        });
        const compare = (a: T, b: T) => {
            for (const { way, value } of keys) {
                const found = compareValues(value(a), value(b), way);
                if (found) return found;
            }
            return 0;
        };
        rows.arrange(keys.length ? compare : undefined);
    }, [rows, columns, text]);
}
