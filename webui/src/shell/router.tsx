// Shows the page that the address names. The previous page stays until the module of the new one is loaded.

import { signal } from "@preact/signals";
import { type ComponentType, h } from "preact";
import { useEffect } from "preact/hooks";
import { fillPath, findRoute, type PathParams } from "../lib/routes";
import { navigate, currentAddress } from "../lib/url";
import { redirects, pages } from "../pages/routes";
import { Empty, ErrorBox, PageHead, Loading } from "../parts/page/page";

interface ShownPage {
    path: string;
    Page: ComponentType<PathParams>;
    params: PathParams;
}

const shown = signal<ShownPage | null>(null);
const failure = signal<unknown>(undefined);

function NotFound() {
    return (
        <main>
            <PageHead title="Not found" />
            <Empty title="Page not found" icon="search">
                <p>The address may be misspelt, or belong to another version of Muster.</p>
                <p>
                    Go to the <a href="/experiments">experiments</a>, or press Ctrl K to search.
                </p>
            </Empty>
        </main>
    );
}

async function open(path: string): Promise<void> {
    const found = findRoute(pages, (row) => row.pattern, path);
    failure.value = undefined;
    if (!found) {
        shown.value = { path, Page: NotFound, params: {} };
        return;
    }
    try {
        const { Page } = await found.row.load();
        if (currentAddress.peek().path === path)
            shown.value = { path, Page: Page as ComponentType<PathParams>, params: found.params };
    } catch (error) {
        failure.value = error;
    }
}

function openOrRedirect(path: string): void {
    const redirect = findRoute(redirects, ([pattern]) => pattern, path);
    const route = findRoute(pages, (row) => row.pattern, path);
    if (redirect && !route) navigate(fillPath(redirect.row[1], redirect.params), true);
    else void open(path);
}

/** Shown when a module cannot be loaded. After an update of the master its file has another name, so the button
    reloads the page. */
function LoadFailed({ error }: { error: unknown }) {
    return (
        <main>
            <ErrorBox error={error} retry={() => location.reload()} />
        </main>
    );
}

export function Router() {
    const path = currentAddress.value.path;
    useEffect(() => openOrRedirect(path), [path]);
    if (failure.value !== undefined) return <LoadFailed error={failure.value} />;
    const now = shown.value;
    if (!now)
        return (
            <main>
                <Loading />
            </main>
        );
    return h(now.Page, { ...now.params, key: now.path });
}
