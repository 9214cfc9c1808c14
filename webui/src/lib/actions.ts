// Actions as data. The same object makes a button, an item of a menu, an entry of the palette, a keyboard
// shortcut, and two commands to copy.

import { computed, type ReadonlySignal, signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { type Call, performCall } from "./api";
import { confirm, toast, toastError } from "./toasts";

export interface Action {
    name: string;
    /** The keyboard shortcut: "r", "g r", "?". */
    key?: string;
    /** The call to the master, or the function to run. A call can be copied as a command. */
    call?: Call;
    run?: () => unknown;
    /** The toast after success; by default "Done" with the name. "": none. */
    doneText?: string;
    /** The reason why the user may not run the action. Its button is shown, but disabled. */
    disabledReason?: string | undefined;
    /** The user must confirm first. A sentence says what will be lost. */
    danger?: boolean | string;
    icon?: string;
}

type ActionSource = () => readonly Action[];

const sources = signal<readonly ActionSource[]>([]);
const renders = signal(0);

/** The actions of all components on the screen, the newest component first. */
export const actions: ReadonlySignal<readonly Action[]> = computed(() => {
    void renders.value;
    return sources.value.flatMap((get) => get());
});

/** Adds actions to the palette, the shortcuts and their help. The returned function removes them. */
export function registerActions(get: ActionSource): () => void {
    sources.value = [get, ...sources.peek()];
    return () => (sources.value = sources.peek().filter((layer) => layer !== get));
}

export function useActions(list: readonly Action[]): void {
    const latest = useRef(list);
    latest.current = list;
    // A layout effect runs before the page is painted: a visible action must react to its key.
    useLayoutEffect(() => registerActions(() => latest.current), []);
    useLayoutEffect(() => void (renders.value = renders.peek() + 1));
}

async function isConfirmed(action: Action): Promise<boolean> {
    if (!action.danger) return true;
    const text = typeof action.danger === "string" ? action.danger : "This cannot be undone.";
    return confirm({ title: `${action.name}?`, text, verb: action.name, danger: true });
}

/** Runs the action and shows a toast with the result. False: it did not run, or it failed. */
export async function runAction(action: Action): Promise<boolean> {
    if (action.disabledReason) {
        toast(action.disabledReason, "bad");
        return false;
    }
    if (!(await isConfirmed(action))) return false;
    try {
        if (action.call) await performCall(action.call);
        await action.run?.();
    } catch (error) {
        toastError(error);
        return false;
    }
    const text = action.doneText ?? (action.call ? `Done: ${action.name}` : "");
    if (text) toast(text, "good");
    return true;
}
