// What can be done where, as data: one object is a button, a line of a menu and of the palette, a
// key, and two commands to copy.

import { computed, type ReadonlySignal, signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { type Call, perform } from "./api";
import { confirm, toast, toastError } from "./notices";

export interface Action {
    name: string;
    /** What the keyboard does it with: "r", "g r", "?". */
    key?: string;
    /** One of these two; `call` can be copied as a command. */
    call?: Call;
    run?: () => unknown;
    /** Said when it worked; else the name is said. "": nothing. */
    done?: string;
    /** Why the caller may not; it is shown, but cannot be used. */
    refused?: string | undefined;
    /** It is asked for first. A sentence: what will be lost. */
    danger?: boolean | string;
    icon?: string;
}

type Get = () => readonly Action[];

const layers = signal<readonly Get[]>([]);
const redrawn = signal(0);

/** All actions of what is on the screen; what came last is first. */
export const actions: ReadonlySignal<readonly Action[]> = computed(() => {
    void redrawn.value;
    return layers.value.flatMap((get) => get());
});

/** Keeps actions in the palette, the list of keys and on the keyboard. The end takes them away. */
export function offer(get: Get): () => void {
    layers.value = [get, ...layers.peek()];
    return () => (layers.value = layers.peek().filter((layer) => layer !== get));
}

export function useActions(list: readonly Action[]): void {
    const newest = useRef(list);
    newest.current = list;
    // Before the page is painted: whoever sees an action may press its key.
    useLayoutEffect(() => offer(() => newest.current), []);
    useLayoutEffect(() => void (redrawn.value = redrawn.peek() + 1));
}

async function isMeant(action: Action): Promise<boolean> {
    if (!action.danger) return true;
    const said = typeof action.danger === "string" ? action.danger : "This cannot be taken back.";
    return confirm({ title: `${action.name}?`, text: said, verb: action.name, danger: true });
}

/** Does it, and says what became of it. False: it was not done. */
export async function act(action: Action): Promise<boolean> {
    if (action.refused) {
        toast(action.refused, "bad");
        return false;
    }
    if (!(await isMeant(action))) return false;
    try {
        if (action.call) await perform(action.call);
        await action.run?.();
    } catch (error) {
        toastError(error);
        return false;
    }
    const said = action.done ?? (action.call ? `Done: ${action.name}` : "");
    if (said) toast(said, "good");
    return true;
}
