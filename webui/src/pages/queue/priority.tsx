// Asks for another priority of a job.

import { useSignal } from "@preact/signals";
import { type Action, act } from "../../lib/actions";
import { jobTitle } from "../../lib/cluster";
import type { Job } from "../../lib/types";
import { Button, CopyAs, Dialog, Field, TextInput } from "../../parts";

export function musterMove(job: Job, ...flags: (string | number)[]) {
    const isExperiment = job.type === "TYPE_EXPERIMENT";
    return isExperiment ? { muster: ["queue", "move", job.entityId, ...flags] } : {};
}

export function PriorityDialog({ job, onClose }: { job: Job; onClose: (done: boolean) => void }) {
    const given = useSignal(String(job.priority ?? 42));
    const priority = Number(given.value);
    const isGood = Number.isInteger(priority) && priority >= 1 && priority <= 99;
    const action: Action = {
        name: `Priority ${priority} for ${jobTitle(job)}`,
        done: `${jobTitle(job)} has priority ${priority}`,
        call: {
            method: "POST",
            path: "/job-queues",
            body: { updates: [{ jobId: job.jobId, priority }] },
            ...musterMove(job, "--priority", priority),
        },
    };
    const submit = async () => {
        if (isGood && (await act(action))) onClose(true);
    };
    return (
        <Dialog
            title={`Priority of ${jobTitle(job)}`}
            onClose={() => onClose(false)}
            actions={
                <>
                    <CopyAs call={action.call!} />
                    <Button onClick={() => onClose(false)}>Leave it</Button>
                    <Button kind="main" disabled={!isGood} onClick={submit}>
                        Change
                    </Button>
                </>
            }
        >
            <Field
                label="Priority"
                help="1 to 99, the smaller the sooner; 42 where nobody said. Below that: administrators."
                error={isGood ? undefined : "A whole number from 1 to 99"}
            >
                <TextInput at={given} type="number" autofocus onEnter={submit} />
            </Field>
        </Dialog>
    );
}
