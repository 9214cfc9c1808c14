// The state of a table: the rendered rows, the row with the cursor, the selection and the order.

import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { compareValues, type Rows, sortDirection } from "../../lib/rows";
import { navigate } from "../../lib/url";
import type { Binding } from "../form/field";
import type { Column, TableProps } from "./table";

export const ROW = 32; // pixels; --row of style/tokens.css
const OVERSCAN = 12; // rows rendered above and below the visible ones
const STEP = 6; // rows to scroll until other rows are rendered

export interface Span {
    from: number;
    to: number;
}

function spanOf(box: HTMLElement, count: number): Span {
    const first = Math.floor(box.scrollTop / ROW / STEP) * STEP;
    const seen = Math.ceil(box.clientHeight / ROW) + STEP;
    return { from: Math.max(0, first - OVERSCAN), to: Math.min(count, first + seen + OVERSCAN) };
}

/** Tracks which rows are visible, and has the rows load them. `update` runs on each scroll. */
export function useVisibleRows<T>(rows: Rows<T>) {
    const box = useRef<HTMLDivElement>(null);
    const span = useSignal<Span>({ from: 0, to: 40 });
    const update = () => {
        if (!box.current) return;
        const next = spanOf(box.current, rows.count.peek());
        const { from, to } = span.peek();
        if (next.from !== from || next.to !== to) span.value = next;
    };
    useLayoutEffect(update, [rows.count.value]);
    useEffect(() => {
        const watcher = new ResizeObserver(update);
        watcher.observe(box.current!);
        return () => watcher.disconnect();
    }, []);
    useEffect(() => rows.setVisible(span.value.from, span.value.to), [span.value, rows]);
    return { box, span, update };
}

/** The row with the cursor, and the keys and clicks that move it, select rows and open one. */
export function useCursor<T>(props: TableProps<T>, box: { current: HTMLDivElement | null }) {
    const { rows, selected } = props;
    const cursor = useSignal(-1);
    const anchor = useRef(-1); // the row at which a range begins
    const toggle = (index: number, isRange: boolean) => {
        if (!selected) return;
        selected.value = toggleSelection(rows, selected.peek(), index, isRange ? anchor.current : -1);
        anchor.current = index;
    };
    const moveTo = (index: number) => {
        cursor.value = Math.max(0, Math.min(rows.count.peek() - 1, index));
        reveal(box.current!, cursor.peek());
    };
    const openAt = (index: number) => {
        const row = rows.at(index);
        if (row !== undefined && props.href) navigate(props.href(row));
    };
    const onKey = (event: KeyboardEvent) => {
        if (event.ctrlKey || event.metaKey || event.altKey || isControl(event.target)) return;
        const page = Math.floor(box.current!.clientHeight / ROW) - 2;
        const step = stepOf(event.key, page, rows.count.peek());
        const at = cursor.peek();
        if (step !== undefined) moveTo(at < 0 && step > 0 ? step - 1 : at + step);
        else if (/^x$/i.test(event.key)) toggle(at, event.shiftKey);
        else if (event.key === "Enter") openAt(at);
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
        if (!isBox && !(event.shiftKey && selected)) return;
        toggle(index, event.shiftKey);
        const row = rows.at(index);
        // The browser has toggled the checkbox, but a range may leave the row as it was.
        if (target instanceof HTMLInputElement && row !== undefined)
            target.checked = selected?.peek().has(rows.key(row)) ?? false;
    };
    return { cursor, onKey, onClick };
}

/** The number of rows that a key moves the cursor by; undefined: the key does not move it. */
function stepOf(key: string, page: number, count: number): number | undefined {
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
    return steps[key];
}

/** Returns whether a key is for a control inside a row, which has the focus. */
function isControl(target: EventTarget | null): boolean {
    return target instanceof Element && target.matches("input:not([type=checkbox]), select, a, button");
}

/** Scrolls until the row is visible below the head. */
function reveal(box: HTMLElement, index: number): void {
    const top = index * ROW;
    const height = box.clientHeight - ROW - 16; // without the head and the horizontal scroll bar
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + ROW > box.scrollTop + height) box.scrollTop = top + ROW - height;
}

/** The selected keys after a click: one row toggled, or all rows from `anchor` to `index` added. */
function toggleSelection<T>(
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

/** Sorts a list that is loaded as a whole. The master sorts paged rows. */
export function useListOrder<T>(
    rows: Rows<T>,
    columns: readonly Column<T>[],
    sort: Binding<string> | undefined,
): void {
    const text = sort?.value ?? "";
    useEffect(() => {
        if (!rows.setOrder) return;
        const keys = columns.flatMap((column) => {
            const direction = column.sort && column.value ? sortDirection(text, column.sort) : 0;
            return direction ? [{ way: direction, value: column.value! }] : [];
        });
        const compare = (a: T, b: T) => {
            for (const { way, value } of keys) {
                const found = compareValues(value(a), value(b), way);
                if (found) return found;
            }
            return 0;
        };
        rows.setOrder(keys.length ? compare : undefined);
    }, [rows, columns, text]);
}
