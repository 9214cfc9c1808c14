"""Writes a data set of two spirals that wind around each other, so that no straight line separates the two classes.

    python3 examples/spirals.py > FOLDER/spirals.csv
"""

import math
import random

noise = random.Random(1)
print("x,y,spiral")
for _ in range(3000):
    spiral, turn = noise.randrange(2), 3 * math.pi * math.sqrt(noise.random())
    angle = turn + math.pi * spiral
    x, y = (turn * wave(angle) + noise.gauss(0, 0.3) for wave in (math.cos, math.sin))
    print(f"{x:.4f},{y:.4f},{spiral}")
