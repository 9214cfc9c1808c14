"""Draws pictures of digits in the manner of a seven-segment display, with noise, at random places.

    python3 digits.py COUNT SEED FILE       # each record: the digit, then SIDE * SIDE shades of gray, one byte each
"""

import random
import sys

SIDE = 16
# top, upper left, upper right, middle, lower left, lower right, bottom
SEGMENTS = ("1110111", "0010010", "1011101", "1011011", "0111010", "1101011", "1101111", "1010010", "1111111", "1111011")
PLACES = [[(0, x) for x in range(6)], [(y, 0) for y in range(5)], [(y, 5) for y in range(5)], [(4, x) for x in range(6)],
          [(y, 0) for y in range(4, 9)], [(y, 5) for y in range(4, 9)], [(8, x) for x in range(6)]]


def draw(chance):
    digit, top, left = chance.randrange(10), chance.randint(2, 5), chance.randint(2, 5)
    picture = bytearray(chance.randrange(50) for _ in range(SIDE * SIDE))
    for lit, places in zip(SEGMENTS[digit], PLACES):
        for y, x in places if lit == "1" else ():
            picture[(top + y) * SIDE + left + x] = chance.randint(200, 255)
    return bytes([digit]) + picture


if __name__ == "__main__":
    count, seed, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    chance = random.Random(seed)
    with open(path, "wb") as file:
        file.writelines(draw(chance) for _ in range(count))
