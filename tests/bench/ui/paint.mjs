// node paint.mjs ROUNDS: measures the time from the start of a navigation to the first contentful paint, and to
// the main content of the page, each in a new window with an empty cache.

import { closeBrowser, closePage, openSignedIn } from "../../ui/browser.mjs";
import { recordWhenVisible, report } from "./samples.mjs";

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
        const page = await openSignedIn();
        await page.addInitScript(recordWhenVisible, selector);
        await page.goto(path);
        const seen = await page.waitForFunction(() => window.seenAt, undefined, { polling: 50 });
        const painted = await page.waitForFunction(firstPaint, undefined, { polling: 50 });
        report(`paint ${path}`, await painted.jsonValue());
        report(`seen ${path}`, await seen.jsonValue());
        await closePage(page);
    }
await closeBrowser();
