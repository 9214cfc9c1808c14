#!/usr/bin/python3
"""A second implementation of the searcher tpe, written from the paper (Bergstra et al., NIPS 2011).

    tests/bench/search/tpe_reference.py

Prints the points that a search must try on a given function, as rows of C for
tests/unit/master/test_search_papers.c. It shares no code with master/search; it repeats the
generator of random numbers (PCG-XSH-RR 64/32) and the order in which numbers are drawn.
"""

import math

SEED, TRIALS, CONCURRENT, STARTUP, CANDIDATES, GAMMA = 7, 40, 2, 6, 8, 0.2
WORD = (1 << 64) - 1


class Pcg:
    def __init__(self, seed, stream):
        self.state, self.inc = 0, stream << 1 | 1
        self.u32()
        self.state = self.state + seed & WORD
        self.u32()

    def u32(self):
        old = self.state
        self.state = (old * 6364136223846793005 + self.inc) & WORD
        shifted, turn = ((old >> 18 ^ old) >> 27) & 0xFFFFFFFF, old >> 59
        return (shifted >> turn | shifted << (-turn & 31)) & 0xFFFFFFFF

    def below(self, bound):
        while True:
            value = self.u32()
            if value >= (1 << 32) % bound:
                return value % bound

    def double(self):
        high, low = self.u32() >> 5, self.u32() >> 6
        return ((high << 26) + low) / 2.0**53


def cdf(z):
    return 0.5 * math.erfc(-z / math.sqrt(2))


class Categories:
    def __init__(self, low, high, values):
        count = high + 1
        self.p = [(1 + sum(v == c for v in values)) / (len(values) + count) for c in range(count)]

    def draw(self, rng):
        left = rng.double()
        for c, p in enumerate(self.p[:-1]):
            if left < p:
                return c
            left -= p
        return len(self.p) - 1

    def log(self, x):
        return math.log(self.p[int(x)])


class Mixture:
    """Truncated normal kernels at the values and a wide one in the middle of the range."""

    def __init__(self, low, high, values, whole=False):
        self.half = 0.5 if whole else 0
        self.low, self.high = low - self.half, high + self.half
        middle, span = (self.low + self.high) / 2, self.high - self.low
        kernels = sorted([(v, v >= middle) for v in values] + [(middle, False)], key=lambda k: k[0])
        # A value that equals the middle comes after the prior.
        centres = sorted(v for v in values if v < middle) + [middle] + sorted(v for v in values if v >= middle)
        prior = sum(v < middle for v in values)
        assert [k[0] for k in kernels] == centres
        self.kernels = []
        for i, c in enumerate(centres):
            gaps = [abs(c - centres[j]) for j in (i - 1, i + 1) if 0 <= j < len(centres)]
            width = min(max(max(gaps, default=0), span / min(100, len(centres))), span)
            if i == prior:
                width = span
            mass = cdf((self.high - c) / width) - cdf((self.low - c) / width)
            self.kernels.append((c, width, 1 / (mass * len(centres))))

    def draw(self, rng):
        centre, width, _ = self.kernels[rng.below(len(self.kernels))]
        while True:
            radius = math.sqrt(-2 * math.log(1 - rng.double()))
            x = centre + width * radius * math.cos(2 * math.pi * rng.double())
            if self.low <= x < self.high:
                return math.floor(x + 0.5) if self.half else x

    def log(self, x):
        total = 0.0
        for centre, width, weight in self.kernels:
            z, half = (x - centre) / width, 0.5 / width
            if self.half:
                total += weight * (cdf(z + half) - cdf(z - half))
            else:
                total += weight * math.exp(-z * z / 2) / (width * math.sqrt(2 * math.pi))
        return math.log(total)


def whole(low, high, values):
    return Mixture(low, high, values, whole=True)


SPACE = [(Mixture, -5, 10), (Mixture, -4, -1), (whole, 1, 8), (Categories, 0, 2)]


def prior(kind, low, high, rng):
    if kind is Mixture:
        return low + (high - low) * rng.double()
    return low + math.floor((high - low + 1) * rng.double())


def propose(ended, running, rng):
    if len(ended) < STARTUP:
        return [prior(kind, low, high, rng) for kind, low, high in SPACE]
    ranked = sorted(ended, key=lambda t: (t[1], t[0]))
    split = min(math.ceil(GAMMA * len(ended)), 25)
    good = [t[2] for t in ranked[:split]]
    bad = [t[2] for t in ranked[split:]] + [t[2] for t in running]
    point = []
    for i, (kind, low, high) in enumerate(SPACE):
        likely = kind(low, high, [p[i] for p in good])
        unlikely = kind(low, high, [p[i] for p in bad])
        drawn = [likely.draw(rng) for _ in range(CANDIDATES)]
        point.append(max(drawn, key=lambda x: likely.log(x) - unlikely.log(x)))
    return point


def loss(x, exponent, layers, act):
    return 0.1 * (x - 3) ** 2 + (exponent + 2.5) ** 2 + 0.2 * abs(layers - 5) + (0.5, 0.0, 1.0)[int(act)]


def main():
    rng = Pcg(SEED, 1)
    ended, running, number = [], [], 0
    while number < TRIALS or running:
        while number < TRIALS and len(running) < CONCURRENT:
            number += 1
            point = propose(ended, running, rng)
            rng.u32()  # the seed of the trial
            running.append((number, None, point))
            print("    {%.17g, %.17g, %d, %d}," % (point[0], 10.0 ** point[1], point[2], point[3]))
        trial, _, point = running.pop(0)
        ended.append((trial, loss(*point), point))


if __name__ == "__main__":
    main()
