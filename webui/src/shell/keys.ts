// Runs the actions on the screen by keyboard: by a single key, or by a pair such as "g e". Keys typed into an
// input are ignored.

import { runAction, type Action, actions } from "../lib/actions";

const PAIR_MS = 1200;

function isTyping(target: EventTarget | null): boolean {
    return (
        target instanceof HTMLElement &&
        (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) &&
        !(target instanceof HTMLInputElement && /^(checkbox|radio|button)$/.test(target.type))
    );
}

let pendingKey = "";
let pendingSince = 0;

/** The action for a key, or for the pair of `before` and the key. */
export function actionForKey(key: string, before: string, all: readonly Action[]): Action | undefined {
    const pair = before && all.find((action) => action.key === `${before} ${key}`);
    return pair || all.find((action) => action.key === key);
}

/** Moves the focus to the first table of the page, and passes it the key. */
function focusTable(key: string): void {
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
        const before = performance.now() - pendingSince < PAIR_MS ? pendingKey : "";
        const action = actionForKey(event.key, before, actions.peek());
        pendingKey = action ? "" : event.key;
        pendingSince = performance.now();
        if (!action && /^[jk]$/.test(event.key)) focusTable(event.key);
        if (!action) return;
        event.preventDefault();
        void runAction(action);
    });
}
