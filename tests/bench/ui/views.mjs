// node views.mjs: the scripts and styles that a browser loads for every place of the page, in bytes as sent.

import { close, done, settled, signedIn } from "../../ui/browser.mjs";
import { places } from "../../ui/places.mjs";
import { tell } from "./say.mjs";

function loaded() {
    const files = performance.getEntriesByType("resource").filter(({ name }) => /\.(js|css)$/.test(name));
    return files.reduce((sum, file) => sum + file.encodedBodySize, 0);
}

for (const { path, user } of places) {
    if (user === null) continue;
    const page = await signedIn(user);
    await page.goto(path);
    await settled(page);
    tell(path, await page.evaluate(loaded));
    await done(page);
}
await close();
