"""Checks of values that a program hands over. Each exception names the call and the remedy."""

from __future__ import annotations

import json
from typing import Any, Mapping

from muster.columns import NAME_BYTES, NAMES_LIMIT, names_bytes
from muster.errors import ReportError

LARGEST = 2**63 - 1
LAST_STEP = 2**53  # as in docs/wire.md: every JSON reader keeps the number
NAME_LIMIT = 1024  # bytes of the name of a metric
GROUP_LIMIT = 255  # bytes of the name of a group
DEPTH = 50  # lists and dictionaries around a value
METADATA_DEPTH = 10  # of run.metadata(); this and the next four are the master's limits
METADATA_VALUES = 1000
METADATA_KEY = 50  # bytes
METADATA_TEXT = 5000  # bytes
METADATA_LIST = 100  # elements
EXACT = 2**53  # the integers up to here are numbers of 64 bits without loss


class Hyperparameters(dict):
    """A dictionary that tells what to do about a name that is not there."""

    def __missing__(self, name: Any) -> Any:
        raise KeyError(f"no hyperparameter {name!r}: set it under hyperparameters in the "
                       f"experiment's file; for a start without a cluster, pass "
                       f"hparams={{{name!r}: ...}} to muster.init()")


def check_step(call: str, step: Any) -> int:
    """A step is a whole number; integers of other libraries are taken, too."""
    if type(step) is not int:
        if isinstance(step, bool) or not hasattr(step, "__index__"):
            raise ReportError(f"{call}: step {step!r} is {kind_of(step)}, not a whole number")
        step = step.__index__()
    if not 0 <= step <= LAST_STEP:
        raise ReportError(f"{call}: step {step} is not in the range 0 to 2^53; count the steps "
                          "that are complete")
    return step


def kind_of(value: Any) -> str:
    """The type of a value in the words of an error."""
    return f"of type {type(value).__name__}"


def number(call: str, name: str, value: Any) -> float:
    """A number of Python, or a number or an array of one element of another library."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return int(value) if -EXACT < value < EXACT else whole_to_float(call, name, value)
    if isinstance(value, float):
        return float(value)
    size = getattr(value, "numel", None)
    count = size() if callable(size) else getattr(value, "size", 1)
    if count != 1:
        raise ReportError(f"{call}: metric {name!r} has {count} elements; report one number for "
                          f"each name, for example {name}=values.mean()")
    try:
        if hasattr(value, "detach"):
            value = value.detach()
        if hasattr(value, "item"):
            value = value.item()
        if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise ReportError(f"{call}: metric {name!r} is {kind_of(value)}, not a number; report "
                          "numbers only, and texts with run.text() or run.metadata()") from None


def whole_to_float(call: str, name: str, value: int) -> float:
    """The nearest number of 64 bits."""
    try:
        return float(value)
    except OverflowError:
        raise ReportError(f"{call}: metric {name!r} is an integer beyond the range of numbers of "
                          "64 bits; report its logarithm") from None


def check_name(call: str, what: str, name: Any, limit: int) -> str:
    """The name of a metric or group (`what`), of 1 to `limit` bytes."""
    if not isinstance(name, str) or not name:
        raise ReportError(f"{call}: the name {name!r} of a {what} is {kind_of(name)}, not a text "
                          f"of 1 to {limit} bytes")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise ReportError(f"{call}: the name {name!r} of a {what} is not valid Unicode") from None
    if size > limit or "\0" in name or name[0] < " ":
        raise ReportError(f"{call}: the name of a {what} has at most {limit} bytes, no NUL, and "
                          f"begins with no control character; this one has {size} bytes: "
                          f"{name[:60]!r}")
    return name


def check_metrics(call: str, metrics: Any) -> dict[str, float]:
    """The metrics of a report as numbers."""
    if not isinstance(metrics, Mapping):
        raise ReportError(f"{call}: metrics are {kind_of(metrics)}; pass name=number, or a "
                          "dictionary of names and numbers")
    if not metrics:
        raise ReportError(f"{call}: no metrics; pass at least one, such as loss=0.5")
    if len(metrics) > NAMES_LIMIT:
        raise ReportError(f"{call}: {len(metrics)} metrics; a report has at most {NAMES_LIMIT}")
    values = {}
    for name, value in metrics.items():
        check_name(call, "metric", name, NAME_LIMIT)
        values[name] = number(call, name, value)
    if names_bytes(values) > NAME_BYTES:
        raise ReportError(f"{call}: the names of the metrics have more than {NAME_BYTES} bytes "
                          "together; use several groups")
    return values


def check_object(call: str, value: Any, stored: bool = False) -> Any:
    """A copy of a value that JSON holds. In what the cluster stores, NaN and the infinities become
    texts, because JSON has no word for them."""
    fault = find_fault(value, "value", stored)
    if fault:
        raise ReportError(f"{call}: {fault}")
    text = json.dumps(value)
    return json.loads(text, parse_constant=str) if stored else json.loads(text)


def check_metadata(call: str, facts: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """The metadata of the run with these facts added to the known ones."""
    merged = merge_objects(known, facts)
    fault, count = metadata_fault(merged, "metadata", 0)
    if not fault and count > METADATA_VALUES:
        fault = (f"{count} values in all; at most {METADATA_VALUES} fit, so write them to a file "
                 "of a checkpoint, or report them as metrics or a table")
    if fault:
        raise ReportError(f"{call}: {fault}")
    return merged


def merge_objects(before: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Both objects as one; objects of the same name are merged, other values replaced."""
    merged = dict(before)
    for name, value in more.items():
        old = merged.get(name)
        both = isinstance(old, dict) and isinstance(value, dict)
        merged[name] = merge_objects(old, value) if both else value
    return merged


def metadata_fault(value: Any, place: str, depth: int) -> tuple[str, int]:
    """Says which part the master would refuse; the second value counts the values. The limits are
    Determined's (LIMIT_METADATA_* in base/limits.h)."""
    if depth > METADATA_DEPTH:
        return f"{place} is nested more than {METADATA_DEPTH} levels deep; use fewer levels", 0
    if isinstance(value, str) and len(value.encode()) > METADATA_TEXT:
        return (f"{place} is a text of more than {METADATA_TEXT} bytes; shorten it, or store it "
                "with run.text()"), 0
    if isinstance(value, list) and len(value) > METADATA_LIST:
        return (f"{place} is a list of more than {METADATA_LIST} elements; shorten it, or store "
                "it with run.table()"), 0
    if not isinstance(value, (dict, list)) or not value:
        return "", 1
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    count = 0
    for key, item in parts:
        if isinstance(key, str) and (len(key.encode()) > METADATA_KEY or set(key) & set("$.[]")):
            return (f"the key {key!r} of {place}: a key has at most {METADATA_KEY} bytes and none "
                    "of $ . [ ]; use another name"), 0
        fault, values = metadata_fault(item, f"{place}[{key!r}]", depth + 1)
        if fault:
            return fault, 0
        count += values
    return "", count


def find_fault(value: Any, place: str, stored: bool, depth: int = 0) -> str:
    """Says which part of a value cannot be sent; empty: all can."""
    if isinstance(value, str):
        return text_fault(value, place) if stored else ""
    if isinstance(value, int) and stored and not -LARGEST <= value <= LARGEST:
        return f"{place} is an integer of more than 64 bits; use str(value)"
    if value is None or isinstance(value, (bool, int, float)):
        return ""
    if depth == DEPTH:
        return f"{place} lies more than {DEPTH} lists and dictionaries deep; use fewer levels"
    if isinstance(value, (list, tuple)):
        faults = (find_fault(item, f"{place}[{index}]", stored, depth + 1)
                  for index, item in enumerate(value))
        return next((fault for fault in faults if fault), "")
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                return f"{place} has the key {key!r}; keys are texts"
            fault = text_fault(key, f"a key of {place}") if stored else ""
            fault = fault or find_fault(item, f"{place}[{key!r}]", stored, depth + 1)
            if fault:
                return fault
        return ""
    return (f"{place} is {kind_of(value)}; numbers, texts, lists and dictionaries can be sent, so "
            "use value.tolist() for an array")


def text_fault(text: str, place: str) -> str:
    """Says why the cluster cannot store a text; empty: it can."""
    if "\0" in text:
        return f"{place} has a NUL character; remove it"
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"{place} is no valid Unicode; use text.encode(errors='replace').decode()"
    return ""
