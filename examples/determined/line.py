"""The model of these examples: a straight line through noisy points, fitted by gradient descent."""

import random


def points(seed, count=200):
    """Returns points near the line y = 3 x + 1."""
    noise = random.Random(seed)
    xs = [noise.uniform(-1, 1) for _ in range(count)]
    return [(x, 3 * x + 1 + noise.gauss(0, 0.1)) for x in xs]


class Line:
    def __init__(self, slope=0.0, intercept=0.0):
        self.slope, self.intercept = slope, intercept

    def error(self, x, y):
        return self.slope * x + self.intercept - y

    def loss(self, data):
        """The mean squared error."""
        return sum(self.error(x, y) ** 2 for x, y in data) / len(data)

    def gradient(self, data):
        """The derivatives of the loss by slope and intercept."""
        slope = sum(2 * self.error(x, y) * x for x, y in data) / len(data)
        intercept = sum(2 * self.error(x, y) for x, y in data) / len(data)
        return slope, intercept

    def move(self, gradient, rate):
        self.slope -= rate * gradient[0]
        self.intercept -= rate * gradient[1]
