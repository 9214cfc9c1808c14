// Header and navigation around the page.

import { signal } from "@preact/signals";
import { useActions, type Action } from "../lib/actions";
import { streamState } from "../lib/events/subscribe";
import { toastError } from "../lib/toasts";
import { signOut, user } from "../lib/session";
import { type Theme, isDark, theme } from "../lib/theme";
import { navigate, currentAddress } from "../lib/url";
import { pages } from "../pages/routes";
import { Button } from "../parts/basic/button";
import { Icon } from "../parts/basic/icon";
import { useScrollIntoView } from "../parts/page/scroll_into_view";
import { Menu } from "../parts/overlay/menu";
import { Banner } from "./banner";
import { KeyHelp } from "./key_help";
import { Logo } from "./logo";
import { openPalette, Palette } from "./palette";
import { Router } from "./router";
import "./frame.css";

const helpIsOpen = signal(false);

const isCurrent = (pattern: string, path: string) =>
    pattern === "/" ? path === "/" : path === pattern || path.startsWith(`${pattern}/`);

function Navigation() {
    const path = currentAddress.value.path;
    const row = useScrollIntoView<HTMLElement>("[aria-current]", path);
    return (
        <nav ref={row} class="nav" aria-label="Pages">
            {pages.map(
                ({ pattern, title, icon, load, key }) =>
                    icon && (
                        <a
                            key={pattern}
                            class="nav-link"
                            href={pattern}
                            aria-current={isCurrent(pattern, path) ? "page" : undefined}
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

const connectionTexts = {
    off: "This page does not update by itself",
    connecting: "Connecting to the master",
    on: "Live: changes appear at once",
    lost: "No connection to the master, retrying",
};

function ConnectionStatus() {
    const state = streamState.value;
    return (
        <span class={`connection connection-${state}`} role="status" title={connectionTexts[state]}>
            <span class="connection-dot" aria-hidden="true" />
            <span class="connection-text">
                {state === "on" ? "Live" : state === "lost" ? "Offline" : ""}
            </span>
            <span class="hidden">{connectionTexts[state]}</span>
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
                themeAction("system", "System theme"),
                themeAction("light", "Light theme"),
                themeAction("dark", "Dark theme"),
                "-",
                { name: "Keyboard shortcuts", icon: "keyboard", key: "?", run: () => (helpIsOpen.value = true) },
                { name: `Sign out ${name}`, run: () => signOut().catch(toastError) },
            ]}
        />
    );
}

function focusSearch(): void {
    document.querySelector<HTMLElement>("[data-search]")?.focus();
}

const globalActions: readonly Action[] = [
    ...pages.flatMap(({ pattern, title, key, icon }) =>
        icon ? [{ name: `Go to ${title}`, key: `g ${key}`, icon, run: () => navigate(pattern) }] : [],
    ),
    { name: "New experiment", icon: "plus", run: () => navigate("/experiments/new") },
    { name: "Search this page", key: "/", icon: "search", run: focusSearch },
    { name: "Show keyboard shortcuts", key: "?", icon: "keyboard", run: () => (helpIsOpen.value = true) },
    {
        name: "Switch theme",
        icon: "sun",
        run: () => (theme.value = isDark.value ? "light" : "dark"),
    },
];

export function Frame() {
    useActions(globalActions);
    return (
        <>
            <header class="header">
                <a class="brand" href="/">
                    <Logo /> Muster
                </a>
                <Navigation />
                <div class="header-tools">
                    <ConnectionStatus />
                    <button
                        type="button"
                        class="button palette-button"
                        onClick={openPalette}
                    >
                        <Icon name="search" />
                        <span class="palette-button-text">Search</span>
                        <kbd class="palette-button-text">Ctrl K</kbd>
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
