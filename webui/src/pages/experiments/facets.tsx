// Narrowing by clicks: state, owner, label, project.

import { useSignal } from "@preact/signals";
import { number } from "../../lib/format";
import type { Param } from "../../lib/url";
import { Button } from "../../parts/button";
import { Popover } from "../../parts/menu";
import { stateText } from "../../parts/state";

export interface Facet {
    value: string;
    title: string;
    count?: number;
    group?: string;
}

const SHOWN = 100;

function Choices({ at, facets }: { at: Param<readonly string[]>; facets: readonly Facet[] }) {
    const typed = useSignal("");
    const word = typed.value.toLowerCase();
    const fit = facets.filter((one) => `${one.title} ${one.group ?? ""}`.toLowerCase().includes(word));
    const toggle = (value: string) => {
        const now = at.value;
        at.value = now.includes(value) ? now.filter((one) => one !== value) : [...now, value];
    };
    return (
        <div class="columns">
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
            <ul class="columns-list">
                {fit.slice(0, SHOWN).map((one) => (
                    <li key={one.value}>
                        <label class="columns-name">
                            <input
                                type="checkbox"
                                checked={at.value.includes(one.value)}
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
            {fit.length === 0 && <p class="muted">None has that name.</p>}
            {at.value.length > 0 && (
                <Button kind="quiet" onClick={() => (at.value = [])}>
                    All of them
                </Button>
            )}
        </div>
    );
}

export function FacetMenu(props: {
    name: string;
    at: Param<readonly string[]>;
    facets: readonly Facet[];
}) {
    const { name, at, facets } = props;
    const titles = at.value.map((value) => facets.find((one) => one.value === value)?.title ?? value);
    const text = titles.length === 0 ? name : titles.length > 2 ? `${name}: ${titles.length}` : titles.join(", ");
    return (
        <span class={at.value.length ? "facet facet-on" : "facet"}>
            <Popover label={`Narrow by ${name.toLowerCase()}`} text={text}>
                {() => <Choices at={at} facets={facets} />}
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

/** What runs, waits or starts is one state in the store; the list tells them apart. */
export function stateFacets(counts: readonly Counts[]): Facet[] {
    const finer = ["RUNNING", "QUEUED"].map((value) => ({ value, title: stateText(value) }));
    const stored = counts.map(({ name, count }) => ({ value: name, title: stateText(name), count }));
    return [...finer, ...stored];
}
