import { useLayoutEffect, useRef } from "preact/hooks";

const MARGIN = 24; // pixels of its neighbour that stay visible

/** For a row that scrolls sideways: whenever `at` changes, what `chosen` selects in it comes into sight. */
export function useInSight<E extends HTMLElement>(chosen: string, at: unknown) {
    const row = useRef<E>(null);
    useLayoutEffect(() => {
        const seen = row.current?.getBoundingClientRect();
        const place = row.current?.querySelector(chosen)?.getBoundingClientRect();
        if (!row.current || !seen || !place) return;
        if (place.left < seen.left) row.current.scrollLeft -= seen.left - place.left + MARGIN;
        else if (place.right > seen.right) row.current.scrollLeft += place.right - seen.right + MARGIN;
    }, [at]);
    return row;
}
