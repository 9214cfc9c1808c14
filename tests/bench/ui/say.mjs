// What the programs of this bench have in common: how they tell what they measured, and a script
// that notes in the page when something stands there.

/** One sample; tests/bench/ui/run gathers those of a name. */
export const tell = (name, value) => console.log(JSON.stringify([name, value]));

/** Notes as window.seenAt when the page first shows what the selector names: two frames after it is there. */
export function noteWhenSeen(selector) {
    const look = () => {
        if (!document.querySelector(selector)) return;
        watcher.disconnect();
        requestAnimationFrame(() => requestAnimationFrame(() => (window.seenAt = performance.now())));
    };
    const watcher = new MutationObserver(look);
    watcher.observe(document, { childList: true, subtree: true });
}
