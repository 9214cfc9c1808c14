"""A training that knows nothing about the cluster: its output becomes the log of the trial.

It does not listen for preemption, so a pause ends it with SIGTERM, and it starts again from the beginning.
"""

import time

from line import Line, points

STEPS = 50

data, line = points(seed=1), Line()
for step in range(1, STEPS + 1):
    line.move(line.gradient(data), rate=0.2)
    time.sleep(0.1)  # stands for the work of a larger model
    if step % 10 == 0:
        print(f"step {step}: loss {line.loss(data):.4f}")
print(f"y = {line.slope:.2f} x + {line.intercept:.2f}")
