// A checkpoint to take along: a button that downloads it, and the one of a run that is worth taking.

import { get } from "../lib/api";
import { bytes, metric, number } from "../lib/format";
import { useLoad } from "../lib/load";
import type { Checkpoint } from "../lib/types";
import { LinkButton } from "./button";

export const sizeOf = ({ resources }: Checkpoint) =>
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

interface Whose {
    experimentId: number;
    trialId?: number | undefined;
}

export const isRated = (one: Checkpoint) => typeof one.training.searcherMetric === "number";

/** The best that is kept by the searched metric, without one the newest: the first in the master's order. */
export function useBest({ experimentId, trialId }: Whose): Checkpoint | undefined {
    const path = trialId ? `/trials/${trialId}` : `/experiments/${experimentId}`;
    const query = { sortByAttr: "SORT_BY_SEARCHER_METRIC", states: "STATE_COMPLETED", limit: 1 };
    return useLoad(
        (abort) => get<{ checkpoints: Checkpoint[] }>(`${path}/checkpoints`, query, abort),
        { topics: ["checkpoints"], experimentId, every: 2 },
    ).data.value?.checkpoints[0];
}

/** A fact of a headline. */
export function BestCheckpoint(whose: Whose) {
    const best = useBest(whose);
    if (!best) return null;
    const { searcherMetric } = best.training;
    const rated = isRated(best);
    return (
        <div>
            <dt>{rated ? "Best checkpoint" : "Newest checkpoint"}</dt>
            <dd class="line">
                {rated && <span class="num">{metric(searcherMetric)}</span>}
                <span class="muted num">
                    step {number(best.stepsCompleted ?? 0)}, {bytes(sizeOf(best))}
                </span>
                <DownloadCheckpoint
                    checkpoint={best}
                    name={rated ? "the best checkpoint" : "the newest checkpoint"}
                />
            </dd>
        </div>
    );
}
