// A menu to choose the columns of a table and their order.

import { useSignal } from "@preact/signals";
import { Button } from "../basic/button";
import type { Binding } from "../form/field";
import { Popover } from "../overlay/menu";
import "./column_chooser.css";

export interface ColumnChoice {
    id: string;
    title: string;
    group?: string;
}

const MAX_SHOWN = 200;

export function ColumnChooser(props: {
    all: readonly ColumnChoice[];
    bind: Binding<readonly string[]>;
    /** The default columns. */
    fallback: readonly string[];
}) {
    const { all, bind, fallback } = props;
    const typed = useSignal("");
    const chosen = bind.value;
    const toggle = (id: string) => {
        bind.value = chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen, id];
    };
    const move = (id: string, step: number) => {
        const next = chosen.filter((one) => one !== id);
        next.splice(Math.max(0, chosen.indexOf(id) + step), 0, id);
        bind.value = next;
    };
    const word = typed.value.toLowerCase();
    const matches = all.filter(
        (one) => `${one.title} ${one.id}`.toLowerCase().includes(word) && !chosen.includes(one.id),
    );
    const titleOf = (id: string) => all.find((one) => one.id === id)?.title ?? id;
    return (
        <Popover label="Choose columns" icon="columns" text="Columns">
            {() => (
                <div class="column-chooser">
                    <input
                        class="input"
                        type="search"
                        placeholder="Find a column"
                        aria-label="Find a column"
                        value={typed.value}
                        onInput={(event) => (typed.value = event.currentTarget.value)}
                    />
                    <ul class="column-list">
                        {chosen.map((id) => (
                            <li key={id} class="column-line">
                                <label class="column-name">
                                    <input type="checkbox" checked onChange={() => toggle(id)} />
                                    {titleOf(id)}
                                </label>
                                <Button
                                    kind="quiet"
                                    icon="ascending"
                                    label={`Move ${titleOf(id)} left`}
                                    onClick={() => move(id, -1)}
                                />
                                <Button
                                    kind="quiet"
                                    icon="descending"
                                    label={`Move ${titleOf(id)} right`}
                                    onClick={() => move(id, 1)}
                                />
                            </li>
                        ))}
                    </ul>
                    <ul class="column-list column-list-rest">
                        {matches.slice(0, MAX_SHOWN).map((one) => (
                            <li key={one.id}>
                                <label class="column-name">
                                    <input
                                        type="checkbox"
                                        checked={false}
                                        onChange={() => toggle(one.id)}
                                    />
                                    {one.title}
                                    {one.group && <span class="muted">{one.group}</span>}
                                </label>
                            </li>
                        ))}
                    </ul>
                    <Button kind="quiet" onClick={() => (bind.value = fallback)}>
                        Reset columns
                    </Button>
                </div>
            )}
        </Popover>
    );
}
