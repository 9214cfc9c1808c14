// What not everybody opens comes when somebody does.

import { signal } from "@preact/signals";
import { type ComponentType, h } from "preact";
import { useEffect } from "preact/hooks";
import { ErrorBox, Waiting } from "./page";

/** A component whose program is loaded when it is shown first. */
export function later<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
    const loaded = signal<{ part?: ComponentType<P>; error?: unknown }>({});
    const fetch = () =>
        load().then(
            (part) => (loaded.value = { part }),
            (error: unknown) => (loaded.value = { error }),
        );
    return function Later(props: P) {
        const { part, error } = loaded.value;
        useEffect(() => void (part ?? fetch()), []);
        if (part) return h(part, props);
        return error === undefined ? <Waiting /> : <ErrorBox error={error} retry={fetch} />;
    };
}
