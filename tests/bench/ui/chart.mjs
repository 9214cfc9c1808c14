// node chart.mjs TRIAL ZOOMS: measures a chart of a long series: the time until it is first drawn, and the time
// from the end of a drag until the points of the zoomed range are drawn.

import { closeBrowser, closePage, expectHidden, expectVisible, waitForData, openSignedIn } from "../../ui/browser.mjs";
import { report } from "./samples.mjs";

const [trial, zooms] = process.argv.slice(2).map(Number);

/** Records in window.drawnAt when a line is drawn on a chart whose accessible name differs from `window.before`, two
 * frames after the stroke. Only lines of a chart are stroked with a path. window.startedAt is the time of the last
 * click or the end of the last drag.
 */
function recordStrokes() {
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
    window.drawnAt > 0 && window.drawnAt < Infinity && { reportDrawn: window.drawnAt, started: window.startedAt ?? 0 };

/** The duration of the slowest request for points since then, as the page sees it. */
function slowestRequest(since) {
    const all = performance.getEntriesByType("resource");
    const asked = all.filter(({ name, startTime }) => name.includes("/series") && startTime >= since);
    return Math.max(...asked.map(({ duration }) => duration));
}

async function drawn(page, name) {
    const found = await page.waitForFunction(drawnAt, undefined, { polling: 20 });
    const { drawn, started } = await found.jsonValue();
    report(name, drawn - started);
    report(`${name}, request`, await page.evaluate(slowestRequest, started));
}

async function open(address) {
    const page = await openSignedIn();
    await page.addInitScript(recordStrokes);
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
    await expectHidden(all);
    await waitForData(page);
}

const page = await open(`/trials/${trial}?tab=hyperparameters&metric=grad_norm`);
await waitForData(page);
await page.getByRole("tab", { name: "Metrics" }).click();
await drawn(page, "first view");
await expectVisible(page.getByRole("img", { name: /grad_norm/ }));
for (let i = 0; i < zooms; i++) await zoom(page, 0.1 + 0.11 * i, 0.2 + 0.11 * i);
await closePage(page);

const other = await open(`/trials/${trial}?metric=loss`);
await drawn(other, "by address");
await closePage(other);
await closeBrowser();
