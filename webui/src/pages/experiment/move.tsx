// Into another project.

import { useSignal } from "@preact/signals";
import { type Call, perform } from "../../lib/api";
import { useLoad } from "../../lib/load";
import { placeOf, projectOptions, readProjects } from "../../lib/projects";
import { FormDialog, Loaded, Select } from "../../parts";
import type { DialogProps } from "./actions";

export function Move({ experiment, onClose, reload }: DialogProps) {
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
    return (
        <FormDialog
            title="Move to another project"
            verb="Move"
            done={`Moved to ${placeOf({ ...chosen, projectName: chosen?.name })}`}
            call={call}
            submit={() => perform(call).then(reload)}
            onClose={onClose}
        >
            <Loaded of={projects}>
                {(all) => <Select label="Project" at={to} options={projectOptions(all)} />}
            </Loaded>
        </FormDialog>
    );
}
