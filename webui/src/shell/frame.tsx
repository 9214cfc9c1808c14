// Header and navigation around the page.

import { signal } from "@preact/signals";
import { useActions, type Action } from "../lib/actions";
import { live } from "../lib/live";
import { toastError } from "../lib/notices";
import { signOut, user } from "../lib/session";
import { type Theme, isDark, theme } from "../lib/theme";
import { go, here } from "../lib/url";
import { pages } from "../pages/table";
import { Button } from "../parts/button";
import { Icon } from "../parts/icon";
import { useInSight } from "../parts/in_sight";
import { Menu } from "../parts/menu";
import { Banner } from "./banner";
import { KeyHelp } from "./help";
import { Mark } from "./mark";
import { openPalette, Palette } from "./palette";
import { Router } from "./router";
import "./frame.css";

const helpIsOpen = signal(false);

const isAt = (pattern: string, path: string) =>
    pattern === "/" ? path === "/" : path === pattern || path.startsWith(`${pattern}/`);

function Navigation() {
    const path = here.value.path;
    const row = useInSight<HTMLElement>("[aria-current]", path);
    return (
        <nav ref={row} class="nav" aria-label="Pages">
            {pages.map(
                ({ pattern, title, icon, load, key }) =>
                    icon && (
                        <a
                            key={pattern}
                            class="nav-link"
                            href={pattern}
                            aria-current={isAt(pattern, path) ? "page" : undefined}
                            title={key && `${title}: g ${key}`}
                            onPointerEnter={() => void load()}
                        >
                            <Icon name={icon} />
                            {title}
                        </a>
                    ),
            )}
        </nav>
    );
}

const liveWords = {
    off: "Nothing on this page changes by itself",
    connecting: "Connecting to the master",
    on: "Live: what changes is shown at once",
    lost: "No connection to the master; trying again",
};

function Live() {
    const state = live.value;
    return (
        <span class={`live live-${state}`} role="status" title={liveWords[state]}>
            <span class="live-dot" aria-hidden="true" />
            <span class="live-word">
                {state === "on" ? "Live" : state === "lost" ? "Offline" : ""}
            </span>
            <span class="hidden">{liveWords[state]}</span>
        </span>
    );
}

function themeAction(word: Theme, name: string): Action {
    return { name, icon: theme.value === word ? "check" : "", run: () => (theme.value = word) };
}

function UserMenu() {
    const name = user.value?.displayName || user.value?.username || "";
    return (
        <Menu
            kind="quiet"
            icon="admin"
            label={`Signed in as ${name}`}
            items={[
                themeAction("system", "Theme of the system"),
                themeAction("light", "Light theme"),
                themeAction("dark", "Dark theme"),
                "-",
                { name: "Keys", icon: "keyboard", key: "?", run: () => (helpIsOpen.value = true) },
                { name: `Sign out ${name}`, run: () => signOut().catch(toastError) },
            ]}
        />
    );
}

function focusSearch(): void {
    document.querySelector<HTMLElement>("[data-search]")?.focus();
}

const general: readonly Action[] = [
    ...pages.flatMap(({ pattern, title, key, icon }) =>
        icon ? [{ name: `Go to ${title}`, key: `g ${key}`, icon, run: () => go(pattern) }] : [],
    ),
    { name: "New experiment", icon: "plus", run: () => go("/experiments/new") },
    { name: "Search this page", key: "/", icon: "search", run: focusSearch },
    { name: "Show all keys", key: "?", icon: "keyboard", run: () => (helpIsOpen.value = true) },
    {
        name: "Light or dark",
        icon: "sun",
        run: () => (theme.value = isDark.value ? "light" : "dark"),
    },
];

export function Frame() {
    useActions(general);
    return (
        <>
            <header class="top">
                <a class="brand" href="/">
                    <Mark /> Muster
                </a>
                <Navigation />
                <div class="tools">
                    <Live />
                    <button
                        type="button"
                        class="button find"
                        onClick={openPalette}
                    >
                        <Icon name="search" />
                        <span class="find-word">Find or do</span>
                        <kbd class="find-word">Ctrl K</kbd>
                        <span class="hidden">Open the command palette</span>
                    </button>
                    <Button
                        kind="quiet"
                        icon={isDark.value ? "sun" : "moon"}
                        label={isDark.value ? "Light theme" : "Dark theme"}
                        onClick={() => (theme.value = isDark.value ? "light" : "dark")}
                    />
                    <UserMenu />
                </div>
            </header>
            <Banner />
            <Router />
            <Palette />
            {helpIsOpen.value && <KeyHelp onClose={() => (helpIsOpen.value = false)} />}
        </>
    );
}
