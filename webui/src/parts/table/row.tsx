// A row of a table. A row that is not loaded yet shows placeholders.

import { Component } from "preact";
import type { Column } from "./table";

interface RowProps<T> {
    id: string;
    index: number;
    row: T | undefined;
    columns: readonly Column<T>[];
    isSelected: boolean;
    hasCheckbox: boolean;
    name: string;
    class: string;
}

/** A row is rendered again only when one of its props has changed, so scrolling renders only the new rows. */
export class Row<T> extends Component<RowProps<T>> {
    override shouldComponentUpdate(next: RowProps<T>): boolean {
        const keys = Object.keys(next) as (keyof RowProps<T>)[];
        return keys.some((key) => next[key] !== this.props[key]);
    }

    override render(props: RowProps<T>) {
        const { row, columns, hasCheckbox, isSelected } = props;
        return (
            <tr
                id={props.id}
                class={props.class}
                aria-rowindex={props.index + 2}
                aria-selected={hasCheckbox ? isSelected : undefined}
                data-index={props.index}
            >
                {hasCheckbox && (
                    <td class="table-box">
                        <input
                            type="checkbox"
                            tabIndex={-1}
                            checked={isSelected}
                            disabled={row === undefined}
                            aria-label={`Select ${props.name}`}
                        />
                    </td>
                )}
                {columns.map((column) => (
                    <td key={column.id} class={column.alignEnd ? "table-end" : undefined}>
                        {row === undefined ? <span class="table-placeholder" /> : column.cell(row)}
                    </td>
                ))}
            </tr>
        );
    }
}
