// Menus that filter by state, owner, label and project.

import { useSignal } from "@preact/signals";
import { number } from "../../lib/format";
import type { Param } from "../../lib/url";
import { Button } from "../../parts/basic/button";
import { Popover } from "../../parts/overlay/menu";
import { stateText } from "../../parts/basic/state_badge";

export interface Facet {
    value: string;
    title: string;
    count?: number;
    group?: string;
}

const MAX_SHOWN = 100;

function FacetChoices({ bind, facets }: { bind: Param<readonly string[]>; facets: readonly Facet[] }) {
    const typed = useSignal("");
    const word = typed.value.toLowerCase();
    const matches = facets.filter((one) => `${one.title} ${one.group ?? ""}`.toLowerCase().includes(word));
    const toggle = (value: string) => {
        const now = bind.value;
        bind.value = now.includes(value) ? now.filter((one) => one !== value) : [...now, value];
    };
    return (
        <div class="column-chooser">
            {facets.length > 8 && (
                <input
                    class="input"
                    type="search"
                    aria-label="Find"
                    placeholder="Find"
                    value={typed.value}
                    onInput={(event) => (typed.value = event.currentTarget.value)}
                />
            )}
            <ul class="column-list">
                {matches.slice(0, MAX_SHOWN).map((one) => (
                    <li key={one.value}>
                        <label class="column-name">
                            <input
                                type="checkbox"
                                checked={bind.value.includes(one.value)}
                                onChange={() => toggle(one.value)}
                            />
                            <span class="grow">
                                {one.title} {one.group && <span class="muted">{one.group}</span>}
                            </span>
                            {one.count !== undefined && (
                                <span class="muted num">{number(one.count)}</span>
                            )}
                        </label>
                    </li>
                ))}
            </ul>
            {matches.length === 0 && <p class="muted">No matches.</p>}
            {bind.value.length > 0 && (
                <Button kind="quiet" onClick={() => (bind.value = [])}>
                    Clear
                </Button>
            )}
        </div>
    );
}

export function FacetMenu(props: {
    name: string;
    bind: Param<readonly string[]>;
    facets: readonly Facet[];
}) {
    const { name, bind, facets } = props;
    const titles = bind.value.map((value) => facets.find((one) => one.value === value)?.title ?? value);
    const text = titles.length === 0 ? name : titles.length > 2 ? `${name}: ${titles.length}` : titles.join(", ");
    return (
        <span class={bind.value.length ? "facet facet-on" : "facet"}>
            <Popover label={`Filter by ${name.toLowerCase()}`} text={text}>
                {() => <FacetChoices bind={bind} facets={facets} />}
            </Popover>
        </span>
    );
}

export interface Counts {
    name: string;
    id?: number;
    workspaceName?: string;
    count: number;
}

/** The store has one state for active experiments. The list also distinguishes running and queued ones. */
export function stateFacets(counts: readonly Counts[]): Facet[] {
    const finer = ["RUNNING", "QUEUED"].map((value) => ({ value, title: stateText(value) }));
    const stored = counts.map(({ name, count }) => ({ value: name, title: stateText(name), count }));
    return [...finer, ...stored];
}
