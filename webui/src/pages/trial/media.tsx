// The images, histograms, tables and texts of a trial. One slider of steps moves all of them: each shows its newest
// item at or before the step.

import { useState } from "preact/hooks";
import { apiUrl, get, getText } from "../../lib/api";
import {
    type Histogram,
    itemAt,
    type MediaItem,
    type MediaName,
    type MediaType,
    rebin,
    type Table,
    thin,
    valueRange,
} from "../../lib/experiment/media";
import { bytes, count, formatMetric, number } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { queryParam, text } from "../../lib/url";
import { Button, Empty, Loaded, Search } from "../../parts";
import "./media.css";

const nameSearch = queryParam("media", text());
/** "": the newest. */
const chosenStep = queryParam("step", text());

const ORDER: readonly MediaType[] = ["image", "histogram", "text", "table"];
const CARDS = 24; // shown at first, and added by each click
const HEAT_COLUMNS = 60;
const HEAT_ROWS = 48;
const TABLE_ROWS = 200;
const TEXT_LENGTH = 100_000;
const SMALL = 200; // an image with fewer pixels is enlarged without smoothing
const RELOAD_S = 5;

const stepNumber = () => (/^\d+$/.test(chosenStep.value) ? Number(chosenStep.value) : undefined);
const contentPath = (trialId: number, item: MediaItem) => `/trials/${trialId}/media/${item.digest}`;

function Image({ trialId, item }: { trialId: number; item: MediaItem }) {
    const [small, setSmall] = useState(false);
    const url = apiUrl(contentPath(trialId, item));
    return (
        <a href={url} title="Show the image alone">
            <img
                class={small ? "media-image media-image-small" : "media-image"}
                src={url}
                alt={`${item.name} at step ${item.step}`}
                onLoad={({ currentTarget: image }) =>
                    setSmall(Math.max(image.naturalWidth, image.naturalHeight) < SMALL)
                }
            />
        </a>
    );
}

/** One column per item; the darker, the more values of the item lie there. */
function HeatMap(props: { items: readonly MediaItem[]; histograms: readonly Histogram[]; step: number }) {
    const { items, histograms, step } = props;
    const range = valueRange(histograms);
    const now = itemAt(items, step);
    return (
        <>
            <svg
                class="media-plot media-heat"
                viewBox={`0 0 ${items.length} ${HEAT_ROWS}`}
                preserveAspectRatio="none"
                role="img"
                aria-label={`Values from ${formatMetric(range[0])} to ${formatMetric(range[1])} over the steps`}
            >
                {histograms.map((histogram, x) => {
                    const counts = rebin(histogram, range, HEAT_ROWS);
                    const most = Math.max(...counts) || 1;
                    return counts.map(
                        (one, row) =>
                            one > 0 && (
                                <rect
                                    key={`${x}.${row}`}
                                    x={x}
                                    y={HEAT_ROWS - 1 - row}
                                    width="1.02"
                                    height="1.02"
                                    opacity={(0.1 + 0.9 * Math.sqrt(one / most)).toFixed(2)}
                                />
                            ),
                    );
                })}
                <rect class="media-now" x={now} y="0" width="1" height={HEAT_ROWS} />
            </svg>
            <div class="media-axis muted num">
                <span>step {number(items[0]!.step)}</span>
                <span>
                    values {formatMetric(range[0])} to {formatMetric(range[1])}
                </span>
                <span>step {number(items.at(-1)!.step)}</span>
            </div>
        </>
    );
}

function Bars({ histogram, label }: { histogram: Histogram; label: string }) {
    const { edges, counts } = histogram;
    const [low, high] = valueRange([histogram]);
    const most = Math.max(...counts) || 1;
    const total = counts.reduce((sum, one) => sum + one, 0);
    const place = (edge: number) => (1000 * (edge - low)) / (high - low);
    return (
        <>
            <svg
                class="media-plot media-bars"
                viewBox="0 0 1000 100"
                preserveAspectRatio="none"
                role="img"
                aria-label={label}
            >
                {counts.map((one, i) => {
                    const height = (100 * one) / most;
                    const x = place(edges[i]!);
                    return (
                        <rect
                            key={i}
                            x={x}
                            y={100 - height}
                            width={Math.max(0.5, 0.92 * (place(edges[i + 1]!) - x))}
                            height={height}
                        />
                    );
                })}
            </svg>
            <div class="media-axis muted num">
                <span>{formatMetric(low)}</span>
                <span>{count(total, "value")}</span>
                <span>{formatMetric(high)}</span>
            </div>
        </>
    );
}

const readHistogram = (trialId: number, item: MediaItem, abort: AbortSignal) =>
    get<Histogram>(contentPath(trialId, item), {}, abort);

function HistogramsOverSteps(props: { trialId: number; items: readonly MediaItem[]; step: number }) {
    const load = useLoad(async (abort) => {
        const items = thin(props.items, HEAT_COLUMNS);
        const histograms = await Promise.all(items.map((one) => readHistogram(props.trialId, one, abort)));
        return { items, histograms };
    });
    return <Loaded load={load}>{(data) => <HeatMap {...data} step={props.step} />}</Loaded>;
}

function OneHistogram({ trialId, item }: { trialId: number; item: MediaItem }) {
    const load = useLoad((abort) => readHistogram(trialId, item, abort));
    return (
        <Loaded load={load}>
            {(histogram) => <Bars histogram={histogram} label={`${item.name} at step ${item.step}`} />}
        </Loaded>
    );
}

function TableView({ trialId, item }: { trialId: number; item: MediaItem }) {
    const load = useLoad((abort) => get<Table>(contentPath(trialId, item), {}, abort));
    return (
        <Loaded load={load}>
            {({ columns, rows }) => (
                <>
                    {/* A scrolling region needs the focus, so that the keyboard can scroll it. */}
                    <div class="media-table" tabIndex={0} role="region" aria-label={`Table ${item.name}`}>
                        <table>
                            <thead>
                                <tr>
                                    {columns.map((column, i) => (
                                        <th key={i} scope="col">
                                            {column}
                                        </th>
                                    ))}
                                </tr>
                            </thead>
                            <tbody>
                                {rows.slice(0, TABLE_ROWS).map((row, i) => (
                                    <tr key={i}>
                                        {row.map((cell, k) => (
                                            <td key={k} class={typeof cell === "number" ? "num media-number" : ""}>
                                                {typeof cell === "number" ? formatMetric(cell) : String(cell ?? "–")}
                                            </td>
                                        ))}
                                    </tr>
                                ))}
                            </tbody>
                        </table>
                    </div>
                    {rows.length > TABLE_ROWS && (
                        <p class="muted">
                            The first {number(TABLE_ROWS)} of {count(rows.length, "row")};{" "}
                            <a href={apiUrl(contentPath(trialId, item))}>all as JSON</a>
                        </p>
                    )}
                </>
            )}
        </Loaded>
    );
}

function TextView({ trialId, item }: { trialId: number; item: MediaItem }) {
    const load = useLoad((abort) => getText(contentPath(trialId, item), abort));
    return (
        <Loaded load={load}>
            {(content) => (
                <>
                    <pre class="media-text" tabIndex={0} role="region" aria-label={`Text ${item.name}`}>
                        {content.slice(0, TEXT_LENGTH)}
                    </pre>
                    {content.length > TEXT_LENGTH && (
                        <p class="muted">
                            The beginning of {bytes(item.size)};{" "}
                            <a href={apiUrl(contentPath(trialId, item))}>the whole text</a>
                        </p>
                    )}
                </>
            )}
        </Loaded>
    );
}

function Content(props: { trialId: number; items: readonly MediaItem[]; item: MediaItem }) {
    const { trialId, items, item } = props;
    switch (item.type) {
        case "image":
            return <Image trialId={trialId} item={item} />;
        case "histogram":
            return (
                <>
                    {items.length > 1 && (
                        <HistogramsOverSteps key={items.length} trialId={trialId} items={items} step={item.step} />
                    )}
                    <OneHistogram key={item.digest} trialId={trialId} item={item} />
                </>
            );
        case "table":
            return <TableView key={item.digest} trialId={trialId} item={item} />;
        default:
            return <TextView key={item.digest} trialId={trialId} item={item} />;
    }
}

function StepSlider({ items, at }: { items: readonly MediaItem[]; at: number }) {
    const item = items[at]!;
    return (
        <div class="media-step">
            {items.length > 1 && (
                <input
                    type="range"
                    min="0"
                    max={items.length - 1}
                    value={at}
                    aria-label={`Step of ${item.name}`}
                    aria-valuetext={`step ${item.step}`}
                    onInput={({ currentTarget: { value } }) => {
                        const last = Number(value) === items.length - 1;
                        chosenStep.value = last ? "" : String(items[Number(value)]!.step);
                    }}
                />
            )}
            <span class="num">step {number(item.step)}</span>
        </div>
    );
}

function Card({ trialId, name, type }: { trialId: number } & MediaName) {
    const load = useLoad(
        (abort) =>
            get<{ media: MediaItem[] }>(`/trials/${trialId}/media`, { name, type, limit: -1 }, abort),
        { topics: ["trials"], trialId, minIntervalS: RELOAD_S },
    );
    return (
        <section class={type === "table" ? "card media-card media-card-wide" : "card media-card"}>
            <h3>{name}</h3>
            <Loaded load={load}>
                {({ media }) => {
                    const at = itemAt(media, stepNumber());
                    const item = media[at];
                    return item ? (
                        <>
                            <StepSlider items={media} at={at} />
                            <Content trialId={trialId} items={media} item={item} />
                        </>
                    ) : (
                        <p class="muted">The trial started again from an earlier step.</p>
                    );
                }}
            </Loaded>
        </section>
    );
}

function Cards({ trialId, names }: { trialId: number; names: readonly MediaName[] }) {
    const [shown, setShown] = useState(CARDS);
    const wanted = nameSearch.value.toLowerCase();
    const matches = names
        .filter(({ name }) => name.toLowerCase().includes(wanted))
        .sort((a, b) => ORDER.indexOf(a.type) - ORDER.indexOf(b.type)); // a table takes the whole width
    if (!names.length)
        return (
            <Empty title="No images, histograms, tables or texts yet">
                <p>
                    A program reports them with <code>run.image(step, name, value)</code>, and likewise{" "}
                    <code>histogram</code>, <code>table</code> and <code>text</code>.
                </p>
            </Empty>
        );
    return (
        <div class="stack">
            <div class="spread">
                <Search bind={nameSearch} label="Find by name" />
                {chosenStep.value ? (
                    <Button onClick={() => (chosenStep.value = "")}>Show the newest</Button>
                ) : (
                    <span class="muted">A slider moves all of them.</span>
                )}
            </div>
            <div class="media-grid">
                {matches.slice(0, shown).map((one) => (
                    <Card key={`${one.type}.${one.name}`} trialId={trialId} {...one} />
                ))}
            </div>
            {!matches.length && <p class="muted">No name contains this text.</p>}
            {matches.length > shown && (
                <div>
                    <Button onClick={() => setShown(shown + CARDS)}>
                        Show more of {count(matches.length, "name")}
                    </Button>
                </div>
            )}
        </div>
    );
}

export function Media({ trialId }: { trialId: number }) {
    const load = useLoad(
        (abort) => get<{ names: MediaName[] }>(`/trials/${trialId}/media/names`, {}, abort),
        { topics: ["trials"], trialId, minIntervalS: RELOAD_S },
    );
    return <Loaded load={load}>{({ names }) => <Cards trialId={trialId} names={names} />}</Loaded>;
}
