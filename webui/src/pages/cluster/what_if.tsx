// What more machines would do: the command of the simulator, ready to copy.

import { number, param, text } from "../../lib/url";
import { quote } from "../../lib/commands";
import { Copy, Field } from "../../parts";

const add = param("add", number(4));
const pool = param("pool", text("default"));

export function WhatIf() {
    const line = `muster simulate --from-store DATA_DIR --pool ${quote(pool.value)} --add-nodes ${add.value}`;
    return (
        <section class="card stack" aria-label="What if">
            <p>
                The scheduler runs once more over all jobs that this cluster has had, with more
                machines, and shows how long jobs would have waited.
            </p>
            <Field label="More machines">
                <input
                    class="input"
                    type="number"
                    min={1}
                    max={4096}
                    value={add.value}
                    onInput={(event) => (add.value = Number(event.currentTarget.value) || 1)}
                />
            </Field>
            <div class="line">
                <code>{line}</code>
                <Copy text={line} label="Copy the command" />
            </div>
        </section>
    );
}
