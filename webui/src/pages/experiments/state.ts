// The state of the table of experiments, all of it in the address.

import { computed } from "@preact/signals";
import type { Query } from "../../lib/api";
import { flag, list, number, queryParam, text } from "../../lib/url";

export const DEFAULT_COLUMNS = ["state", "owner", "progress", "metric", "started", "ran", "waited", "labels"];

export const filter = queryParam("filter", text());
export const sort = queryParam("sort", text("-id"));
export const columns = queryParam("columns", list(DEFAULT_COLUMNS));
export const pinnedId = queryParam("pin", number(0));
export const archived = queryParam("archived", flag());
export const states = queryParam("states", list());
export const owners = queryParam("owners", list());
export const labels = queryParam("labels", list());
export const projects = queryParam("projects", list());

export const OMITTED_FIELDS = "config,originalConfig,description,notes";

/** Returns whether a column needs a value that the list contains only on request. */
export const isValueColumn = (id: string) => /^(training|validation|hparams)\./.test(id) || id === "slots";

export const valueColumns = computed(() => columns.value.filter(isValueColumn));

export const listQuery = computed<Query>(() => ({
    filter: filter.value || undefined,
    sort: sort.value || "-id",
    archived: archived.value ? undefined : false,
    states: states.value.map((state) => `STATE_${state}`),
    users: owners.value,
    labels: labels.value,
    projectId: projects.value,
    show: valueColumns.value,
    omit: OMITTED_FIELDS,
}));

export const isFiltered = computed(
    () =>
        filter.value !== "" ||
        [states, owners, labels, projects].some((facet) => facet.value.length > 0),
);
