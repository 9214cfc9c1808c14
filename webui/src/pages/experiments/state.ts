// What the table of experiments shows, as its address says.

import { computed } from "@preact/signals";
import type { Query } from "../../lib/api";
import { flag, list, number, param, text } from "../../lib/url";

export const FALLBACK = ["state", "owner", "progress", "metric", "started", "duration", "labels"];

export const filter = param("filter", text());
export const sort = param("sort", text("-id"));
export const columns = param("columns", list(FALLBACK));
export const pin = param("pin", number(0));
export const archived = param("archived", flag());
export const states = param("states", list());
export const owners = param("owners", list());
export const labels = param("labels", list());
export const projects = param("projects", list());

export const LIGHT = "config,originalConfig,description,notes";

/** Columns whose values the list does not have by itself are asked for by their name. */
export const isValue = (id: string) => /^(training|validation|hparams)\./.test(id) || id === "slots";

export const shown = computed(() => columns.value.filter(isValue));

export const question = computed<Query>(() => ({
    filter: filter.value || undefined,
    sort: sort.value || "-id",
    archived: archived.value ? undefined : false,
    states: states.value.map((state) => `STATE_${state}`),
    users: owners.value,
    labels: labels.value,
    projectId: projects.value,
    show: shown.value,
    omit: LIGHT,
}));

export const isNarrowed = computed(
    () =>
        filter.value !== "" ||
        [states, owners, labels, projects].some((facet) => facet.value.length > 0),
);
