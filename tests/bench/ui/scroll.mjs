// node scroll.mjs ROUNDS: scrolls the table of experiments with the wheel at a steady speed, counts visible rows
// that are not rendered, and measures the time between frames. For comparison it scrolls a tall box on an empty
// page.

import { closeBrowser, closePage, expectVisible, waitForData, openSignedIn } from "../../ui/browser.mjs";
import { report } from "./samples.mjs";

const paces = { steady: [3_000, 12_000], fling: [40_000, 80_000] }; // pixels a second, pixels

/** Counts visible rows at each scroll event, before the table handles it, as the user sees them at that time. */
function countRows(row) {
    const seen = { rows: 0, dropped: 0, frames: [], from: 0, to: 0 };
    const box = document.querySelector(".table");
    const look = () => {
        const head = box.querySelector("thead")?.offsetHeight ?? 0;
        const first = Math.floor(box.scrollTop / row);
        const end = Math.ceil((box.scrollTop + box.clientHeight - head) / row);
        const drawn = new Set();
        for (const line of box.querySelectorAll("tr[data-index]"))
            if (!line.querySelector(".table-placeholder")) drawn.add(Number(line.dataset.index));
        seen.rows += end - first;
        for (let i = first; i < end; i++) if (!drawn.has(i)) seen.dropped++;
        seen.to = performance.now();
        seen.from ||= seen.to;
    };
    const tick = (time) => {
        seen.frames.push(time);
        window.watching = requestAnimationFrame(tick);
    };
    addEventListener("scroll", look, { capture: true });
    tick(performance.now());
    window.endWatch = () => {
        removeEventListener("scroll", look, { capture: true });
        cancelAnimationFrame(window.watching);
        const frames = seen.frames.filter((time) => time >= seen.from && time <= seen.to);
        return { ...seen, moved: box.scrollTop, frames: frames.slice(1).map((time, i) => time - frames[i]) };
    };
}

async function scroll(page, [speed, distance]) {
    const wheel = await page.context().newCDPSession(page);
    const { x, y, width, height } = await page.locator(".table").boundingBox();
    await page.evaluate(countRows, 32);
    await wheel.send("Input.synthesizeScrollGesture", {
        x: Math.round(x + width / 2),
        y: Math.round(y + height / 2),
        yDistance: -distance,
        speed,
        gestureSourceType: "mouse",
    });
    const seen = await page.evaluate("endWatch()");
    if (seen.moved < distance * 0.9) throw new Error(`scrolled ${seen.moved} pixels of ${distance}`);
    return seen;
}

for (let round = 0; round < Number(process.argv[2]); round++)
    for (const [name, pace] of Object.entries(paces)) {
        const page = await openSignedIn();
        await page.goto("/experiments");
        await expectVisible(page.getByRole("grid", { name: "Experiments" }).getByRole("link"));
        await waitForData(page);
        const { rows, dropped, frames } = await scroll(page, pace);
        report(`rows ${name}`, rows);
        report(`dropped ${name}`, dropped);
        report(`frames ${name}`, frames);
        await page.goto("about:blank");
        await page.setContent(
            `<body style="margin:0"><div class="table" style="height:100vh;overflow:auto">` +
                `<div style="height:3200000px"></div></div>`,
        );
        report(`frames ${name} empty`, (await scroll(page, pace)).frames);
        await closePage(page);
    }
await closeBrowser();
