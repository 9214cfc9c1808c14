"""Packages of the build under test, made once for each test program in its own folder."""

import os
import pathlib
import re
import subprocess

BUILD = pathlib.Path(os.environ["MUSTER_BUILD"])
SOURCE = pathlib.Path(os.environ["MUSTER_SOURCE"])
# On spirals.csv, which examples/spirals.py prints.
TRAINING = """\
name: spirals
resources: {slots_per_trial: 2}
searcher: {name: single, metric: validation_loss}
trainer:
  model: {family: mlp, hidden: [8]}
  data: {format: csv, path: spirals.csv, label: spiral, standardize: true, validation_count: 500}
  global_batch_size: 64
  micro_batch_size: 32
  steps: 200
  optimizer: {name: adamw, learning_rate: 0.001}
  checkpoint_every: 100
"""


def build(folder, only, version="0.1.0"):
    """Packs the programs of the build folder; `only` is deb or tarball. Returns the folder."""
    folder = pathlib.Path(folder).resolve()
    subprocess.run([SOURCE / "packaging/build-packages", "--built", BUILD, "--to", folder, "--only", only,
                    "--version", version],
                   check=True, stdout=subprocess.DEVNULL, env={**os.environ, "XZ_OPT": "-0"})
    return folder


def commands_of(heading):
    """The blocks of commands in a section of docs/installation.md, as a list of scripts."""
    text = (SOURCE / "docs/installation.md").read_text()
    section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    return re.findall(r"^```sh\n(.*?)^```$", section.group(1), re.M | re.S)
