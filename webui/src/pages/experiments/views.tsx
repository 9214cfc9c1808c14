// Views of the table by name: an address is a view, so keeping one is keeping an address.

import { useSignal } from "@preact/signals";
import { setting } from "../../lib/settings";
import { user } from "../../lib/session";
import { go, here, queryText } from "../../lib/url";
import { Button } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { Field, TextInput } from "../../parts/field";
import { Menu } from "../../parts/menu";

interface View {
    name: string;
    query: string;
}

const saved = setting<readonly View[]>("experiments.views", []);

function general(): View[] {
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
        const given = name.value.trim();
        if (!given) return;
        const others = saved.value.filter((view) => view.name !== given);
        saved.value = [...others, { name: given, query }];
        onClose();
    };
    return (
        <Dialog
            title="Keep this view"
            onClose={onClose}
            actions={
                <Button kind="main" onClick={save}>
                    Keep it
                </Button>
            }
        >
            <Field label="Name" help="Filter, order, columns and baseline are kept, for you alone.">
                <TextInput at={name} onEnter={save} autofocus />
            </Field>
        </Dialog>
    );
}

export function Views() {
    const isSaving = useSignal(false);
    const { path, query } = here.value;
    const now = queryText(query);
    const same = (view: View) => queryText(new URLSearchParams(view.query)) === now;
    const own = saved.value.find(same);
    const all = [...general(), ...saved.value];
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
                label="Keep or forget views"
                items={[
                    { name: "Keep this view…", icon: "plus", run: () => (isSaving.value = true) },
                    {
                        name: "Copy a link to this view",
                        icon: "link",
                        done: "Copied",
                        run: () => navigator.clipboard.writeText(location.href),
                    },
                    ...(own
                        ? [
                              {
                                  name: `Forget ${own.name}`,
                                  icon: "close",
                                  run: () => {
                                      saved.value = saved.value.filter((view) => view !== own);
                                      go(path);
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
