// The keyboard: single keys and pairs ("g e") of the actions on the screen. Keys that are typed into
// something are left alone.

import { act, type Action, actions } from "../lib/actions";

const PAIR_MS = 1200;

function isTyping(target: EventTarget | null): boolean {
    return (
        target instanceof HTMLElement &&
        (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) &&
        !(target instanceof HTMLInputElement && /^(checkbox|radio|button)$/.test(target.type))
    );
}

let first = "";
let firstAt = 0;

/** The action of a key, or of the pair that it ends. */
export function actionOf(key: string, before: string, all: readonly Action[]): Action | undefined {
    const pair = before && all.find((action) => action.key === `${before} ${key}`);
    return pair || all.find((action) => action.key === key);
}

/** The first table of the page takes the focus, and the key with it. */
function intoTable(key: string): void {
    const table = document.querySelector<HTMLElement>(".table-grid");
    table?.focus();
    table?.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
}

export function watchKeys(openPalette: () => void): void {
    addEventListener("keydown", (event) => {
        if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
            event.preventDefault();
            openPalette();
            return;
        }
        const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
        if (!isPlain || event.defaultPrevented || isTyping(event.target)) return;
        if (document.querySelector("dialog[open]")) return;
        const before = performance.now() - firstAt < PAIR_MS ? first : "";
        const action = actionOf(event.key, before, actions.peek());
        first = action ? "" : event.key;
        firstAt = performance.now();
        if (!action && /^[jk]$/.test(event.key)) intoTable(event.key);
        if (!action) return;
        event.preventDefault();
        void act(action);
    });
}
