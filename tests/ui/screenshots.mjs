// node screenshots.mjs FOLDER [NAME..]: a picture of every place, in both themes, wide and narrow.

import { close, lookThrough, open, settled, signedIn } from "./browser.mjs";
import { places } from "./places.mjs";

const [folder, ...named] = process.argv.slice(2);
const wanted = places.filter(({ name }) => !named.length || named.includes(name));

for (const width of [1440, 390])
    for (const theme of ["light", "dark"]) {
        const windows = {};
        for (const { name, path, user = "determined" } of wanted) {
            const page = (windows[user] ??= await (user ? signedIn(user, { theme, width }) : open({ theme, width })));
            await page.goto(path);
            await settled(page);
            if (width === 390) await lookThrough(page); // the picture is of the whole page
            await page.waitForTimeout(250); // charts are drawn in the frame after their data
            await page.screenshot({ path: `${folder}/${name}-${width}-${theme}.png`, fullPage: width === 390 });
            if (page.faults.length) console.error(name, page.faults.splice(0));
        }
    }
await close();
