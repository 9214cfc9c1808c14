// The page that the address names. Its module is loaded first; until then the page before stays.

import { signal } from "@preact/signals";
import { type ComponentType, h } from "preact";
import { useEffect } from "preact/hooks";
import { fillPath, findRow, type Given } from "../lib/routes";
import { go, here } from "../lib/url";
import { moved, pages } from "../pages/table";
import { Empty, ErrorBox, Head, Waiting } from "../parts/page";

interface Shown {
    path: string;
    Page: ComponentType<Given>;
    given: Given;
}

const shown = signal<Shown | null>(null);
const failure = signal<unknown>(undefined);

function Unknown() {
    return (
        <main>
            <Head title="Not found" />
            <Empty title="There is nothing at this address" icon="search">
                <p>It may be misspelt, or from another version of Muster.</p>
                <p>
                    Go to the <a href="/experiments">experiments</a>, or press Ctrl K to search.
                </p>
            </Empty>
        </main>
    );
}

async function open(path: string): Promise<void> {
    const found = findRow(pages, (row) => row.pattern, path);
    failure.value = undefined;
    if (!found) {
        shown.value = { path, Page: Unknown, given: {} };
        return;
    }
    try {
        const { Page } = await found.row.load();
        if (here.peek().path === path)
            shown.value = { path, Page: Page as ComponentType<Given>, given: found.given };
    } catch (error) {
        failure.value = error;
    }
}

function follow(path: string): void {
    const other = findRow(moved, ([pattern]) => pattern, path);
    const known = findRow(pages, (row) => row.pattern, path);
    if (other && !known) go(fillPath(other.row[1], other.given), true);
    else void open(path);
}

/** A new version of the page has other files; reading it anew finds them. */
function Broken({ error }: { error: unknown }) {
    return (
        <main>
            <ErrorBox error={error} retry={() => location.reload()} />
        </main>
    );
}

export function Router() {
    const path = here.value.path;
    useEffect(() => follow(path), [path]);
    if (failure.value !== undefined) return <Broken error={failure.value} />;
    const now = shown.value;
    if (!now)
        return (
            <main>
                <Waiting />
            </main>
        );
    return h(now.Page, { ...now.given, key: now.path });
}
