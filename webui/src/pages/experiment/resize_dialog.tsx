// The dialog that changes the number of slots of each trial.

import { useSignal } from "@preact/signals";
import { type Call, performCall } from "../../lib/api";
import { count } from "../../lib/format";
import { Field, FormDialog, TextInput } from "../../parts";
import type { DialogProps } from "./actions";

export function ResizeDialog({ experiment, onClose, reload }: DialogProps) {
    const resources = experiment.config?.["resources"] as
        | { slots_per_trial?: number; min_slots?: number | null }
        | undefined;
    const slots = useSignal(String(resources?.slots_per_trial ?? 1));
    const least = useSignal(String(resources?.min_slots ?? ""));
    const call: Call = {
        method: "PATCH",
        path: `/experiments/${experiment.id}`,
        body: { resources: { slotsPerTrial: Number(slots.value), minSlots: Number(least.value) } },
        muster: [
            ...["experiment", "resize", experiment.id],
            ...["--slots", slots.value, "--min-slots", least.value || "0"],
        ],
    };
    return (
        <FormDialog
            title="Slots of each trial"
            submitLabel="Resize"
            doneText={`Each trial gets ${count(Number(slots.value), "slot")}`}
            call={call}
            submit={() => performCall(call).then(reload)}
            onClose={onClose}
        >
            <p class="muted">Trials that run with another number save a checkpoint and continue.</p>
            <Field label="Slots">
                <TextInput bind={slots} type="number" required autofocus />
            </Field>
            <Field label="At least" help="The fewest slots with which a trial may start. Empty: it always uses the number above.">
                <TextInput bind={least} type="number" />
            </Field>
        </FormDialog>
    );
}
