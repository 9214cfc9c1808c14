// node scroll.mjs ROUNDS: the table of experiments under the wheel, at a steady pace; which rows that were in
// sight were not drawn, and how far frames lie apart. The same wheel over a tall box of an empty page.

import { close, done, see, settled, signedIn } from "../../ui/browser.mjs";
import { tell } from "./say.mjs";

const paces = { steady: [3_000, 12_000], fling: [40_000, 80_000] }; // pixels a second, pixels

/** Rows are looked for at each event of scrolling before the table hears of it: what one sees until then. */
function watch(row) {
    const seen = { rows: 0, dropped: 0, frames: [], from: 0, to: 0 };
    const box = document.querySelector(".table");
    const look = () => {
        const head = box.querySelector("thead")?.offsetHeight ?? 0;
        const first = Math.floor(box.scrollTop / row);
        const end = Math.ceil((box.scrollTop + box.clientHeight - head) / row);
        const drawn = new Set();
        for (const line of box.querySelectorAll("tr[data-index]"))
            if (!line.querySelector(".table-wait")) drawn.add(Number(line.dataset.index));
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
    await page.evaluate(watch, 32);
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
        const page = await signedIn();
        await page.goto("/experiments");
        await see(page.getByRole("grid", { name: "Experiments" }).getByRole("link"));
        await settled(page);
        const { rows, dropped, frames } = await scroll(page, pace);
        tell(`rows ${name}`, rows);
        tell(`dropped ${name}`, dropped);
        tell(`frames ${name}`, frames);
        await page.goto("about:blank");
        await page.setContent(
            `<body style="margin:0"><div class="table" style="height:100vh;overflow:auto">` +
                `<div style="height:3200000px"></div></div>`,
        );
        tell(`frames ${name} empty`, (await scroll(page, pace)).frames);
        await done(page);
    }
await close();
