// node paint.mjs ROUNDS: from the start of a navigation to the first contentful paint, and until what the
// page is about stands there; each in a window that has nothing in its cache.

import { close, done, signedIn } from "../../ui/browser.mjs";
import { noteWhenSeen, tell } from "./say.mjs";

const places = {
    "/info": "pre",
    "/": "section[aria-label='Recent failures'] li",
    "/experiments": "tbody tr[data-index] a",
    "/experiments/1": ".headline-facts",
};

function firstPaint() {
    return performance.getEntriesByName("first-contentful-paint")[0]?.startTime;
}

for (let round = 0; round < Number(process.argv[2]); round++)
    for (const [path, selector] of Object.entries(places)) {
        const page = await signedIn();
        await page.addInitScript(noteWhenSeen, selector);
        await page.goto(path);
        const seen = await page.waitForFunction(() => window.seenAt, undefined, { polling: 50 });
        const painted = await page.waitForFunction(firstPaint, undefined, { polling: 50 });
        tell(`paint ${path}`, await painted.jsonValue());
        tell(`seen ${path}`, await seen.jsonValue());
        await done(page);
    }
await close();
