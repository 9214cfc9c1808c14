// The command palette. It finds pages, the actions of the current page, and experiments by number or name.

import { signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { runAction, type Action, actions } from "../lib/actions";
import { get, sleep } from "../lib/api";
import { quoteValue } from "../lib/filter";
import type { Experiment } from "../lib/types";
import { navigate } from "../lib/url";
import { Icon, isIcon } from "../parts/basic/icon";
import { StateBadge } from "../parts/basic/state_badge";
import "./palette.css";

const isOpen = signal(false);
let dialogElement: HTMLDialogElement | null = null;

/** Opens the dialog synchronously, so that the next key already goes into its input. */
export function openPalette(): void {
    if (!dialogElement || dialogElement.open) return;
    isOpen.value = true;
    dialogElement.showModal();
}

interface PaletteEntry {
    id: string;
    name: string;
    action?: Action;
    experiment?: Experiment;
    run: () => unknown;
}

const TYPING_PAUSE_S = 0.15;
const MAX_EXPERIMENTS = 8;

/** Returns how far apart the letters of `typed` are in the name; undefined: the name lacks them in this order. */
export function matchDistance(name: string, typed: string): number | undefined {
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

function actionEntries(typed: string): PaletteEntry[] {
    const near = actions.value.flatMap((action) => {
        const far = action.disabledReason ? undefined : matchDistance(action.name, typed);
        return far === undefined ? [] : [{ action, far }];
    });
    if (typed) near.sort((a, b) => a.far - b.far);
    return near.map(({ action }) => ({
        id: `action ${action.name}`,
        name: action.name,
        action,
        run: () => runAction(action),
    }));
}

async function findExperiments(typed: string, abort: AbortSignal): Promise<PaletteEntry[]> {
    const filter = /^\d+$/.test(typed) ? `id = ${typed}` : `name ~ ${quoteValue(typed)}`;
    const query = { filter, limit: MAX_EXPERIMENTS, omit: "config,originalConfig,description,notes" };
    const found = await get<{ experiments: Experiment[] }>("/experiments", query, abort);
    return found.experiments.map((experiment) => ({
        id: `experiment ${experiment.id}`,
        name: experiment.name,
        experiment,
        run: () => navigate(`/experiments/${experiment.id}`),
    }));
}

function EntryLine({ entry, isCurrent, onRun }: { entry: PaletteEntry; isCurrent: boolean; onRun: () => void }) {
    const line = useRef<HTMLLIElement>(null);
    useEffect(() => void (isCurrent && line.current?.scrollIntoView({ block: "nearest" })), [isCurrent]);
    const { action, experiment } = entry;
    return (
        <li
            ref={line}
            id={entry.id.replaceAll(" ", "-")}
            class="palette-line"
            role="option"
            aria-selected={isCurrent}
            onClick={onRun}
        >
            <Icon name={isIcon(action?.icon) ? action.icon : "right"} />
            <span class="grow ellipsis">
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
    const found = useSignal<PaletteEntry[]>([]);
    useEffect(() => {
        at.value = 0;
        if (!typed.value.trim()) {
            found.value = [];
            return;
        }
        const abort = new AbortController();
        sleep(TYPING_PAUSE_S, abort.signal)
            .then(() => findExperiments(typed.value.trim(), abort.signal))
            .then(
                (entries) => (found.value = entries),
                () => undefined, // the user typed on, or the master does not answer: the actions stay
            );
        return () => abort.abort();
    }, [typed.value]);
    const entries = isOpen.value ? [...actionEntries(typed.value), ...found.value] : [];
    const close = () => dialogElement!.close();
    const onClose = () => {
        isOpen.value = false;
        typed.value = "";
    };
    const run = (entry: PaletteEntry | undefined) => {
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
            ref={(dialog) => void (dialogElement = dialog)}
            class="dialog palette"
            aria-label="Command palette"
            onClose={onClose}
            onMouseDown={(event) => event.target === dialogElement && close()}
        >
            <input
                class="palette-input"
                role="combobox"
                aria-expanded="true"
                aria-controls="palette-list"
                aria-activedescendant={current?.id.replaceAll(" ", "-")}
                aria-label="Command palette"
                placeholder="Page, action, or experiment by name or number"
                value={typed.value}
                onInput={(event) => (typed.value = event.currentTarget.value)}
                onKeyDown={onKey}
            />
            <ul id="palette-list" class="palette-list" role="listbox" aria-label="Results">
                {entries.map((entry, i) => (
                    <EntryLine
                        key={entry.id}
                        entry={entry}
                        isCurrent={i === at.value}
                        onRun={() => run(entry)}
                    />
                ))}
            </ul>
            {entries.length === 0 && <p class="palette-empty muted">No results.</p>}
        </dialog>
    );
}
