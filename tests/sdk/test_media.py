"""Tests of muster.media: values as bytes, and the errors of values that are none."""

import hashlib
import json
import math
import os
import struct
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "sdk/python"))

from muster import media  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None


class TensorStandIn:
    """A tensor of floating point numbers of `size` bytes."""

    def __init__(self, values, size):
        self.values, self.size = values, size

    def detach(self):
        return self

    cpu = detach

    def is_floating_point(self):
        return True

    def element_size(self):
        return self.size

    def float(self):
        rounded = [math.inf if value > 3e38 else struct.unpack("f", struct.pack("f", value))[0] for value in self.values]
        return TensorStandIn(rounded, 4)

    def numpy(self):
        raise RuntimeError("Numpy is not available")

    def tolist(self):
        if self.size < 4:
            raise TypeError("no such type outside torch")
        return self.values


def decode_png(content):
    """(width, height, channels, samples) of a PNG with eight bits and filter 0."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    at, data, header = 8, b"", None
    while at < len(content):
        size, name = struct.unpack(">I4s", content[at : at + 8])
        body = content[at + 8 : at + 8 + size]
        check = struct.unpack(">I", content[at + 8 + size : at + 12 + size])[0]
        assert check == zlib.crc32(name + body), name
        if name == b"IHDR":
            header = struct.unpack(">IIBBBBB", body)
        if name == b"IDAT":
            data += body
        at += 12 + size
    width, height, bits, color, *rest = header
    assert bits == 8 and rest == [0, 0, 0]
    channels = {0: 1, 2: 3, 6: 4}[color]
    raw, line, samples = zlib.decompress(data), width * channels + 1, b""
    assert len(raw) == line * height
    for y in range(height):
        assert raw[y * line] == 0
        samples += raw[y * line + 1 : (y + 1) * line]
    return width, height, channels, list(samples)


class Errors(unittest.TestCase):
    def refused(self, pattern, call, *values, **more):
        with self.assertRaisesRegex(media.MediaError, pattern):
            call(*values, **more)


class Images(Errors):
    def test_lists(self):
        kind, form, content = media.image([[0, 128, 255], [1, 2, 3]])
        self.assertEqual((kind, form), ("image", "png"))
        self.assertEqual(decode_png(content), (3, 2, 1, [0, 128, 255, 1, 2, 3]))
        self.assertEqual(
            decode_png(media.image([[(0.0, 0.5, 1.0)]]).content), (1, 1, 3, [0, 128, 255])
        )
        self.assertEqual(decode_png(media.image([[True, False]]).content)[3], [255, 0])

    def test_channels_first(self):
        planes = [[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[9, 10], [11, 12]]]
        expected = (2, 2, 3, [1, 5, 9, 2, 6, 10, 3, 7, 11, 4, 8, 12])
        self.assertEqual(decode_png(media.image(planes).content), expected)
        if numpy:
            self.assertEqual(decode_png(media.image(numpy.array(planes)).content), expected)
        if torch:
            self.assertEqual(decode_png(media.image(torch.tensor(planes)).content), expected)

    def test_png_bytes(self):
        png = media.image([[1]]).content
        self.assertEqual(media.image(png).content, png)
        self.refused("no PNG", media.image, b"\xff\xd8\xff\xe0 a jpeg")
        self.refused("no PNG", media.image, b"")

    def test_arrays(self):
        if not numpy:
            self.skipTest("numpy is not here")
        array = numpy.arange(24, dtype="uint8").reshape(2, 3, 4)
        self.assertEqual(decode_png(media.image(array).content), (3, 2, 4, list(range(24))))
        turned = numpy.arange(6, dtype="uint8").reshape(2, 3).T  # not contiguous
        self.assertEqual(decode_png(media.image(turned).content), (2, 3, 1, [0, 3, 1, 4, 2, 5]))
        floats = numpy.array([[0.0, 1.0004, 0.5]], dtype="float32")
        self.assertEqual(decode_png(media.image(floats).content)[3], [0, 255, 128])
        self.assertEqual(decode_png(media.image(numpy.array([[True, False]])).content)[3], [255, 0])
        self.refused("0 to 1", media.image, numpy.array([[0.0, 17.0]]))
        self.refused("finite", media.image, numpy.array([[0.0, math.nan]]))
        self.refused("use 0 to 255", media.image, numpy.array([[256]]))
        self.refused("type", media.image, numpy.array([["a"]]))

    def test_tensors(self):
        if not torch:
            self.skipTest("torch is not here")
        tensor = torch.zeros(1, 2, 5, requires_grad=True)
        self.assertEqual(decode_png(media.image(tensor).content), (5, 2, 1, [0] * 10))
        half = torch.ones(2, 2, dtype=torch.bfloat16)
        self.assertEqual(decode_png(media.image(half).content), (2, 2, 1, [255] * 4))
        double = torch.tensor([0.1, 1e300], dtype=torch.float64)
        self.assertEqual(json.loads(media.table({"x": double}).content)["rows"], [[0.1], [1e300]])
        self.assertIn(b"1e+300", media.histogram(double, 2).content)

    def test_numbers_of_tensors_keep_their_bits(self):
        """Without numpy, a tensor of 64 bits becomes a list of the same numbers."""
        def rows(values, size):
            return json.loads(media.table({"x": TensorStandIn(values, size)}).content)["rows"]
        self.assertEqual(rows([0.1, 1e300], 8), [[0.1], [1e300]])
        self.assertEqual(rows([0.5, 0.25], 2), [[0.5], [0.25]])
        self.assertEqual(json.loads(media.histogram(TensorStandIn([1e300, 2e300], 8), 2).content),
                         json.loads(media.histogram([1e300, 2e300], 2).content))

    def test_refused(self):
        self.refused("row 1, column 0.*0 to 255", media.image, [[0], [256]])
        self.refused("row 0, column 1.*0 to 1", media.image, [[0.0, 1.5]])
        self.refused("nan at", media.image, [[math.nan]])
        self.refused("row 1", media.image, [[1, 2], [3]])
        self.refused("channels", media.image, [[[1, 2, 3], [1, 2]]])
        self.refused("shape", media.image, [1, 2, 3])
        self.refused("shape", media.image, [[[1, 2], [3, 4]]] * 2)
        self.refused("a str", media.image, "cat.png")
        self.refused("shape", media.image, [])
        self.refused("a str at", media.image, [["a"]])

    def test_limit(self):
        if not numpy:
            self.skipTest("numpy is not here")
        noise = numpy.random.RandomState(1).randint(0, 256, 15 << 20).astype("uint8")
        self.assertLessEqual(len(media.image(noise.reshape(3 << 10, -1)).content), 16 << 20)
        noise = numpy.random.RandomState(1).randint(0, 256, 17 << 20).astype("uint8")
        self.refused("at most 16777216 fit", media.image, noise.reshape(17 << 10, -1))
        huge = numpy.zeros((8192, 8193), "uint8")
        self.refused("make it smaller", media.image, huge)
        media.image(huge[:, :8192])  # at the limit
        self.refused("at most", media.image, media.PNG_MAGIC + b"\0\0\0\rIHDR" + bytes(16 << 20))


class Histograms(Errors):
    def content(self, *values, **more):
        kind, form, content = media.histogram(*values, **more)
        self.assertEqual((kind, form), ("histogram", "json"))
        return json.loads(content)

    def test_lists(self):
        self.assertEqual(
            self.content([0, 1, 2, 3, 4], bins=2), {"edges": [0, 2, 4], "counts": [2, 3]}
        )
        self.assertEqual(self.content([[0.0], [1.0, [4.0]]], bins=2)["counts"], [2, 1])
        self.assertEqual(self.content([7], bins=1), {"edges": [6.5, 7.5], "counts": [1]})
        self.assertEqual(sum(self.content(range(1000))["counts"]), 1000)
        self.assertEqual(self.content([-1.7e308, 1.7e308], bins=2)["counts"], [1, 1])

    def test_arrays_agree_with_lists(self):
        if not numpy:
            self.skipTest("numpy is not here")
        values = numpy.random.RandomState(2).randn(5000)
        self.assertEqual(self.content(values), self.content(values.tolist()))
        self.assertEqual(self.content(numpy.float32([3, 3]))["counts"][32], 2)
        self.refused("2 of 3 values", media.histogram, numpy.array([1, math.nan, math.inf]))
        self.refused("no values", media.histogram, numpy.array([]))
        if torch:
            tensor = torch.tensor(values).requires_grad_()
            expected = self.content(values.astype("float32"))
            self.assertEqual(self.content(tensor), expected)

    def test_given(self):
        given = {"edges": [0, 1, 2], "counts": [3, 4]}
        self.assertEqual(self.content(given), given)
        for edges, counts, why in (
            ([0, 1], [1, 2], "one edge more"),
            ([0, 0, 1], [1, 2], "ascend"),
            ([0, 1, math.nan], [1, 2], "ascend"),
            ([0, 1, 2], [1, -1], "whole"),
            ([0, 1, 2], [1, 0.5], "whole"),
            ([0], [], "at least one bin"),
        ):
            self.refused(why, media.histogram, {"edges": edges, "counts": counts})
        self.refused("exactly", media.histogram, {"edges": [0, 1]})

    def test_refused(self):
        self.refused("1 of 2 values are not finite", media.histogram, [1.0, math.inf])
        self.refused("no values", media.histogram, [])
        self.refused("a str", media.histogram, ["a"])
        self.refused("a str", media.histogram, "abc")
        self.refused("subtract the mean", media.histogram, [1e16, 1e16 + 2])

    def test_limit(self):
        self.assertEqual(len(self.content([1, 2], bins=1024)["counts"]), 1024)
        for bins in (0, 1025, 2.5):
            self.refused("use 1 to 1024", media.histogram, [1, 2], bins=bins)
        edges = list(range(1026))
        media.histogram({"edges": edges[:1025], "counts": edges[:1024]})
        self.refused("at most", media.histogram, {"edges": edges, "counts": edges[:1025]})


class Tables(Errors):
    def content(self, value):
        kind, form, content = media.table(value)
        self.assertEqual((kind, form), ("table", "json"))
        return json.loads(content)

    def test_shapes(self):
        expected = {"columns": ["a", "b"], "rows": [[1, "x"], [2.5, None]]}
        self.assertEqual(self.content({"a": [1, 2.5], "b": ["x", None]}), expected)
        self.assertEqual(self.content([{"a": 1, "b": "x"}, {"a": 2.5}]), expected)
        self.assertEqual(self.content(expected), expected)
        self.assertEqual(self.content({"a": [], "b": []})["rows"], [])
        self.assertEqual(self.content({"a": [math.nan, -math.inf]})["rows"], [["NaN"], ["-Infinity"]])

    def test_arrays(self):
        if not numpy:
            self.skipTest("numpy is not here")
        self.assertEqual(self.content({"a": numpy.array([1, 2])})["rows"], [[1], [2]])
        self.assertEqual(self.content([{"a": numpy.float32(0.5)}])["rows"], [[0.5]])
        if torch:
            self.assertEqual(self.content([{"a": torch.tensor(3)}])["rows"], [[3]])

    def test_refused(self):
        self.refused("row 1, column 'b' is a list", media.table, [{"b": 1}, {"b": [1]}])
        self.refused("different lengths", media.table, {"a": [1], "b": []})
        self.refused("row 1 has 1 cells", media.table, {"columns": ["a", "b"], "rows": [[1, 2], [3]]})
        self.refused("row 0 is a int", media.table, [1])
        self.refused("no columns", media.table, [])
        self.refused("a str", media.table, "a,b")
        self.refused("column 'a' is a int", media.table, {"a": 1})

    def test_limits(self):
        media.table({"a": [0] * 100_000})
        self.refused("report a part", media.table, {"a": [0] * 100_001})
        media.table({str(i): [0] for i in range(1000)})
        self.refused("report a part", media.table, {str(i): [0] for i in range(1001)})


class Texts(Errors):
    def test_text(self):
        self.assertEqual(media.text("gr\u00fcn"), ("text", "text", "gr\u00fcn".encode()))
        self.assertEqual(media.text("").content, b"")
        self.refused("a bytes", media.text, b"x")
        self.refused("surrogate", media.text, "a\ud800")
        media.text("x" * (16 << 20))
        self.refused("at most", media.text, "x" * ((16 << 20) + 1))

    def test_names(self):
        self.assertEqual(media.check_name("val/\u00fc"), "val/\u00fc")
        media.check_name("x" * 256)
        for name in ("", "x" * 257, "\u00fc" * 129, "a\nb", "a\x7f", 3, "\ud800"):
            self.refused("name", media.check_name, name)


class Stores(Errors):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = media.folder_of(Path(folder.name), "c1", 7)

    def test_folder_of_an_experiment(self):
        self.assertEqual(media.folder_of(Path("/s"), "c1", 7), Path("/s/media/c1/7"))

    def test_content_is_addressed(self):
        digest = media.store(self.folder, b"abc")
        self.assertEqual(digest, hashlib.sha256(b"abc").hexdigest())
        path = self.folder / digest
        self.assertEqual(path.read_bytes(), b"abc")
        before = path.stat().st_mtime_ns
        self.assertEqual(media.store(self.folder, b"abc"), digest)
        self.assertEqual(path.stat().st_mtime_ns, before)
        path.write_bytes(b"ab")  # torn by a full disk
        media.store(self.folder, b"abc")
        self.assertEqual(path.read_bytes(), b"abc")
        self.assertEqual(os.listdir(self.folder), [digest])

    def test_failure_leaves_nothing(self):
        digest = hashlib.sha256(b"abc").hexdigest()
        (self.folder / digest).mkdir(parents=True)  # in the way
        self.refused(digest, media.store, self.folder, b"abc")
        self.assertEqual(os.listdir(self.folder), [digest])
        (self.folder / "file").write_bytes(b"")
        self.refused("Not a directory", media.store, self.folder / "file" / "8", b"abc")


if __name__ == "__main__":
    unittest.main()
