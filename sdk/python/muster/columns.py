"""Reports as lines of JSON: many reports of one group become one line of columns.

Pure: no clock, no input, no output.
"""

from __future__ import annotations

import json
from typing import Any, Iterable, Optional

ROWS = 1000  # reports in a line
VALUE_BYTES = 26  # the longest number as text, with its comma
LINE_BYTES = 480 << 10  # of numbers in a line; the names may take as much
NAME_BYTES = 480 << 10  # of all names of one line, as JSON
NAMES_LIMIT = 10_000  # metrics in one line

Report = tuple  # (group, step, microseconds since 1970, {name: number})


def encode(value: Any) -> bytes:
    """One line of JSON with its newline."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def encode_numbers(numbers: list) -> str:
    """A list of numbers; those that JSON has no word for become strings, and None is null."""
    text = json.dumps(numbers, separators=(",", ":"))
    if "N" in text or "I" in text:  # no digit, sign, exponent or null has these letters
        text = (text.replace("-Infinity", '"-I"').replace("Infinity", '"Infinity"')
                .replace('"-I"', '"-Infinity"').replace("NaN", '"NaN"'))
    return text


class Block:
    """Reports of one group, in columns."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.steps: list[int] = []
        self.times: list[int] = []
        self.columns: dict[str, list] = {}
        self.name_bytes = 0

    def add(self, step: int, time: int, values: dict[str, float]) -> None:
        """Adds a row: one report, and its time in microseconds since 1970."""
        columns = self.columns
        if len(values) == len(columns):
            try:
                for name, value in values.items():
                    columns[name].append(value)
                self.steps.append(step)
                self.times.append(time)
                return
            except KeyError:
                pass
        self._add_with_gaps(step, time, values)

    def _add_with_gaps(self, step: int, time: int, values: dict[str, float]) -> None:
        rows = len(self.steps)
        for name in values:
            if name not in self.columns:
                self.columns[name] = [None] * rows
                self.name_bytes += names_bytes([name])
        for name, column in self.columns.items():
            del column[rows:]  # of a row whose names did not fit
            column.append(values.get(name))
        self.steps.append(step)
        self.times.append(time)

    def is_full(self, values: dict[str, float]) -> bool:
        """Whether a report with these values needs another line."""
        rows, columns = len(self.steps), self.columns
        if not rows:
            return False
        new = () if values.keys() <= columns.keys() else values.keys() - columns.keys()
        count = len(columns) + len(new)
        if rows >= ROWS or (rows + 1) * (count + 2) * VALUE_BYTES > LINE_BYTES:
            return True
        return bool(new) and (count > NAMES_LIMIT or
                              self.name_bytes + names_bytes(new) > NAME_BYTES)

    def line(self) -> bytes:
        """The block as one line of JSON."""
        columns = ",".join(f"{json.dumps(name)}:{encode_numbers(column)}"
                           for name, column in self.columns.items())
        return (f'{{"kind":"metrics","group":{json.dumps(self.group)},'
                f'"steps":{encode_numbers(self.steps)},"times":{encode_numbers(self.times)},'
                f'"metrics":{{{columns}}}}}\n').encode()


def names_bytes(names: Iterable[str]) -> int:
    """The room of these names in a line, each with one number. In JSON, a character outside ASCII
    takes 6 bytes or more."""
    return sum(len(json.dumps(name)) + VALUE_BYTES for name in names)


class Packer:
    """Collects reports and other lines in order. The order within a group stays; a line that is no
    report stays behind all reports before it."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.blocks: dict[str, Block] = {}
        self.last: Optional[Block] = None

    def add_report(self, report: Report) -> None:
        """Adds one report to the lines."""
        group, step, time, values = report
        block = self.last
        if block is None or block.group != group:
            block = self.blocks.get(group) or self.blocks.setdefault(group, Block(group))
        if block.is_full(values):
            self.lines.append(block.line())
            block = self.blocks[group] = Block(group)
        self.last = block
        block.add(step, time, values)

    def add_line(self, line: bytes) -> None:
        """Adds a line behind all reports before it."""
        self.end_blocks()
        self.lines.append(line)

    def end_blocks(self) -> None:
        """Turns the reports so far into lines."""
        self.lines += [block.line() for block in self.blocks.values()]
        self.blocks, self.last = {}, None

    def take(self) -> list[bytes]:
        """Returns all lines, and begins again without any."""
        self.end_blocks()
        lines, self.lines = self.lines, []
        return lines
