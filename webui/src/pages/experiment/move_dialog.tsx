// The dialog that moves an experiment to another project.

import { useSignal } from "@preact/signals";
import { type Call, performCall } from "../../lib/api";
import { useLoad } from "../../lib/load";
import { projectTitle, projectOptions, readProjects } from "../../lib/projects";
import { FormDialog, Loaded, Select } from "../../parts";
import type { DialogProps } from "./actions";

export function MoveDialog({ experiment, onClose, reload }: DialogProps) {
    const projects = useLoad(readProjects);
    const projectId = useSignal(String(experiment.projectId));
    const chosen = projects.data.value?.find((project) => String(project.id) === projectId.value);
    const call: Call = {
        method: "POST",
        path: `/experiments/${experiment.id}/move`,
        body: { destinationProjectId: Number(projectId.value) },
        ...(chosen
            ? {
                  muster: [
                      ...["experiment", "move", experiment.id],
                      ...[chosen.workspaceName ?? "", chosen.name],
                  ],
              }
            : {}),
    };
    return (
        <FormDialog
            title="Move to another project"
            submitLabel="Move"
            doneText={`Moved to ${projectTitle({ ...chosen, projectName: chosen?.name })}`}
            call={call}
            submit={() => performCall(call).then(reload)}
            onClose={onClose}
        >
            <Loaded load={projects}>
                {(all) => <Select label="Project" bind={projectId} options={projectOptions(all)} />}
            </Loaded>
        </FormDialog>
    );
}
