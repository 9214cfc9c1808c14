// Into another project.

import { useSignal } from "@preact/signals";
import { type Call, get, perform } from "../../lib/api";
import { useLoad } from "../../lib/load";
import { toast, toastError } from "../../lib/notices";
import type { Experiment, Project, Workspace } from "../../lib/types";
import { Button, CopyAs, Dialog, Loaded, Select } from "../../parts";

async function readProjects(abort: AbortSignal): Promise<Project[]> {
    const { workspaces } = await get<{ workspaces: Workspace[] }>(
        "/workspaces",
        { limit: 200, archived: false },
        abort,
    );
    const lists = await Promise.all(
        workspaces.map(async ({ id, name }) => {
            const path = `/workspaces/${id}/projects`;
            const query = { limit: 200, archived: false };
            const { projects } = await get<{ projects: Project[] }>(path, query, abort);
            return projects.map((project) => ({ ...project, workspaceName: name }));
        }),
    );
    return lists.flat();
}

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
                        options={all.map((project) => ({
                            value: String(project.id),
                            title: `${project.workspaceName} / ${project.name}`,
                        }))}
                    />
                )}
            </Loaded>
        </Dialog>
    );
}
