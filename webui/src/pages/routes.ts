// All pages with their addresses and modules. A module is loaded when its page is opened.

import type { ComponentType } from "preact";
import type { PathParams } from "../lib/routes";
import type { IconName } from "../parts/basic/icon";

export interface PageRoute {
    /** For example "/trials/:id". The page gets the value of :id as a prop. */
    pattern: string;
    title: string;
    load: () => Promise<{ Page: ComponentType<PathParams> | ComponentType<never> }>;
    /** The shortcut is g and this letter. */
    key?: string;
    /** Pages with an icon are in the navigation, in the order of this table. */
    icon?: IconName;
}

export const pages: readonly PageRoute[] = [
    {
        pattern: "/",
        title: "Overview",
        load: () => import("./overview"),
        key: "o",
        icon: "overview",
    },
    {
        pattern: "/experiments",
        title: "Experiments",
        load: () => import("./experiments"),
        key: "e",
        icon: "experiments",
    },
    {
        pattern: "/experiments/new",
        title: "New experiment",
        load: () => import("./new_experiment"),
    },
    {
        pattern: "/experiments/:id",
        title: "Experiment",
        load: () => import("./experiment"),
    },
    { pattern: "/trials/:id", title: "Trial", load: () => import("./trial") },
    {
        pattern: "/cluster",
        title: "Cluster",
        load: () => import("./cluster"),
        key: "c",
        icon: "cluster",
    },
    { pattern: "/queue", title: "Queue", load: () => import("./queue"), key: "q", icon: "queue" },
    {
        pattern: "/compare",
        title: "Compare",
        load: () => import("./compare"),
        key: "v",
        icon: "compare",
    },
    {
        pattern: "/models",
        title: "Registry",
        load: () => import("./registry"),
        key: "m",
        icon: "registry",
    },
    { pattern: "/models/:name", title: "Model", load: () => import("./registry/model") },
    { pattern: "/admin", title: "Admin", load: () => import("./admin"), key: "a", icon: "admin" },
];

/** Redirects: addresses that `det` prints, and addresses that have changed. */
export const redirects: readonly (readonly [pattern: string, to: string])[] = [
    ["/det", "/"],
    ["/det/experiments/:id", "/experiments/:id"],
    ["/det/experiments/:id/:tab", "/experiments/:id?tab=:tab"],
    ["/det/experiments/:experiment/trials/:id", "/trials/:id"],
    ["/det/experiments/:experiment/trials/:id/:tab", "/trials/:id?tab=:tab"],
    ["/det/trials/:id", "/trials/:id"],
    ["/det/trials/:id/:tab", "/trials/:id?tab=:tab"],
    ["/det/models/:name", "/models/:name"],
    ["/det/models/:name/:tab", "/models/:name"],
    ["/det/:name", "/:name"],
];
