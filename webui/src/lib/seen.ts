// Whether somebody sees this page, or another tab lies over it.

/** Runs `work` while the page is seen: it is aborted when the page is hidden, and begun again afterwards. */
export function whileSeen(work: (abort: AbortSignal) => void): () => void {
    let running: AbortController | undefined;
    const look = () => {
        if (document.hidden) {
            running?.abort();
            running = undefined;
        } else if (!running) {
            running = new AbortController();
            work(running.signal);
        }
    };
    document.addEventListener("visibilitychange", look);
    look();
    return () => {
        document.removeEventListener("visibilitychange", look);
        running?.abort();
    };
}
