// The best checkpoint of an experiment or a trial, and the button that downloads a checkpoint.

import { get } from "../../lib/api";
import { bytes, formatMetric, number } from "../../lib/format";
import { useLoad } from "../../lib/load";
import type { Checkpoint } from "../../lib/types";
import { LinkButton } from "../basic/button";

export const checkpointSize = ({ resources }: Checkpoint) =>
    Object.values(resources).reduce((sum, size) => sum + Number(size), 0);

export function DownloadCheckpoint({ checkpoint, name }: { checkpoint: Checkpoint; name?: string }) {
    const { uuid } = checkpoint;
    return (
        <LinkButton
            icon="download"
            href={`/checkpoints/${uuid}`}
            download={`${uuid}.tar.gz`}
            label={`Download ${name ?? `checkpoint ${uuid.slice(0, 8)}`}`}
        >
            Download
        </LinkButton>
    );
}

interface CheckpointOwner {
    experimentId: number;
    trialId?: number | undefined;
}

export const hasMetric = (one: Checkpoint) => typeof one.training.searcherMetric === "number";

/** The best kept checkpoint by the searcher's metric. Without a metric it is the newest one. */
export function useBestCheckpoint({ experimentId, trialId }: CheckpointOwner): Checkpoint | undefined {
    const path = trialId ? `/trials/${trialId}` : `/experiments/${experimentId}`;
    const query = { sortByAttr: "SORT_BY_SEARCHER_METRIC", states: "STATE_COMPLETED", limit: 1 };
    return useLoad(
        (abort) => get<{ checkpoints: Checkpoint[] }>(`${path}/checkpoints`, query, abort),
        { topics: ["checkpoints"], experimentId, minIntervalS: 2 },
    ).data.value?.checkpoints[0];
}

/** An entry in the facts of a headline. */
export function BestCheckpoint(owner: CheckpointOwner) {
    const best = useBestCheckpoint(owner);
    if (!best) return null;
    const { searcherMetric } = best.training;
    const rated = hasMetric(best);
    return (
        <div>
            <dt>{rated ? "Best checkpoint" : "Newest checkpoint"}</dt>
            <dd class="line">
                {rated && <span class="num">{formatMetric(searcherMetric)}</span>}
                <span class="muted num">
                    step {number(best.stepsCompleted ?? 0)}, {bytes(checkpointSize(best))}
                </span>
                <DownloadCheckpoint
                    checkpoint={best}
                    name={rated ? "the best checkpoint" : "the newest checkpoint"}
                />
            </dd>
        </div>
    );
}
