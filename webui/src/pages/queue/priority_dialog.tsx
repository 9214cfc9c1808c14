// The dialog that changes the priority of a job.

import { useSignal } from "@preact/signals";
import { type Action, runAction } from "../../lib/actions";
import { jobTitle } from "../../lib/cluster";
import type { Job } from "../../lib/types";
import { Button, CopyAs, Dialog, Field, TextInput } from "../../parts";

export function musterMove(job: Job, ...flags: (string | number)[]) {
    const isExperiment = job.type === "TYPE_EXPERIMENT";
    return isExperiment ? { muster: ["queue", "move", job.entityId, ...flags] } : {};
}

export function PriorityDialog({ job, onClose }: { job: Job; onClose: (done: boolean) => void }) {
    const typed = useSignal(String(job.priority ?? 42));
    const priority = Number(typed.value);
    const isValid = Number.isInteger(priority) && priority >= 1 && priority <= 99;
    const action: Action = {
        name: `Set priority ${priority} for ${jobTitle(job)}`,
        doneText: `Set priority ${priority} for ${jobTitle(job)}`,
        call: {
            method: "POST",
            path: "/job-queues",
            body: { updates: [{ jobId: job.jobId, priority }] },
            ...musterMove(job, "--priority", priority),
        },
    };
    const submit = async () => {
        if (isValid && (await runAction(action))) onClose(true);
    };
    return (
        <Dialog
            title={`Priority of ${jobTitle(job)}`}
            onClose={() => onClose(false)}
            actions={
                <>
                    <CopyAs call={action.call!} />
                    <Button onClick={() => onClose(false)}>Cancel</Button>
                    <Button kind="main" disabled={!isValid} onClick={submit}>
                        Change
                    </Button>
                </>
            }
        >
            <Field
                label="Priority"
                help="1 to 99. Smaller numbers start first. The default is 42; only administrators may set less."
                error={isValid ? undefined : "Enter a whole number from 1 to 99"}
            >
                <TextInput bind={typed} type="number" autofocus onEnter={submit} />
            </Field>
        </Dialog>
    );
}
