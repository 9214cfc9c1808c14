// Example experiments. Each runs without changes on one slot of any cluster. The training data is generated here.

import type { Upload } from "../../lib/upload/uploads";

export interface Example {
    id: string;
    title: string;
    description: string;
    config: string;
    files: () => Upload[];
}

const textFile = (path: string, content: string): Upload => ({ path, file: new File([content], path) });

const POINT_COUNT = 3000;

/** Pseudorandom numbers in [0, 1), the same for each seed. */
function randomNumbers(seed: number): () => number {
    let state = seed;
    return () => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return state / 2 ** 32;
    };
}

/** Points of two classes on intertwined spirals, which no straight line separates. */
export function spirals(points = POINT_COUNT): string {
    const random = randomNumbers(1);
    const noise = () => 0.7 * Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    const lines = ["x,y,spiral"];
    for (let i = 0; i < points; i++) {
        const spiral = random() < 0.5 ? 0 : 1;
        const turn = 3 * Math.PI * Math.sqrt(random());
        const angle = turn + Math.PI * spiral;
        const x = turn * Math.cos(angle) + noise();
        const y = turn * Math.sin(angle) + noise();
        lines.push(`${x.toFixed(4)},${y.toFixed(4)},${spiral}`);
    }
    return `${lines.join("\n")}\n`;
}

const data = () => [textFile("spirals.csv", spirals())];

const trainConfig = `# A small network learns to separate two spirals. The data is in spirals.csv.
name: spirals
resources: {slots_per_trial: 1}
searcher: {name: single, metric: validation_accuracy, smaller_is_better: false}
reproducibility: {experiment_seed: 1}
trainer:
  model: {family: mlp, hidden: [64, 64]}
  data: {format: csv, path: spirals.csv, label: spiral, standardize: true, validation_count: 500}
  global_batch_size: 128
  micro_batch_size: 32
  steps: 6000
  optimizer: {name: adamw, learning_rate: 0.003}
  validate_every: 200
  checkpoint_every: 1000
`;

const searchConfig = `# A search for a learning rate and a width: many short trainings, of which only the best continue.
name: search
resources: {slots_per_trial: 1}
searcher:
  name: adaptive_asha
  metric: validation_accuracy
  smaller_is_better: false
  max_trials: 12
  max_concurrent_trials: 2
  max_time: 1600                  # steps of a full training
reproducibility: {experiment_seed: 1}
hyperparameters:
  learning_rate: {type: log, base: 10, minval: -5, maxval: -1}   # 10^-5 to 10^-1
  width: {type: int, minval: 4, maxval: 256}
trainer:
  model: {family: mlp, hidden: ["\${width}", "\${width}"]}
  data: {format: csv, path: spirals.csv, label: spiral, standardize: true, validation_count: 500}
  global_batch_size: 128
  micro_batch_size: 32
  steps: 1600
  optimizer: {name: adamw, learning_rate: "\${learning_rate}"}
  validate_every: 100
`;

const scriptConfig = `# Any program can be an experiment. Its output becomes the log.
name: script
entrypoint: sh run.sh
launch: per_slot                  # one process per slot
resources: {slots_per_trial: 1}
searcher: {name: single, metric: none}
max_restarts: 0
`;

const runScript = `#!/bin/sh
# The rank is in the environment variables that torchrun sets.
echo "INFO: rank $RANK of $WORLD_SIZE: trial $DET_TRIAL_ID of experiment $DET_EXPERIMENT_ID"
for step in 1 2 3 4 5; do
    echo "INFO: step $step"
    sleep 1
done
`;

export const examples: readonly Example[] = [
    {
        id: "train",
        title: "Train a network",
        description: "With Muster's own trainer, in a few seconds",
        config: trainConfig,
        files: data,
    },
    {
        id: "search",
        title: "Search hyperparameters",
        description: "12 trials, of which the best continue",
        config: searchConfig,
        files: data,
    },
    {
        id: "script",
        title: "Run your own program",
        description: "A shell script or any other program",
        config: scriptConfig,
        files: () => [textFile("run.sh", runScript)],
    },
];
