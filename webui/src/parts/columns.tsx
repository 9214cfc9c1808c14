// Which columns a table shows, and in which order.

import { useSignal } from "@preact/signals";
import { Button } from "./button";
import type { At } from "./field";
import { Popover } from "./menu";
import "./columns.css";

export interface ColumnChoice {
    id: string;
    title: string;
    group?: string;
}

const SHOWN = 200;

export function ColumnChooser(props: {
    all: readonly ColumnChoice[];
    at: At<readonly string[]>;
    /** What stands there when nothing was chosen. */
    fallback: readonly string[];
}) {
    const { all, at, fallback } = props;
    const typed = useSignal("");
    const chosen = at.value;
    const toggle = (id: string) => {
        at.value = chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen, id];
    };
    const move = (id: string, step: number) => {
        const next = chosen.filter((one) => one !== id);
        next.splice(Math.max(0, chosen.indexOf(id) + step), 0, id);
        at.value = next;
    };
    const word = typed.value.toLowerCase();
    const fit = all.filter(
        (one) => `${one.title} ${one.id}`.toLowerCase().includes(word) && !chosen.includes(one.id),
    );
    const titleOf = (id: string) => all.find((one) => one.id === id)?.title ?? id;
    return (
        <Popover label="Choose columns" icon="columns" text="Columns">
            {() => (
                <div class="columns">
                    <input
                        class="input"
                        type="search"
                        placeholder="Find a column"
                        aria-label="Find a column"
                        value={typed.value}
                        onInput={(event) => (typed.value = event.currentTarget.value)}
                    />
                    <ul class="columns-list">
                        {chosen.map((id) => (
                            <li key={id} class="columns-line">
                                <label class="columns-name">
                                    <input type="checkbox" checked onChange={() => toggle(id)} />
                                    {titleOf(id)}
                                </label>
                                <Button
                                    kind="quiet"
                                    icon="ascending"
                                    label={`${titleOf(id)}: further to the front`}
                                    onClick={() => move(id, -1)}
                                />
                                <Button
                                    kind="quiet"
                                    icon="descending"
                                    label={`${titleOf(id)}: further back`}
                                    onClick={() => move(id, 1)}
                                />
                            </li>
                        ))}
                    </ul>
                    <ul class="columns-list columns-rest">
                        {fit.slice(0, SHOWN).map((one) => (
                            <li key={one.id}>
                                <label class="columns-name">
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
                    <Button kind="quiet" onClick={() => (at.value = fallback)}>
                        As it was at first
                    </Button>
                </div>
            )}
        </Popover>
    );
}
