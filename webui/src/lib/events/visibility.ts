// Work that runs only while the page is visible and not hidden behind another tab.

/** Runs `work` while the page is visible. It is aborted when the page is hidden, and started again afterwards. */
export function whileVisible(work: (abort: AbortSignal) => void): () => void {
    let running: AbortController | undefined;
    const update = () => {
        if (document.hidden) {
            running?.abort();
            running = undefined;
        } else if (!running) {
            running = new AbortController();
            work(running.signal);
        }
    };
    document.addEventListener("visibilitychange", update);
    update();
    return () => {
        document.removeEventListener("visibilitychange", update);
        running?.abort();
    };
}
