import { useLayoutEffect, useRef } from "preact/hooks";

const MARGIN = 24; // pixels of the neighbour that stay visible

/** For a row that scrolls sideways: scrolls to the element of `selector` whenever `value` changes. */
export function useScrollIntoView<E extends HTMLElement>(selector: string, value: unknown) {
    const row = useRef<E>(null);
    useLayoutEffect(() => {
        const seen = row.current?.getBoundingClientRect();
        const place = row.current?.querySelector(selector)?.getBoundingClientRect();
        if (!row.current || !seen || !place) return;
        if (place.left < seen.left) row.current.scrollLeft -= seen.left - place.left + MARGIN;
        else if (place.right > seen.right) row.current.scrollLeft += place.right - seen.right + MARGIN;
    }, [value]);
    return row;
}
