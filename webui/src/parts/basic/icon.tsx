// Icons of 16 by 16 pixels, one path each. An icon never stands alone: it has text beside it, or is in a button
// with a label.

import "./icon.css";

const paths = {
    overview: "M2 2h5v6H2zM9 2h5v4H9zM2 10h5v4H2zM9 8h5v6H9z",
    experiments: "M2 4h12M2 8h12M2 12h12M5.5 2v12",
    compare: "M2 13l3.5-6 3 3L14 3M2 9l3.5-3 3 6L14 9",
    cluster: "M2 2h12v5H2zM2 9h12v5H2zM4.5 4.5h.01M4.5 11.5h.01M7 4.5h4M7 11.5h4",
    queue: "M2 3h12M2 8h9M2 13h6",
    registry: "M8 1.5l6 3v7l-6 3-6-3v-7zM2 4.5l6 3 6-3M8 7.5v7",
    admin: "M8 8a3 3 0 100-6 3 3 0 000 6zM2.5 14.5c.5-3 2.5-4.5 5.5-4.5s5 1.5 5.5 4.5",
    search: "M7 12A5 5 0 107 2a5 5 0 000 10zM10.8 10.8L14 14",
    sun: "M8 11a3 3 0 100-6 3 3 0 000 6zM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
    moon: "M13.5 9.5A6 6 0 116.5 2.5a5 5 0 007 7z",
    menu: "M2 4h12M2 8h12M2 12h12",
    more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
    close: "M3.5 3.5l9 9M12.5 3.5l-9 9",
    check: "M3 8.5l3.5 3.5L13 4.5",
    pause: "M5 3v10M11 3v10",
    play: "M4.5 2.5v11l9-5.5z",
    stop: "M3.5 3.5h9v9h-9z",
    kill: "M5 1.5h6L14.5 5v6L11 14.5H5L1.5 11V5zM5.5 5.5l5 5M10.5 5.5l-5 5",
    clock: "M8 14.5a6.5 6.5 0 100-13 6.5 6.5 0 000 13zM8 4.5V8l2.5 1.5",
    warning: "M8 2L1.5 13.5h13zM8 6.5v3.5M8 12h.01",
    copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
    download: "M8 2v8M4.5 7L8 10.5 11.5 7M2.5 13.5h11",
    pin: "M6 1.5h4l-.5 5 2.5 2.5H4l2.5-2.5zM8 9v5.5",
    columns: "M2 2.5h12v11H2zM6 2.5v11M10 2.5v11",
    filter: "M2 3h12l-4.5 5.5v5l-3-1.5V8.5z",
    down: "M4 6.5L8 10.5l4-4",
    right: "M6.5 4L10.5 8l-4 4",
    ascending: "M8 13V3M4.5 6.5L8 3l3.5 3.5",
    descending: "M8 3v10M4.5 9.5L8 13l3.5-3.5",
    refresh: "M13.5 8A5.5 5.5 0 112.9 6M13.5 2.5v3.5H10",
    bookmark: "M4 2h8v12l-4-3-4 3z",
    archive: "M2 3h12v3H2zM3 6v7.5h10V6M6.5 9h3",
    label: "M2 2.5h5.5l6.5 6.5-5 5-7-6.5zM5 5.5h.01",
    move: "M2 8h11M9.5 4.5L13 8l-3.5 3.5",
    plus: "M8 3v10M3 8h10",
    keyboard: "M1.5 4h13v8h-13zM4 6.5h.01M7 6.5h.01M10 6.5h.01M12.5 6.5h.01M5 9.5h6",
    spinner: "M8 1.5a6.5 6.5 0 106.5 6.5",
    ring: "M8 13a5 5 0 100-10 5 5 0 000 10z",
    slash: "M8 14a6 6 0 100-12 6 6 0 000 12zM4 12l8-8",
    link: "M6.5 9.5l3-3M7 4.5l2-2a3 3 0 014.5 4.5l-2 2M9 11.5l-2 2A3 3 0 012.5 9l2-2",
} as const;

export type IconName = keyof typeof paths;

export function isIcon(name: string | undefined): name is IconName {
    return name !== undefined && name in paths;
}

export function Icon({ name, label }: { name: IconName; label?: string }) {
    return (
        <svg
            class={`icon icon-${name}`}
            viewBox="0 0 16 16"
            role={label ? "img" : undefined}
            aria-label={label}
            aria-hidden={label ? undefined : "true"}
        >
            <path d={paths[name]} />
        </svg>
    );
}
