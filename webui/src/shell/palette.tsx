// The command palette: pages, what can be done on this one, and experiments by number or name.

import { signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { act, type Action, actions } from "../lib/actions";
import { get, sleep } from "../lib/api";
import { quoteValue } from "../lib/filter";
import type { Experiment } from "../lib/types";
import { go } from "../lib/url";
import { Icon, isIcon } from "../parts/icon";
import { StateBadge } from "../parts/state";
import "./palette.css";

const isOpen = signal(false);
let element: HTMLDialogElement | null = null;

/** At once, so that what is typed next is in it already. */
export function openPalette(): void {
    if (!element || element.open) return;
    isOpen.value = true;
    element.showModal();
}

interface Entry {
    id: string;
    name: string;
    action?: Action;
    experiment?: Experiment;
    run: () => unknown;
}

const QUIET_S = 0.15;
const FOUND = 8;

/** Whether the letters of `typed` come in that order in the name; the closer, the smaller. */
export function distance(name: string, typed: string): number | undefined {
    const text = name.toLowerCase();
    let at = -1;
    let gaps = 0;
    for (const letter of typed.toLowerCase().replaceAll(" ", "")) {
        const next = text.indexOf(letter, at + 1);
        if (next < 0) return undefined;
        gaps += at < 0 ? next / 4 : next - at - 1;
        at = next;
    }
    return gaps;
}

function actionEntries(typed: string): Entry[] {
    const near = actions.value.flatMap((action) => {
        const far = action.refused ? undefined : distance(action.name, typed);
        return far === undefined ? [] : [{ action, far }];
    });
    if (typed) near.sort((a, b) => a.far - b.far);
    return near.map(({ action }) => ({
        id: `action ${action.name}`,
        name: action.name,
        action,
        run: () => act(action),
    }));
}

async function findExperiments(typed: string, abort: AbortSignal): Promise<Entry[]> {
    const filter = /^\d+$/.test(typed) ? `id = ${typed}` : `name ~ ${quoteValue(typed)}`;
    const query = { filter, limit: FOUND, omit: "config,originalConfig,description,notes" };
    const found = await get<{ experiments: Experiment[] }>("/experiments", query, abort);
    return found.experiments.map((experiment) => ({
        id: `experiment ${experiment.id}`,
        name: experiment.name,
        experiment,
        run: () => go(`/experiments/${experiment.id}`),
    }));
}

function Line({ entry, isAt, onRun }: { entry: Entry; isAt: boolean; onRun: () => void }) {
    const line = useRef<HTMLLIElement>(null);
    useEffect(() => void (isAt && line.current?.scrollIntoView({ block: "nearest" })), [isAt]);
    const { action, experiment } = entry;
    return (
        <li
            ref={line}
            id={entry.id.replaceAll(" ", "-")}
            class="palette-line"
            role="option"
            aria-selected={isAt}
            onClick={onRun}
        >
            <Icon name={isIcon(action?.icon) ? action.icon : "right"} />
            <span class="grow cut">
                {experiment && <span class="muted num">{experiment.id} </span>}
                {entry.name}
            </span>
            {experiment && <StateBadge state={experiment.state} />}
            {action?.key && <kbd>{action.key}</kbd>}
        </li>
    );
}

export function Palette() {
    const typed = useSignal("");
    const at = useSignal(0);
    const found = useSignal<Entry[]>([]);
    useEffect(() => {
        at.value = 0;
        if (!typed.value.trim()) {
            found.value = [];
            return;
        }
        const abort = new AbortController();
        sleep(QUIET_S, abort.signal)
            .then(() => findExperiments(typed.value.trim(), abort.signal))
            .then(
                (entries) => (found.value = entries),
                () => undefined, // the next letter, or no answer: actions are still there
            );
        return () => abort.abort();
    }, [typed.value]);
    const entries = isOpen.value ? [...actionEntries(typed.value), ...found.value] : [];
    const close = () => element!.close();
    const onClose = () => {
        isOpen.value = false;
        typed.value = "";
    };
    const run = (entry: Entry | undefined) => {
        if (!entry) return;
        close();
        void entry.run();
    };
    const onKey = (event: KeyboardEvent) => {
        const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
        if (step) at.value = (at.value + step + entries.length) % Math.max(1, entries.length);
        else if (event.key === "Enter") run(entries[at.value]);
        else return;
        event.preventDefault();
    };
    const current = entries[at.value];
    return (
        <dialog
            ref={(dialog) => void (element = dialog)}
            class="dialog palette"
            aria-label="Find or do anything"
            onClose={onClose}
            onMouseDown={(event) => event.target === element && close()}
        >
            <input
                class="palette-input"
                role="combobox"
                aria-expanded="true"
                aria-controls="palette-list"
                aria-activedescendant={current?.id.replaceAll(" ", "-")}
                aria-label="Find or do anything"
                placeholder="A page, an action, an experiment by name or number"
                value={typed.value}
                onInput={(event) => (typed.value = event.currentTarget.value)}
                onKeyDown={onKey}
            />
            <ul id="palette-list" class="palette-list" role="listbox" aria-label="Found">
                {entries.map((entry, i) => (
                    <Line
                        key={entry.id}
                        entry={entry}
                        isAt={i === at.value}
                        onRun={() => run(entry)}
                    />
                ))}
            </ul>
            {entries.length === 0 && <p class="palette-none muted">Nothing has that name.</p>}
        </dialog>
    );
}
