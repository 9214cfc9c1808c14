// The projects that an experiment can belong to.

import { get } from "./api";
import type { Project, Workspace } from "./types";

interface ProjectNames {
    workspaceName?: string | undefined;
    projectName?: string | undefined;
}

export async function readProjects(abort?: AbortSignal): Promise<Project[]> {
    const query = { limit: 200, archived: false };
    const { workspaces } = await get<{ workspaces: Workspace[] }>("/workspaces", query, abort);
    const lists = await Promise.all(
        workspaces.map(async ({ id, name }) => {
            const path = `/workspaces/${id}/projects`;
            const { projects } = await get<{ projects: Project[] }>(path, query, abort);
            return projects.map((project) => ({ ...project, workspaceName: name }));
        }),
    );
    return lists.flat();
}

/** "Vision / letters"; one name if project and workspace have the same name. */
export const projectTitle = ({ workspaceName = "", projectName = "" }: ProjectNames): string =>
    workspaceName === projectName ? projectName : `${workspaceName} / ${projectName}`;

export const projectOptions = (projects: readonly Project[]) =>
    projects.map(({ id, name, workspaceName }) => ({
        value: String(id),
        title: projectTitle({ workspaceName, projectName: name }),
    }));
