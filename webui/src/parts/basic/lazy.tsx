// Components that are loaded only when they are needed.

import { signal } from "@preact/signals";
import { type ComponentType, h } from "preact";
import { useEffect } from "preact/hooks";
import { ErrorBox, Loading } from "../page/page";

/** A component whose module is loaded when it is first rendered. */
export function lazy<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
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
        return error === undefined ? <Loading /> : <ErrorBox error={error} retry={fetch} />;
    };
}
