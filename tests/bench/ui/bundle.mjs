// node bundle.mjs: measures the scripts and styles that a browser loads for each view, in bytes as sent.

import { closeBrowser, closePage, waitForData, openSignedIn } from "../../ui/browser.mjs";
import { views } from "../../ui/views.mjs";
import { report } from "./samples.mjs";

function loaded() {
    const files = performance.getEntriesByType("resource").filter(({ name }) => /\.(js|css)$/.test(name));
    return files.reduce((sum, file) => sum + file.encodedBodySize, 0);
}

for (const { path, user } of views) {
    if (user === null) continue;
    const page = await openSignedIn(user);
    await page.goto(path);
    await waitForData(page);
    report(path, await page.evaluate(loaded));
    await closePage(page);
}
await closeBrowser();
