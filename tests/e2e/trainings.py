"""Small trainings of every model family, whose digests must not depend on the machines and ranks.
"""

import pathlib
import random
import struct

CLASSES, SIDE = 10, 16

# A selection in which each common setting occurs once: (model, data, loop) in the words of the
# experiment file.
IMAGES = "{format: idx, images: images.idx, labels: labels.idx, validation_count: 40}"
AUGMENTED = IMAGES.replace("40}", "40, augment: {flip: true, crop: 2, cutout: 4}}")
TEXT = "{format: bytes, path: text.txt, validation_fraction: 0.02}"
CONV_NET = """{layers: [
    {layer: conv2d, out: 8, kernel: 3, padding: 1, bias: false}, {layer: batch_norm}, {layer: silu},
    {layer: residual, layers: [{layer: conv2d, out: 8, kernel: 3, padding: 1, groups: 8}, {layer: gelu}]},
    {layer: max_pool, kernel: 3, stride: 2, padding: 1}, {layer: dropout, rate: 0.2}, {layer: flatten},
    {layer: linear, out: 32}, {layer: rms_norm}, {layer: tanh}, {layer: linear, out: 10}], classes: 10}"""
TRAININGS = {
    "mlp": ("{family: mlp, hidden: [48, 32], dropout: 0.2}", IMAGES, "{name: adamw, learning_rate: 0.01}"),
    "lenet": ("{family: lenet}", AUGMENTED, "{name: momentum, learning_rate: 0.02}"),
    "layers": (CONV_NET, IMAGES, "{name: lamb, learning_rate: 0.01}"),
    "resnet": ("{family: resnet, depth: 20}", AUGMENTED, "{name: lars, learning_rate: 0.5}"),
    "resnet_sync": ("{family: resnet, depth: 20, sync: true}", IMAGES,
                    "{name: momentum, learning_rate: 0.05, nesterov: true}"),
    "gpt": ("{family: gpt, layers: 2, heads: 2, width: 32, context: 24, dropout: 0.1}", TEXT,
            "{name: adamw, learning_rate: 0.003}"),
}
STEPS = 6

CONFIG = """\
name: {name}
resources: {{slots_per_trial: {slots}}}
searcher: {{name: single, metric: validation_loss}}
reproducibility: {{experiment_seed: 11}}
max_restarts: 0
trainer:
  model: {model}
  data: {data}
  global_batch_size: {batch}
  micro_batch_size: 2
  steps: {steps}
  optimizer: {optimizer}
  clip_norm: 1.0
  checkpoint_every: {every}
  report_every: 1
"""


def write_images(folder=pathlib.Path("."), count=600):
    """Writes images.idx and labels.idx with random pixels and labels."""
    noise = random.Random(3)
    (folder / "images.idx").write_bytes(
        struct.pack(">IIII", 0x803, count, SIDE, SIDE) + noise.randbytes(count * SIDE * SIDE))
    (folder / "labels.idx").write_bytes(
        struct.pack(">II", 0x801, count) + bytes(noise.randrange(CLASSES) for _ in range(count)))


def config(name, micro_batches, steps=STEPS, every=STEPS, slots=1):
    """Returns the experiment file of one of TRAININGS; a step has `micro_batches` micro-batches of
    two samples."""
    model, data, optimizer = TRAININGS[name]
    return CONFIG.format(name=name, model=model, data=data, optimizer=optimizer, steps=steps, every=every,
                         batch=2 * micro_batches, slots=slots)
