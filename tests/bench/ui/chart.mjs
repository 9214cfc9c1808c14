// node chart.mjs TRIAL ZOOMS: a chart of a long series: until it is drawn first, and from the end of a
// drag until the points of what was zoomed to are drawn.

import { close, done, gone, see, settled, signedIn } from "../../ui/browser.mjs";
import { tell } from "./say.mjs";

const [trial, zooms] = process.argv.slice(2).map(Number);

/**
 * Notes as window.drawnAt when a line was drawn on a chart whose points are not those of `window.before`
 * (what it says of itself for who does not see it): two frames after the stroke. Nothing else of a chart is
 * stroked by a path. Of what was asked before, window.startedAt: the last click, the end of the last drag.
 */
function noteStrokes() {
    const stroke = CanvasRenderingContext2D.prototype.stroke;
    window.before = "";
    CanvasRenderingContext2D.prototype.stroke = function (...path) {
        stroke.apply(this, path);
        const plot = path.length ? this.canvas.closest(".chart-plot") : null;
        if (!plot || plot.ariaLabel === window.before || window.drawnAt) return;
        window.drawnAt = Infinity;
        requestAnimationFrame(() => requestAnimationFrame(() => (window.drawnAt = performance.now())));
    };
    for (const type of ["click", "mouseup"])
        addEventListener(type, (event) => (window.startedAt = event.timeStamp), { capture: true });
}

const drawnAt = () =>
    window.drawnAt > 0 && window.drawnAt < Infinity && { drawn: window.drawnAt, started: window.startedAt ?? 0 };

/** How long the slowest request for points since then took, as the page sees it. */
function askedFor(since) {
    const all = performance.getEntriesByType("resource");
    const asked = all.filter(({ name, startTime }) => name.includes("/series") && startTime >= since);
    return Math.max(...asked.map(({ duration }) => duration));
}

async function drawn(page, name) {
    const found = await page.waitForFunction(drawnAt, undefined, { polling: 20 });
    const { drawn, started } = await found.jsonValue();
    tell(name, drawn - started);
    tell(`${name}, request`, await page.evaluate(askedFor, started));
}

async function open(address) {
    const page = await signedIn();
    await page.addInitScript(noteStrokes);
    await page.goto(address);
    return page;
}

async function zoom(page, from, to) {
    const plot = page.locator(".chart-plot .u-over");
    const { x, y, width, height } = await plot.boundingBox();
    await page.mouse.move(x + width * from, y + height / 2);
    await page.mouse.down();
    await page.mouse.move(x + width * to, y + height / 2, { steps: 8 });
    await page.evaluate(() => {
        window.before = document.querySelector(".chart-plot").ariaLabel;
        window.drawnAt = 0;
    });
    await page.mouse.up();
    await drawn(page, "zoom");
    const all = page.getByRole("button", { name: "Show all", exact: true });
    await all.click();
    await gone(all);
    await settled(page);
}

const page = await open(`/trials/${trial}?tab=hyperparameters&metric=grad_norm`);
await settled(page);
await page.getByRole("tab", { name: "Metrics" }).click();
await drawn(page, "first view");
await see(page.getByRole("img", { name: /grad_norm/ }));
for (let i = 0; i < zooms; i++) await zoom(page, 0.1 + 0.11 * i, 0.2 + 0.11 * i);
await done(page);

const other = await open(`/trials/${trial}?metric=loss`);
await drawn(other, "by address");
await done(other);
await close();
