"""Images, histograms, tables and texts as bytes.

Each function takes a value of a program and returns its bytes and their format. Nothing here talks
to a cluster or remembers anything. Arrays of numpy and torch are recognised by their methods, so
neither package is needed. A value that cannot be stored raises a MediaError that names the place
and the remedy.
"""

from __future__ import annotations

import hashlib
import json
import math
import pathlib
import struct
import sys
import zlib
from typing import Any, Mapping, NamedTuple, Sequence, Union

from muster.files import write_whole

__all__ = [
    "Media", "MediaError", "check_name", "folder_of", "histogram", "image", "store", "table", "text"
]

MAX_BYTES = 16 << 20  # of one item, as in the master
MAX_NAME = 256  # bytes
MAX_PIXELS = 64 << 20  # bytes of an image before it is compressed
MAX_BINS = 1024
MAX_COLUMNS = 1000
MAX_ROWS = 100_000
PNG_MAGIC = b"\x89PNG\r\n\x1a\n"


class MediaError(ValueError):
    """A value that cannot be stored as an image, histogram, table or text."""


class Media(NamedTuple):
    """The bytes of one value: `type` and `format` as in docs/wire.md."""

    type: str
    format: str
    content: bytes


def check_name(name: str) -> str:
    """Returns the name, or raises a MediaError that says why the master would refuse it."""
    if not isinstance(name, str):
        raise MediaError(f"name: a {type(name).__name__}; use a text such as 'samples/train'")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise MediaError(f"name {name!r}: it cannot be written as UTF-8; use other characters")
    if not 1 <= size <= MAX_NAME:
        raise MediaError(f"name: {size} bytes; use 1 to {MAX_NAME}")
    if any(ord(c) < 32 or ord(c) == 127 for c in name):
        raise MediaError(f"name {name!r}: a control character; use printable ones")
    return name


def _limited(kind: str, form: str, content: bytes, remedy: str) -> Media:
    if len(content) > MAX_BYTES:
        raise MediaError(f"{kind}: {len(content)} bytes, at most {MAX_BYTES} fit; {remedy}")
    return Media(kind, form, content)


# --- arrays --------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """A tensor as a numpy array if numpy is there, else as nested lists; other values unchanged."""
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        value = value.detach().cpu()
        if value.is_floating_point() and value.element_size() < 4:
            value = value.float()  # numpy has no bfloat16
        try:
            return value.numpy()
        except (RuntimeError, ImportError):
            return value.tolist()
    return value


def _is_array(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("shape", "dtype", "tobytes", "astype"))


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple, range))


def _shape(value: Any) -> tuple[int, ...]:
    if _is_array(value):
        return tuple(int(n) for n in value.shape)
    shape = []
    while _is_list(value):
        shape.append(len(value))
        if not len(value):
            break
        value = value[0]
    return tuple(shape)


# --- images --------------------------------------------------------------------------------------


def _chunk(name: bytes, data: bytes) -> bytes:
    check = zlib.crc32(name + data)
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", check)


def _encode_png(width: int, height: int, channels: int, pixels: bytes) -> bytes:
    """PNG (ISO/IEC 15948) with eight bits per sample and filter 0 in each row."""
    color = {1: 0, 3: 2, 4: 6}[channels]
    line = width * channels
    rows = b"".join(b"\0" + pixels[y * line : (y + 1) * line] for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, color, 0, 0, 0)
    return (
        PNG_MAGIC
        + _chunk(b"IHDR", header)
        + _chunk(b"IDAT", zlib.compress(rows, 6))
        + _chunk(b"IEND", b"")
    )


def _sample(value: Any, place: str) -> int:
    """One sample of a nested list as 0 to 255."""
    if isinstance(value, bool):
        return 255 if value else 0
    if isinstance(value, int):
        if not 0 <= value <= 255:
            raise MediaError(f"image: {value} at {place}; integers must be from 0 to 255")
        return value
    if isinstance(value, float):
        if not -1e-3 <= value <= 1 + 1e-3:  # NaN fails, too
            raise MediaError(
                f"image: {value} at {place}; floats must be from 0 to 1: divide by the largest "
                f"value, or convert the array to 8-bit integers"
            )
        return min(max(int(value * 255 + 0.5), 0), 255)
    raise MediaError(f"image: a {type(value).__name__} at {place}; use numbers")


def _pixels_of_lists(rows: Any, shape: tuple[int, ...]) -> bytes:
    out = bytearray()
    for y, row in enumerate(rows):
        if not _is_list(row) or len(row) != shape[1]:
            raise MediaError(f"image: row {y} has not {shape[1]} pixels as row 0; make rows equal")
        for x, pixel in enumerate(row):
            samples = pixel if len(shape) == 3 else [pixel]
            if not _is_list(samples) or (len(shape) == 3 and len(samples) != shape[2]):
                raise MediaError(f"image: row {y}, column {x} has not {shape[2]} channels")
            for sample in samples:
                out.append(_sample(sample, f"row {y}, column {x}"))
    return bytes(out)


def _pixels_of_array(array: Any) -> bytes:
    kind = array.dtype.kind
    if kind == "b":
        return bytes((array.astype("uint8") * 255).tobytes())
    if kind not in "iuf":
        raise MediaError(f"image: values of type {array.dtype}; use 8-bit integers or floats")
    low, high = float(array.min()), float(array.max())
    if kind in "iu":
        if low < 0 or high > 255:
            raise MediaError(f"image: integers from {low:g} to {high:g}; use 0 to 255")
        return bytes(array.astype("uint8").tobytes())
    if not (low >= -1e-3 and high <= 1 + 1e-3):
        raise MediaError(
            f"image: floats from {low:g} to {high:g}; they must be from 0 to 1 and finite: divide "
            f"by the largest value, or convert the array to 8-bit integers"
        )
    return bytes((array.astype("float64").clip(0, 1) * 255 + 0.5).astype("uint8").tobytes())


def _channels_last(value: Any, shape: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    """(channels, height, width), the order of torch, as (height, width, channels)."""
    if len(shape) != 3 or shape[2] in (1, 3, 4) or shape[0] not in (1, 3, 4):
        return value, shape
    if _is_array(value):
        value = value.transpose(1, 2, 0)
    else:
        value = [[list(pixel) for pixel in zip(*lines)] for lines in zip(*value)]
    return value, (shape[1], shape[2], shape[0])


def _check_png(content: bytes) -> Media:
    if not content.startswith(PNG_MAGIC) or content[12:16] != b"IHDR":
        raise MediaError("image: the bytes are no PNG; encode the image as PNG, or give an array")
    return _limited("image", "png", content, "make the image smaller")


def image(value: Any) -> Media:
    """An image as PNG.

    The value is the bytes of a PNG file, or an array, tensor or nested list of the shape (height,
    width), (height, width, channels) or (channels, height, width), with 1, 3 or 4 channels.
    Integers are 0 to 255, floats 0 to 1.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _check_png(bytes(value))
    value = _plain(value)
    shape = _shape(value)
    value, shape = _channels_last(value, shape)
    if len(shape) not in (2, 3) or 0 in shape or (len(shape) == 3 and shape[2] not in (1, 3, 4)):
        raise MediaError(
            f"image: {'a ' + type(value).__name__ if not shape else 'shape ' + str(shape)}; use "
            f"PNG bytes, or an array of (height, width) or (height, width, 1, 3 or 4 channels)"
        )
    if math.prod(shape) > MAX_PIXELS:
        raise MediaError(f"image: {shape} has more than {MAX_PIXELS} samples; make it smaller")
    pixels = _pixels_of_array(value) if _is_array(value) else _pixels_of_lists(value, shape)
    png = _encode_png(shape[1], shape[0], shape[2] if len(shape) == 3 else 1, pixels)
    return _limited("image", "png", png, "make the image smaller")


# --- histograms ----------------------------------------------------------------------------------


def _numbers(value: Any, where: str) -> list[float]:
    """All numbers of nested lists or of an array, in order."""
    out: list[float] = []
    pending = [value.tolist() if hasattr(value, "tolist") else value]
    while pending:
        item = pending.pop()
        if isinstance(item, (int, float)):
            out.append(float(item))
        elif _is_list(item):
            pending.extend(reversed(item))
        elif hasattr(item, "tolist"):
            pending.append(item.tolist())
        else:
            raise MediaError(f"histogram: {where} has a {type(item).__name__}; use numbers")
    return out


def _check_finite(bad: int, count: int) -> None:
    if not count:
        raise MediaError("histogram: no values; leave the call out while there are none")
    if bad:
        raise MediaError(
            f"histogram: {bad} of {count} values are not finite; remove them before, and report "
            f"their number as a metric"
        )


def _edges(low: float, high: float, bins: int) -> list[float]:
    if low == high:
        margin = max(0.5, abs(low) * 1e-6)
        low, high = low - margin, high + margin
    width = high / bins - low / bins  # the difference itself may overflow
    edges = [low + width * i for i in range(bins)] + [high]
    if any(a >= b for a, b in zip(edges, edges[1:])):
        raise MediaError(
            f"histogram: {bins} bins do not fit between {low!r} and {high!r}; subtract the mean"
        )
    return edges


def _count(values: list[float], edges: list[float]) -> list[int]:
    bins = len(edges) - 1
    low, width = edges[0], (edges[-1] / bins - edges[0] / bins)
    counts = [0] * bins
    for v in values:
        i = min(max(int(v / width - low / width), 0), bins - 1)
        while i > 0 and v < edges[i]:  # rounding
            i -= 1
        while i < bins - 1 and v >= edges[i + 1]:
            i += 1
        counts[i] += 1
    return counts


def _count_array(array: Any, bins: int) -> tuple[list[float], list[int]]:
    """The same for a numpy array, which is too large for a loop."""
    numpy = sys.modules["numpy"]
    flat = array.astype("float64").ravel()
    _check_finite(int((~numpy.isfinite(flat)).sum()), flat.size)
    edges = _edges(float(flat.min()), float(flat.max()), bins)
    counts = numpy.histogram(flat, bins=numpy.array(edges))[0]
    return edges, [int(n) for n in counts]


def _given(value: Mapping[str, Any]) -> tuple[list[float], list[int]]:
    """A histogram that the program has counted itself."""
    if set(value) != {"edges", "counts"}:
        raise MediaError(f"histogram: the keys {sorted(value)}; use exactly 'counts' and 'edges'")
    edges, counts = _numbers(value["edges"], "edges"), _numbers(value["counts"], "counts")
    if len(edges) != len(counts) + 1 or not counts:
        raise MediaError(
            f"histogram: {len(edges)} edges of {len(counts)} bins; there must be one edge more "
            f"than bins, and at least one bin"
        )
    if len(counts) > MAX_BINS:
        raise MediaError(f"histogram: {len(counts)} bins; use at most {MAX_BINS}")
    if any(not math.isfinite(a) for a in edges) or any(a >= b for a, b in zip(edges, edges[1:])):
        raise MediaError("histogram: the edges do not ascend, or are not finite; sort them")
    if any(not math.isfinite(n) or n < 0 or n != int(n) for n in counts):
        raise MediaError("histogram: counts must be whole numbers from 0")
    return edges, [int(n) for n in counts]


def histogram(value: Any, bins: int = 64) -> Media:
    """A histogram as JSON: {"edges": [n + 1], "counts": [n]}.

    The value is an array, tensor or list of numbers, which is counted here in `bins` bins of equal
    width, or a dict with the keys "edges" and "counts".
    """
    if not isinstance(bins, int) or not 1 <= bins <= MAX_BINS:
        raise MediaError(f"histogram: {bins} bins; use 1 to {MAX_BINS}")
    value = _plain(value)
    if isinstance(value, Mapping):
        edges, counts = _given(value)
    elif _is_array(value) and "numpy" in sys.modules and value.dtype.kind in "biuf":
        edges, counts = _count_array(value, bins)
    else:
        values = _numbers(value, "the value")
        _check_finite(sum(not math.isfinite(v) for v in values), len(values))
        edges = _edges(min(values), max(values), bins)
        counts = _count(values, edges)
    content = json.dumps({"edges": edges, "counts": counts}, separators=(",", ":"))
    return _limited("histogram", "json", content.encode(), "use fewer bins")


# --- tables and texts ----------------------------------------------------------------------------


def _cell(value: Any, row: int, column: str) -> Union[None, bool, int, float, str]:
    if hasattr(value, "item") and not isinstance(value, (str, int, float)):
        try:
            value = value.item()  # a number of numpy or torch
        except (ValueError, RuntimeError):
            pass
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise MediaError(
        f"table: row {row}, column {column!r} is a {type(value).__name__}; use numbers, texts, "
        f"booleans or None"
    )


def _of_columns(value: Mapping[str, Any]) -> tuple[list[str], list[Sequence[Any]]]:
    lengths: dict[str, int] = {}
    lists = {}
    for name, cells in value.items():
        cells = _plain(cells)
        lists[name] = cells.tolist() if hasattr(cells, "tolist") else cells
        if not _is_list(lists[name]):
            raise MediaError(f"table: column {name!r} is a {type(cells).__name__}; use a list")
        lengths[name] = len(lists[name])
    if len(set(lengths.values())) > 1:
        raise MediaError(f"table: columns of different lengths {lengths}; make them equal")
    return list(lists), list(zip(*lists.values()))


def _of_rows(value: Sequence[Any]) -> tuple[list[str], list[Sequence[Any]]]:
    """Reads a list of dicts. A row without a key gets None."""
    columns: list[str] = []
    for row, cells in enumerate(value):
        if not isinstance(cells, Mapping):
            raise MediaError(
                f"table: row {row} is a {type(cells).__name__}; use a list of dicts, a dict of "
                f"lists, or {{'columns': [..], 'rows': [[..], ..]}}"
            )
        columns.extend(name for name in cells if name not in columns)
    return columns, [[cells.get(name) for name in columns] for cells in value]


def _columns_and_rows(value: Any) -> tuple[list[str], list[Sequence[Any]]]:
    if hasattr(value, "columns") and hasattr(value, "itertuples"):  # pandas.DataFrame
        return list(value.columns), list(value.itertuples(index=False))
    if isinstance(value, Mapping) and set(value) == {"columns", "rows"}:
        rows = _plain(value["rows"])
        return list(value["columns"]), list(rows.tolist() if hasattr(rows, "tolist") else rows)
    if isinstance(value, Mapping):
        return _of_columns(value)
    if _is_list(value):
        return _of_rows(value)
    raise MediaError(
        f"table: a {type(value).__name__}; use a list of dicts, a dict of lists, or "
        f"{{'columns': [..], 'rows': [[..], ..]}}"
    )


def table(value: Any) -> Media:
    """A table as JSON: {"columns": [..], "rows": [[..], ..]}.

    The value is a list of dicts, a dict of lists, a pandas.DataFrame or a dict with the keys
    "columns" and "rows". Cells are numbers, texts, booleans or None; NaN becomes a text.
    """
    columns, rows = _columns_and_rows(value)
    names = [str(name) for name in columns]
    if not names:
        raise MediaError("table: no columns; leave the call out while there are none")
    if len(names) > MAX_COLUMNS or len(rows) > MAX_ROWS:
        raise MediaError(
            f"table: {len(rows)} rows and {len(names)} columns; at most {MAX_ROWS} rows and "
            f"{MAX_COLUMNS} columns fit: report a part"
        )
    out = []
    for i, row in enumerate(rows):
        if len(row) != len(names):
            raise MediaError(f"table: row {i} has {len(row)} cells, not {len(names)}")
        out.append([_cell(cell, i, name) for cell, name in zip(row, names)])
    content = json.dumps({"columns": names, "rows": out}, separators=(",", ":"))
    return _limited("table", "json", content.encode(), "report a part of the rows")


def text(value: str) -> Media:
    """A text as UTF-8."""
    if not isinstance(value, str):
        raise MediaError(f"text: a {type(value).__name__}; use a str")
    try:
        content = value.encode()
    except UnicodeEncodeError as e:
        raise MediaError(f"text: the character at {e.start} is half a surrogate; replace it")
    return _limited("text", "text", content, "report a part")


# --- content in checkpoint storage ---------------------------------------------------------------


def folder_of(storage: pathlib.Path, cluster_id: str, experiment_id: int) -> pathlib.Path:
    """Where the contents of an experiment lie: media/CLUSTER/EXPERIMENT below the storage, because
    clusters that share a storage number their experiments alike."""
    return storage / "media" / cluster_id / str(experiment_id)


def store(folder: pathlib.Path, content: bytes) -> str:
    """Writes the content to a file that is named by its SHA-256; returns the SHA-256.

    The same content is written once, so a repeated call costs a look at the folder.
    """
    digest = hashlib.sha256(content).hexdigest()
    path = folder / digest
    try:
        if not path.is_file() or path.stat().st_size != len(content):
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, content)
    except OSError as error:
        raise MediaError(f"{path}: {error.strerror}; see whether the checkpoint storage is full or "
                         "read-only") from error
    return digest
