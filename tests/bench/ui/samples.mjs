// Helpers of this benchmark: reporting samples, and a script that records when the page shows an element.

/** Prints one sample. tests/bench/ui/run collects the samples of each name. */
export const report = (name, value) => console.log(JSON.stringify([name, value]));

/** Records in window.seenAt when the page first shows the element: two frames after it is in the document. */
export function recordWhenVisible(selector) {
    const look = () => {
        if (!document.querySelector(selector)) return;
        watcher.disconnect();
        requestAnimationFrame(() => requestAnimationFrame(() => (window.seenAt = performance.now())));
    };
    const watcher = new MutationObserver(look);
    watcher.observe(document, { childList: true, subtree: true });
}
