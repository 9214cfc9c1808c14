// The relation of the hyperparameters to a metric: parallel coordinates, correlations, and a scatter plot of each.

import { useMemo } from "preact/hooks";
import { formatMetric, number } from "../../lib/format";
import { correlationRatio, flatten, spearman, varyingNames } from "../../lib/experiment/hyperparameters";
import { type MetricName, metricNames, metricSummary } from "../../lib/experiment/metrics";
import type { Trial } from "../../lib/types";
import { queryParam, text } from "../../lib/url";
import { Empty, Select } from "../../parts";
import { type Axis, axisOf, labelPositions, type Point } from "./axes";
import type { ExperimentData } from "./experiment_data";
import { ParallelCoordinates } from "./parallel_coordinates";

const chosenMetric = queryParam("by", text());
const valueKind = queryParam("value", text("best"));

const MIN_TRIALS = 3;

// --- scatter -------------------------------------------------------------------------------------

const SCATTER = { width: 300, height: 180, left: 46, foot: 24 };

function Scatter({ axis, yAxis, points }: { axis: Axis; yAxis: Axis; points: readonly Point[] }) {
    const { width, height, left, foot } = SCATTER;
    const x = (position: number) => left + position * (width - left - 30);
    const y = (position: number) => height - foot - position * (height - foot - 12);
    return (
        <figure class="card">
            <figcaption>
                <h3 class="ellipsis">
                    {axis.name}
                    {axis.isLog && <span class="muted"> (log)</span>}
                </h3>
            </figcaption>
            <svg
                class="scatter"
                viewBox={`0 0 ${width} ${height}`}
                role="group"
                aria-label={`${yAxis.name} over ${axis.name}, ${points.length} trials`}
            >
                <path
                    class="axis-line"
                    d={`M${left} 8V${height - foot}H${width - 8}`}
                    fill="none"
                />
                {[0, 1].map((position) => (
                    <text key={position} class="axis-text axis-end" x={left - 5} y={y(position) + 4}>
                        {yAxis.label(position)}
                    </text>
                ))}
                {labelPositions(axis).map((position) => (
                    <text key={position} class="axis-text axis-middle" x={x(position)} y={height - 8}>
                        {axis.label(position)}
                    </text>
                ))}
                {points.map((point) => (
                    <a
                        key={point.trialId}
                        href={`/trials/${point.trialId}`}
                        tabIndex={-1}
                        aria-label={`trial ${point.trialId}`}
                    >
                        <circle
                            class="scatter-dot"
                            cx={x(axis.position(point.values.get(axis.name)))}
                            cy={y(yAxis.position(point.y))}
                            r="4"
                        >
                            <title>{`trial ${point.trialId}: ${formatMetric(point.y)}`}</title>
                        </circle>
                    </a>
                ))}
            </svg>
        </figure>
    );
}

// --- correlation ---------------------------------------------------------------------------------

function Importance(props: {
    names: readonly string[];
    points: readonly Point[];
    metricName: string;
}) {
    const { names, points, metricName } = props;
    const y = points.map((point) => point.y);
    const found = names
        .map((name) => {
            const values = points.map((point) => point.values.get(name));
            const isNumber = values.every((value) => typeof value === "number");
            const size = isNumber
                ? spearman(values as number[], y)
                : correlationRatio(values.map(String), y);
            return { name, size, isNumber };
        })
        .sort((a, b) => Math.abs(b.size) - Math.abs(a.size));
    return (
        <section class="card stack">
            <h3>Correlation with {metricName}</h3>
            <p class="muted">
                Rank correlation (Spearman) of each hyperparameter over {number(points.length)} trials. For words it is the
                correlation ratio of ranks, which has no sign. Correlation is not causation: trials that were stopped
                early trained for fewer steps.
            </p>
            <table class="importance">
                <thead>
                    <tr>
                        <th scope="col">Hyperparameter</th>
                        <th scope="col">Strength</th>
                        <th scope="col">Meaning</th>
                    </tr>
                </thead>
                <tbody>
                    {found.map(({ name, size, isNumber }) => (
                        <tr key={name}>
                            <th scope="row" class="mono">
                                {name}
                            </th>
                            <td>
                                <span class="line">
                                    <meter
                                        value={Math.abs(size)}
                                        max={1}
                                        aria-label={`Strength of ${name}`}
                                    />
                                    <span class="num">{size.toFixed(2)}</span>
                                </span>
                            </td>
                            <td class="muted">
                                {Math.abs(size) < 0.2
                                    ? "almost none"
                                    : !isNumber
                                      ? "depends on the value"
                                      : size > 0
                                        ? "a larger value goes with a larger metric"
                                        : "a larger value goes with a smaller metric"}
                            </td>
                        </tr>
                    ))}
                </tbody>
            </table>
        </section>
    );
}

// --- the tab -------------------------------------------------------------------------------------

const keyOf = ({ group, name }: MetricName) => `${group}.${name}`;

/** The metrics to choose from, and the chosen one; by default the metric of the searcher. */
function useMetric({ experiment, trials }: ExperimentData) {
    const metrics = metricNames(trials).filter(({ group }) => group === "validation" || group === "training");
    const own = metrics.find(({ group, name }) => group === "validation" && name === experiment.searcherMetric);
    const current = metrics.find((one) => keyOf(one) === chosenMetric.value) ?? own ?? metrics[0];
    const searcher = experiment.config?.["searcher"] as { smaller_is_better?: boolean } | undefined;
    const isSmallerBetter =
        current === own
            ? searcher?.smaller_is_better !== false
            : !/accuracy|score|f1|auc|reward/.test(current?.name ?? "");
    return { metrics, current, isSmallerBetter };
}

/** The trials that have a value, and the names of the hyperparameters that vary. */
function usePoints(trials: readonly Trial[], current: MetricName | undefined, isSmallerBetter: boolean) {
    return useMemo(() => {
        const field = valueKind.value === "last" ? "last" : isSmallerBetter ? "min" : "max";
        const hparams = trials.map((trial) => flatten(trial.hparams));
        const points = trials.flatMap((trial, i): Point[] => {
            const y = current && metricSummary(trial, current)?.[field];
            return typeof y === "number" ? [{ trialId: trial.id, values: hparams[i]!, y }] : [];
        });
        return { points, names: varyingNames(hparams) };
    }, [trials, current && keyOf(current), valueKind.value, isSmallerBetter]);
}

function TooLittleData({ varies }: { varies: boolean }) {
    return (
        <Empty title={varies ? "Too few trials yet" : "No hyperparameter varies"} icon="compare">
            <p>
                {varies
                    ? `This view needs at least ${MIN_TRIALS} trials with a metric.`
                    : "All trials have the same hyperparameters. To try several values, fork the experiment with a searcher such as random or adaptive_asha."}
            </p>
        </Empty>
    );
}

export function Hyperparameters({ experiment, trials }: ExperimentData) {
    const { metrics, current, isSmallerBetter } = useMetric({ experiment, trials });
    const { points, names } = usePoints(trials, current, isSmallerBetter);
    if (!names.length || points.length < MIN_TRIALS || !current) return <TooLittleData varies={names.length > 0} />;
    const complete = points.filter((point) => names.every((name) => point.values.has(name)));
    const axes = names.map((name) => axisOf(name, complete.map((point) => point.values.get(name)!)));
    const yAxis = axisOf(current.name, complete.map((point) => point.y));
    const metricChoice = {
        get value() {
            return keyOf(current);
        },
        set value(key: string) {
            chosenMetric.value = key;
        },
    };
    return (
        <div class="stack">
            <div class="line">
                <Select label="Metric" bind={metricChoice} options={metrics.map(keyOf)} />
                <Select
                    label="Value"
                    bind={valueKind}
                    options={[
                        { value: "best", title: `best (${isSmallerBetter ? "smallest" : "largest"})` },
                        { value: "last", title: "last" },
                    ]}
                />
                {trials.length < experiment.numTrials && (
                    <span class="muted">
                        The best {number(trials.length)} of {number(experiment.numTrials)} trials
                    </span>
                )}
            </div>
            <ParallelCoordinates axes={[...axes, yAxis]} points={complete} isSmallerBetter={isSmallerBetter} />
            <Importance names={names} points={complete} metricName={current.name} />
            <div class="grid scatters">
                {axes.map((axis) => (
                    <Scatter key={axis.name} axis={axis} yAxis={yAxis} points={complete} />
                ))}
            </div>
        </div>
    );
}
