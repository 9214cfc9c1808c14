// Saved views of the table. A view is an address, so saving a view saves its address.

import { useSignal } from "@preact/signals";
import { setting } from "../../lib/settings";
import { user } from "../../lib/session";
import { navigate, currentAddress, queryText } from "../../lib/url";
import { Button } from "../../parts/basic/button";
import { Dialog } from "../../parts/overlay/dialog";
import { Field, TextInput } from "../../parts/form/field";
import { Menu } from "../../parts/overlay/menu";

interface SavedView {
    name: string;
    query: string;
}

const saved = setting<readonly SavedView[]>("experiments.views", []);

function defaultViews(): SavedView[] {
    const me = encodeURIComponent(user.value?.username ?? "");
    return [
        { name: "All", query: "" },
        { name: "Mine", query: `owners=${me}` },
        { name: "Active", query: "filter=state+%3D+ACTIVE" },
        { name: "Failed this week", query: "filter=state+%3D+ERROR+and+ended+%3E+-7d" },
    ];
}

function SaveDialog({ query, onClose }: { query: string; onClose: () => void }) {
    const name = useSignal("");
    const save = () => {
        const viewName = name.value.trim();
        if (!viewName) return;
        const others = saved.value.filter((view) => view.name !== viewName);
        saved.value = [...others, { name: viewName, query }];
        onClose();
    };
    return (
        <Dialog
            title="Save view"
            onClose={onClose}
            actions={
                <Button kind="main" onClick={save}>
                    Save
                </Button>
            }
        >
            <Field label="Name" help="Saves the filter, order, columns and baseline, for you only">
                <TextInput bind={name} onEnter={save} autofocus />
            </Field>
        </Dialog>
    );
}

export function SavedViews() {
    const isSaving = useSignal(false);
    const { path, query } = currentAddress.value;
    const now = queryText(query);
    const same = (view: SavedView) => queryText(new URLSearchParams(view.query)) === now;
    const own = saved.value.find(same);
    const all = [...defaultViews(), ...saved.value];
    return (
        <nav class="views" aria-label="Views">
            {all.map((view) => (
                <a
                    key={view.name}
                    class="view"
                    href={view.query ? `${path}?${view.query}` : path}
                    aria-current={same(view) ? "true" : undefined}
                >
                    {view.name}
                </a>
            ))}
            <Menu
                kind="quiet"
                icon="bookmark"
                label="Manage views"
                items={[
                    { name: "Save this view…", icon: "plus", run: () => (isSaving.value = true) },
                    {
                        name: "Copy a link to this view",
                        icon: "link",
                        doneText: "Copied",
                        run: () => navigator.clipboard.writeText(location.href),
                    },
                    ...(own
                        ? [
                              {
                                  name: `Delete ${own.name}`,
                                  icon: "close",
                                  run: () => {
                                      saved.value = saved.value.filter((view) => view !== own);
                                      navigate(path);
                                  },
                              },
                          ]
                        : []),
                ]}
            />
            {isSaving.value && <SaveDialog query={now} onClose={() => (isSaving.value = false)} />}
        </nav>
    );
}
