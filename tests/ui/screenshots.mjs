// node screenshots.mjs FOLDER [NAME..]: a screenshot of every view, in both themes, wide and narrow.

import { closeBrowser, scrollThroughPage, openPage, waitForData, openSignedIn } from "./browser.mjs";
import { views } from "./views.mjs";

const [folder, ...named] = process.argv.slice(2);
const wanted = views.filter(({ name }) => !named.length || named.includes(name));

for (const width of [1440, 390])
    for (const theme of ["light", "dark"]) {
        const windows = {};
        for (const { name, path, user = "determined" } of wanted) {
            const page = (windows[user] ??= await (user ? openSignedIn(user, { theme, width }) : openPage({ theme, width })));
            await page.goto(path);
            await waitForData(page);
            if (width === 390) await scrollThroughPage(page); // the screenshot shows the whole page
            await page.waitForTimeout(250); // charts are drawn one frame after their data arrives
            await page.screenshot({ path: `${folder}/${name}-${width}-${theme}.png`, fullPage: width === 390 });
            if (page.errors.length) console.error(name, page.errors.splice(0));
        }
    }
await closeBrowser();
