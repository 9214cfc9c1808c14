// Into another project.

import { useSignal } from "@preact/signals";
import { type Call, perform } from "../../lib/api";
import { useLoad } from "../../lib/load";
import { toast, toastError } from "../../lib/notices";
import type { Experiment } from "../../lib/types";
import { projectOptions, readProjects } from "../../lib/projects";
import { Button, CopyAs, Dialog, Loaded, Select } from "../../parts";

export function Move({ experiment, onClose }: { experiment: Experiment; onClose: () => void }) {
    const projects = useLoad(readProjects);
    const to = useSignal(String(experiment.projectId));
    const chosen = projects.data.value?.find((project) => String(project.id) === to.value);
    const call: Call = {
        method: "POST",
        path: `/experiments/${experiment.id}/move`,
        body: { destinationProjectId: Number(to.value) },
        ...(chosen
            ? {
                  muster: [
                      ...["experiment", "move", experiment.id],
                      ...[chosen.workspaceName ?? "", chosen.name],
                  ],
              }
            : {}),
    };
    const move = async () => {
        try {
            await perform(call);
            toast(`Moved to ${chosen?.workspaceName} / ${chosen?.name}`, "good");
            onClose();
        } catch (error) {
            toastError(error);
        }
    };
    return (
        <Dialog
            title="Move to another project"
            onClose={onClose}
            actions={
                <>
                    <CopyAs call={call} />
                    <Button onClick={onClose}>Leave it</Button>
                    <Button
                        kind="main"
                        disabled={to.value === String(experiment.projectId)}
                        onClick={() => void move()}
                    >
                        Move
                    </Button>
                </>
            }
        >
            <Loaded of={projects}>
                {(all) => (
                    <Select
                        label="Project"
                        at={to}
                        options={projectOptions(all)}
                    />
                )}
            </Loaded>
        </Dialog>
    );
}
