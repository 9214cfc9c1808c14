"""muster.torch: the same bits on any number of ranks; refusals leave the training intact."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

try:
    import torch
except ImportError:
    debian = "/usr/bin/python3"  # python3-torch belongs to this one; `python3` may be another
    if sys.version_info >= (3, 10) and os.path.realpath(sys.executable) != os.path.realpath(debian):
        os.execv(debian, [debian, *sys.argv])
    print("skipped: python3-torch is not installed")
    sys.exit(77)
from torch import nn

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "sdk" / "python")]

from exact_models import build, classify  # noqa: E402
from muster.torch import (DeterminismError, Exact, ExactError, GradientError,  # noqa: E402
                          StateError)
from muster.torch.order import ORDER_DRAW, SampleOrder, draw_key, philox4x32, share  # noqa: E402
from muster.torch.reduction import Bucket, Entry, exponent_of, next_exponent  # noqa: E402


class OrderTest(unittest.TestCase):
    """The values of base/rng.c and trainer/reduction/sampler.c."""

    def test_philox(self) -> None:
        self.assertEqual((3508082344, 4232699246, 420400760, 3752389119),
                         philox4x32(0x123456789ABCDEF0, 7, 0xFEDCBA9876543210))

    def test_order_is_that_of_the_native_trainer(self) -> None:
        self.assertEqual([0, 3, 4, 8, 2, 1, 7, 5, 4, 9, 8, 3], SampleOrder(7, 10).indices(5, 12))
        self.assertEqual([26558, 38973, 55767, 21371, 17807, 21470, 50748, 12489],
                         SampleOrder(0xFEDCBA9876543210, 60000).indices(59996, 8))
        self.assertEqual([0, 0, 0], SampleOrder(3, 1).indices(0, 3))
        self.assertEqual([1, 0, 0, 1, 0, 1], SampleOrder(3, 2).indices(0, 6))
        self.assertEqual([2899903549, 3654423291, 3545559232, 3918955043, 2991933124, 1827245873],
                         SampleOrder(42, 5_000_000_000).indices(4_999_999_997, 6))

    def test_orders_with_and_without_a_table(self) -> None:
        for count in (5, 1000, (1 << 36) - 3, (1 << 36) + 3, 1 << 61):
            seed, epoch = 9, 2
            draw = philox4x32(seed, ORDER_DRAW, epoch)
            key, bits = draw[0] << 32 | draw[1], (count - 1).bit_length()
            first = 3 if count == 5 else count // 3
            expected = [self.image(key, count, bits, at) for at in range(first, first + 2)]
            self.assertEqual(expected, SampleOrder(seed, count).indices(epoch * count + first, 2))

    def image(self, key: int, count: int, bits: int, value: int) -> int:
        """A position under the keyed permutation, one number at a time."""
        while True:
            low, high = bits - bits // 2, bits // 2
            left, right = value >> low, value & ((1 << low) - 1)
            for turn in range(6):
                drawn = philox4x32(key, turn, right)[0]
                left, right = right, (left ^ drawn) & ((1 << high) - 1)
                low, high = high, low
            value = left << low | right
            if value < count:
                return value

    def test_an_epoch_has_every_sample_once(self) -> None:
        for count in (1, 2, 3, 17, 40_000):
            order = SampleOrder(5, count).indices(count, count)
            self.assertEqual(list(range(count)), sorted(order))

    def test_shares(self) -> None:
        for items in range(1, 9):
            for world in range(1, items + 1):
                shares = [list(share(items, world, rank)) for rank in range(world)]
                self.assertEqual(list(range(items)), sum(shares, []))
                self.assertLessEqual(max(map(len, shares)) - min(map(len, shares)), 1)

    def test_keys_differ(self) -> None:
        keys = {draw_key(seed, draw, step, part) for seed in (0, 1, 1 << 63) for draw in (1, 2)
                for step in range(5) for part in range(5)}
        self.assertEqual(3 * 2 * 5 * 5, len(keys))
        self.assertTrue(all(0 <= key < 1 << 63 for key in keys))


class SumsTest(unittest.TestCase):
    """The number format and the sums of buckets."""

    def test_exponents(self) -> None:
        for value, exponent in ((1.0, 1), (0.999, 0), (0.5, 0), (3.0, 2), (0.0, None),
                                (-1.0, None)):
            self.assertEqual(exponent, exponent_of(value))
        self.assertEqual([5, 4, 4, 9, -24], [
            next_exponent(5, 0.0), next_exponent(5, 1.0), next_exponent(5, 15.0),
            next_exponent(5, 511.0), next_exponent(-24, 1e-30)])

    def sum_of(self, like: list[torch.Tensor], rows: list[list[Any]]) -> list[torch.Tensor]:
        entries = [Entry(str(i), x) for i, x in enumerate(like)]
        for entry in entries:
            entry.exponent = 3
        bucket = Bucket(entries, len(rows))
        bucket.begin_step()
        for row in rows:
            bucket.add([None if g is None else g.clone() for g in row])
        bucket.start(None)
        bucket.finish([1] * len(like))
        return [part.clone() for part in bucket.parts]

    def test_order_does_not_matter(self) -> None:
        torch.manual_seed(1)
        like = [torch.zeros(3, 5), torch.zeros(7), torch.zeros(())]
        rows = [[torch.randn_like(x) for x in like] for _ in range(9)]
        rows[2][1] = rows[5][0] = None
        expected = self.sum_of(like, rows)
        for seed in range(5):
            random.Random(seed).shuffle(rows)
            for a, b in zip(expected, self.sum_of(like, rows)):
                self.assertTrue(torch.equal(a, b))
        for i, total in enumerate(expected):
            exact = sum(row[i].double() for row in rows if row[i] is not None)
            self.assertLess(float((total - exact).abs().max()), 9 * 2.0 ** (3 - 23))

    def test_largest_values_do_not_overflow(self) -> None:
        for micro_batches in (1, 2, 3, 16, 17):
            like = [torch.zeros(4)]
            largest = [[torch.full((4,), 63.99)]] * micro_batches  # below 8 * 2^3
            total = self.sum_of(like, largest)[0]
            self.assertTrue(torch.allclose(total, torch.full((4,), 63.99 * micro_batches)))

    def test_many_micro_batches_keep_small_values(self) -> None:
        """A value of 2^-23 of the largest one, in one micro-batch of many."""
        for micro_batches in (2, 64, 65, 512, 5000):
            like = [torch.zeros(2)]
            rows = [[torch.tensor([63.99, 0.0])] for _ in range(micro_batches)]
            rows[1] = [torch.tensor([63.99, 2.0 ** -17])]
            total = self.sum_of(like, rows)[0]
            self.assertTrue(torch.allclose(total[0], torch.tensor(63.99 * micro_batches)))
            self.assertEqual(2.0 ** -17, float(total[1]), micro_batches)

    def test_types_and_strides(self) -> None:
        wide = torch.randn(4, dtype=torch.float64)
        self.assertTrue(torch.allclose(self.sum_of([wide], [[wide], [wide]])[0], 2 * wide,
                                       rtol=1e-14, atol=1e-14))
        half = torch.randn(4).bfloat16()
        self.assertTrue(torch.equal(self.sum_of([half], [[half], [half]])[0], 2 * half.float()))
        image = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
        total = self.sum_of([image], [[image], [image.contiguous()]])[0]
        self.assertEqual(image.stride(), total.stride())
        self.assertTrue(torch.allclose(total, 2 * image, atol=1e-5))


class RanksTest(unittest.TestCase):
    """The SHA-256 of weights, buffers and optimizer state on 1 to 4 ranks."""

    KINDS = (("lenet", "lenet", "ghost"), ("ghost", "resnet20", "ghost"),
             ("sync", "resnet20", "sync"), ("gpt", "gpt", "ghost"))
    STEPS = 6

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="exact-"))
        self.starts = 0

    def run_ranks(self, world: int, trainings: list[dict], killed: bool = False) -> dict[str, dict]:
        self.starts += 1
        environment = dict(os.environ, PYTHONPATH=str(HERE.parent.parent / "sdk" / "python"),
                           OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
        ranks = [subprocess.Popen(
            [sys.executable, str(HERE / "exact_rank.py"), str(rank), str(world), str(self.folder),
             json.dumps(trainings), str(self.starts)], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=environment) for rank in range(world)]
        outputs = [rank.communicate() for rank in ranks]
        for rank, (_, errors) in zip(ranks, outputs):
            if killed:
                self.assertEqual(-9, rank.returncode, errors)
            else:
                self.assertEqual(0, rank.returncode, errors)
        return {line["name"]: line for line in map(json.loads, outputs[0][0].splitlines())}

    def run_loops(self, world: int) -> list[dict]:
        """The lines of all ranks of exact_loops.py."""
        environment = dict(os.environ, PYTHONPATH=str(HERE.parent.parent / "sdk" / "python"),
                           OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
        ranks = [subprocess.Popen(
            [sys.executable, str(HERE / "exact_loops.py"), str(rank), str(world), str(self.folder)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
            for rank in range(world)]
        outputs = [rank.communicate() for rank in ranks]
        for rank, (_, errors) in zip(ranks, outputs):
            self.assertEqual(0, rank.returncode, errors)
        return [json.loads(output) for output, _ in outputs]

    def test_loops_of_programs(self) -> None:
        expected = self.run_loops(1)[0]
        self.assertEqual(0, expected["teach"]["wrong"])
        self.assertEqual(expected["mix"], expected["mix with workers"])
        self.assertEqual(7, expected["copy"]["seed"])
        self.assertRegex(expected["parameter"]["error"],
                         r"^the optimizer updates extra, which .* when Exact was made: make a new")
        self.assertTrue(expected["parameter"]["intact"])
        self.assertEqual({"error": "", "step": 101}, expected.pop("part"))
        self.assertEqual([], expected.pop("split"))
        differ = [f"the ranks disagree about the {noun}" for noun in (
            "data: samples that every rank has loaded", "data: samples that every rank has loaded",
            "first sample of evaluate()", "number of samples of evaluate()")]
        for world in (2, 3):
            for found in self.run_loops(world):
                self.assertEqual({"error": "the ranks disagree about the weights or the optimizer "
                                           "state", "step": 100}, found.pop("part"))
                self.assertEqual(differ, found.pop("split"))
                for name, result in expected.items():
                    self.assertEqual(result, found[name], f"{name} on {world} ranks")

    def test_ranks_kill_and_resize(self) -> None:
        plain = [{"name": name, "kind": kind, "batch_norm": mode, "steps": self.STEPS}
                 for name, kind, mode in self.KINDS]
        expected = self.run_ranks(1, plain)
        self.assertEqual(4, len(expected))
        self.assertNotEqual(expected["ghost"]["digest"], expected["sync"]["digest"])
        for result in expected.values():
            self.assertLess(result["losses"][-1], result["losses"][0])
        for world in (2, 3, 4):
            self.assertEqual(expected, self.run_ranks(world, plain), f"{world} ranks")
        self.disturb(plain, expected)

    def disturb(self, plain: list[dict], expected: dict[str, dict]) -> None:
        """2 ranks save after 2 steps and are killed in step 4; 3 go on and save; 1 rank ends."""
        last = len(plain) - 1
        self.run_ranks(2, [dict(training, save_at=2, save=f"{i}-2.pt", steps=4,
                                die_at=3 if i == last else None)
                           for i, training in enumerate(plain)], killed=True)
        self.run_ranks(3, [dict(training, load=f"{i}-2.pt", save_at=5, save=f"{i}-5.pt", steps=5)
                           for i, training in enumerate(plain)])
        results = self.run_ranks(1, [dict(training, load=f"{i}-5.pt")
                                     for i, training in enumerate(plain)])
        for name, result in results.items():
            self.assertEqual(expected[name]["digest"], result["digest"], name)
            self.assertEqual(expected[name]["losses"][5:], result["losses"])
            self.assertEqual(expected[name]["evaluation"], result["evaluation"])

    def disagreement(self, options: str = "{}", before: str = "") -> list[str]:
        """The errors of two ranks, one of which takes other options or loads another state."""
        self.starts += 1
        program = (
            "import sys, torch, torch.distributed as dist\n"
            f"sys.path.insert(0, {str(HERE)!r})\n"
            "from exact_models import build\n"
            "from muster.torch import Exact, ExactError\n"
            "rank = int(sys.argv[1])\n"
            f"meeting = 'file://{self.folder}/differ-{self.starts}'\n"
            "dist.init_process_group('gloo', init_method=meeting, rank=rank, world_size=2)\n"
            "model, optimizer, loss, data = build('lenet')\n"
            f"options = dict(seed=3, clip_norm=1, **{{}}) if rank == 0 else dict(dict(seed=3, clip_norm=1.0), **{options})\n"
            "try:\n"
            "    exact = Exact(model, optimizer, micro_batch=4, global_batch=16, **options)\n"
            f"    {before or 'pass'}\n"
            "    before = exact.digest()\n"
            "    try:\n"
            "        exact.step(loss, next(exact.batches(data, steps=9)))\n"
            "    except ExactError:\n"
            "        assert exact.digest() == before\n"
            "        raise\n"
            "except ExactError as error:\n"
            "    print(error)\n"
            "dist.destroy_process_group()\n")
        environment = dict(os.environ, PYTHONPATH=str(HERE.parent.parent / "sdk" / "python"))
        ranks = [subprocess.Popen([sys.executable, "-c", program, str(rank)], text=True,
                                  stdout=subprocess.PIPE, env=environment) for rank in range(2)]
        return [rank.communicate()[0] for rank in ranks]

    def test_ranks_that_loaded_different_states_are_refused(self) -> None:
        for output in self.disagreement(before="exact.step_count, exact.cursor = 3 * rank, 48 * rank"):
            self.assertIn("the ranks disagree about the step (from 0 to 3): start all ranks from "
                          "the same checkpoint", output)

    def test_ranks_with_different_options_are_refused(self) -> None:
        self.assertEqual(["", ""], self.disagreement())
        for output in self.disagreement("{'seed': 4}"):
            self.assertIn("the ranks disagree about the seed (from 3 to 4)", output)
        for options in ("{'seed': 3 + 2**31}", "{'seed': 3 - 2**31}", "{'batch_norm': 'sync'}",
                        "{'clip_norm': 2.0}", "{'clip_norm': None}"):
            for output in self.disagreement(options):
                self.assertIn("the ranks disagree about the seed, batch_norm or clip_norm", output)


class Counter(nn.Module):
    """A layer with a buffer that changes in the forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.weight


class Changing(nn.Module):
    """A layer whose forward pass changes a parameter, as the momentum encoders of some programs."""

    def __init__(self, change: Any, trained: bool = False) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.slow = nn.Parameter(torch.ones(4), requires_grad=trained)
        self.register_buffer("scale", torch.ones(()))
        self.change = change

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.change(self)
        return self.inner(x) * self.slow * self.scale


class Scatter(nn.Module):
    """A layer that torch calls nondeterministic, in its forward or in its backward pass."""

    def __init__(self, backward: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.backward_alone = backward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * self.weight
        if self.backward_alone:
            return Complaint.apply(y)
        return y + y.detach().clone().put_(torch.tensor([0]), torch.tensor([1.0]))


class Complaint(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        g.clone().put_(torch.tensor([0]), torch.tensor([1.0]))
        return g


def square_error(model: nn.Module, batch: Any) -> torch.Tensor:
    x, y = batch
    return ((model(x) - y) ** 2).mean()


def make_rows(count: int = 24) -> torch.utils.data.TensorDataset:
    generator = torch.Generator().manual_seed(5)
    return torch.utils.data.TensorDataset(torch.randn(count, 4, generator=generator),
                                          torch.randn(count, 4, generator=generator))


def make_exact(model: nn.Module, rate: float = 0.1, **options: Any) -> Exact:
    return Exact(model, torch.optim.SGD(model.parameters(), rate, momentum=0.9),
                 **{"micro_batch": 2, "global_batch": 8, **options})


class StepTest(unittest.TestCase):
    """One rank: what a step computes."""

    def setUp(self) -> None:
        torch.manual_seed(0)

    def test_gradient_is_that_of_the_whole_batch(self) -> None:
        for kind in ("lenet", "gpt"):
            model, optimizer, loss_fn, dataset = build(kind)
            model.eval()  # no dropout
            exact = Exact(model, torch.optim.SGD(model.parameters(), 0.0), micro_batch=4,
                          global_batch=16)
            batch = [tensor[:16] for tensor in dataset.tensors]
            exact.step(loss_fn, batch)
            gradients = [p.grad.clone() for p in model.parameters()]
            model.zero_grad()
            result = loss_fn(model, batch)
            loss = result["loss"] if isinstance(result, dict) else result
            loss.backward()
            self.assertAlmostEqual(float(loss), exact.metrics["loss"], places=5)
            for gradient, parameter in zip(gradients, model.parameters()):
                self.assertTrue(torch.allclose(gradient, parameter.grad, rtol=1e-3, atol=1e-6))

    def test_overlap_and_bucket_size_do_not_matter(self) -> None:
        digests = set()
        for options in ({}, {"overlap": False}, {"bucket_bytes": 1}, {"bucket_bytes": 1 << 30}):
            model, optimizer, loss_fn, dataset = build("lenet")
            exact = Exact(model, optimizer, micro_batch=4, global_batch=16, seed=1, **options)
            for batch in exact.batches(dataset, steps=2):
                exact.step(loss_fn, batch)
            digests.add(exact.digest())
        self.assertEqual(1, len(digests))

    def test_a_step_is_repeated_when_a_gradient_outgrows_its_scale(self) -> None:
        calls = []

        def loss_fn(model: nn.Module, batch: Any) -> torch.Tensor:
            calls.append(len(calls))
            return square_error(model, batch)

        exact = make_exact(nn.Linear(4, 4), rate=0.0)
        x, y = (tensor[:8] for tensor in make_rows().tensors)
        exact.step(loss_fn, (x, y))
        self.assertEqual(8, len(calls))  # the first step finds its scale
        exact.step(loss_fn, (x, y))
        self.assertEqual(12, len(calls))
        exact.step(loss_fn, (x * 100, y * 100))
        self.assertEqual(20, len(calls))
        whole = torch.nn.functional.mse_loss(exact.model(x * 100), y * 100)
        expected = torch.autograd.grad(whole, exact.model.weight)[0]
        self.assertTrue(torch.allclose(exact.model.weight.grad, expected, rtol=1e-5))

    def test_parameters_frozen_tied_and_unused(self) -> None:
        model = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Linear(4, 4), "c": nn.Linear(4, 4),
                               "d": nn.Linear(4, 4)})
        model["b"].weight = model["a"].weight  # tied
        model["c"].requires_grad_(False)  # frozen; d is unused
        optimizer = torch.optim.AdamW(model.parameters(), 0.1, weight_decay=0.5)
        exact = Exact(model, optimizer, micro_batch=2, global_batch=8)
        before = {name: p.clone() for name, p in model.named_parameters()}

        def loss_fn(layers: Any, batch: Any) -> torch.Tensor:
            return ((layers["c"](layers["b"](layers["a"](batch[0]))) - batch[1]) ** 2).mean()

        exact.step(loss_fn, next(exact.batches(make_rows())))
        changed = {name for name, p in model.named_parameters()
                   if not torch.equal(p, before[name])}
        self.assertEqual({"a.weight", "a.bias", "b.bias"}, changed)
        self.assertIsNone(model["d"].weight.grad)
        model["c"].requires_grad_(True)
        with self.assertRaisesRegex(ExactError, r"c\.weight was frozen .*: make a new Exact"):
            exact.step(loss_fn, next(exact.batches(make_rows())))

    def test_running_statistics_of_ghost_batch_norm(self) -> None:
        model = nn.BatchNorm1d(4)
        exact = make_exact(model, micro_batch=4)
        x, y = (tensor[:8] for tensor in make_rows().tensors)
        exact.step(square_error, (x, y))
        mean = 0.1 * (x[:4].mean(0) + x[4:].mean(0)) / 2
        variance = 0.9 + 0.1 * (x[:4].var(0) + x[4:].var(0)) / 2
        self.assertTrue(torch.allclose(model.running_mean, mean, atol=1e-7))
        self.assertTrue(torch.allclose(model.running_var, variance, atol=1e-6))
        self.assertEqual((1, 0.1), (int(model.num_batches_tracked), model.momentum))

    def test_sync_batch_norm_is_that_of_the_whole_batch(self) -> None:
        def make() -> nn.Module:
            torch.manual_seed(3)
            return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 4),
                                 nn.BatchNorm1d(4))

        plain, own = make(), make()
        exact = make_exact(own, batch_norm="sync")
        optimizer = torch.optim.SGD(plain.parameters(), 0.1, momentum=0.9)
        for i in range(3):
            x, y = (tensor[8 * i:8 * i + 8] for tensor in make_rows().tensors)
            optimizer.zero_grad()
            square_error(plain, (x, y)).backward()
            optimizer.step()
            exact.step(square_error, (x, y))
        for (name, a), b in zip(plain.state_dict().items(), own.state_dict().values()):
            self.assertTrue(torch.allclose(a.float(), b.float(), atol=1e-5), name)

    def test_random_numbers_do_not_depend_on_what_came_before(self) -> None:
        digests = set()
        for disturbance in (0, 1000):
            model, optimizer, loss_fn, dataset = build("lenet")
            exact = Exact(model, optimizer, micro_batch=4, global_batch=8, seed=2)
            for batch in exact.batches(dataset, steps=3):
                torch.rand(disturbance)
                exact.step(loss_fn, batch)
            digests.add(exact.digest())
        self.assertEqual(1, len(digests))

    def test_random_numbers_of_the_optimizer(self) -> None:
        """They depend on the seed and the step, not on the micro-batches of the rank."""
        drawn = []

        class Noisy(torch.optim.SGD):
            def step(self, closure: Any = None) -> None:
                drawn.append(float(torch.rand(())))

        for micro_batch in (2, 4):
            model = nn.Sequential(nn.Linear(4, 4), nn.Dropout())
            exact = Exact(model, Noisy(model.parameters(), 0.1), micro_batch=micro_batch,
                          global_batch=8, seed=3)
            for batch in exact.batches(make_rows(), steps=2):
                exact.step(square_error, batch)
        self.assertEqual(drawn[:2], drawn[2:])
        self.assertNotEqual(drawn[0], drawn[1])

    def test_metrics_of_any_type(self) -> None:
        exact = make_exact(nn.Linear(4, 4))
        exact.step(lambda model, batch: {
            "loss": square_error(model, batch), "whole": 3, "real": 0.5, "count": torch.tensor([7]),
            "wide": torch.tensor(0.25, dtype=torch.float64)}, next(exact.batches(make_rows())))
        self.assertEqual((3, 0.5, 7, 0.25), tuple(exact.metrics[name] for name in (
            "whole", "real", "count", "wide")))

    def test_seeding_leaves_nothing_behind(self) -> None:
        """Without a GPU in use, torch.manual_seed() stores each call with its place for later."""
        queued = len(torch.cuda._queued_calls)
        exact = make_exact(nn.Linear(4, 4))
        exact.step(square_error, next(exact.batches(make_rows())))
        self.assertEqual(queued, len(torch.cuda._queued_calls))

    def test_workers_load_the_same_samples(self) -> None:
        class Noisy(torch.utils.data.Dataset):
            def __len__(self) -> int:
                return 20

            def __getitem__(self, index: int) -> Any:
                return torch.rand(4) + index, torch.tensor([random.random()] * 4)

        seen = []
        for workers in (0, 2):
            exact = make_exact(nn.Linear(4, 4), seed=4)
            seen.append([])
            for batch in exact.batches(Noisy(), steps=4, workers=workers):
                seen[-1] += batch.micro_batches
                exact.step(square_error, batch)
        for a, b in zip(*seen):
            self.assertTrue(torch.equal(a[0], b[0]) and torch.equal(a[1], b[1]))
        self.assertEqual(16, len(seen[0]))

    def test_ends_of_batches(self) -> None:
        rows = make_rows(20)

        def steps(exact: Exact, **ends: Any) -> int:
            before = exact.step_count
            for batch in exact.batches(rows, **ends):
                exact.step(square_error, batch)
            return exact.step_count - before

        exact = make_exact(nn.Linear(4, 4), rate=0.0)
        self.assertEqual(3, steps(exact))  # 24 samples: to the end of the first pass
        self.assertEqual((24, 1), (exact.cursor, exact.epoch))
        self.assertEqual(2, steps(exact))
        self.assertEqual(5, steps(exact, epochs=4))  # 80 samples in all
        self.assertEqual((2, 0), (steps(exact, steps=12), steps(exact, steps=12)))

    def test_bfloat16_by_autocast(self) -> None:
        def loss_fn(model: nn.Module, batch: Any) -> torch.Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                return square_error(model, batch).float()

        exact = make_exact(nn.Linear(4, 4))
        first = exact.step(loss_fn, next(exact.batches(make_rows())))
        for batch in exact.batches(make_rows(), steps=20):
            last = exact.step(loss_fn, batch)
        self.assertLess(last, first)


class RefusalTest(unittest.TestCase):
    """Each refusal names the place and the remedy, and the training stays as it was."""

    def setUp(self) -> None:
        torch.manual_seed(0)

    def refused(self, kind: type, text: str, exact: Exact, call: Any) -> None:
        state = exact.state_dict()
        before = exact.digest(), repr({key: state[key] for key in ("step", "cursor", "exponents")})
        with self.assertRaisesRegex(kind, text):
            call()
        state = exact.state_dict()
        self.assertEqual(before, (exact.digest(), repr({
            key: state[key] for key in ("step", "cursor", "exponents")})))

    def test_gradients(self) -> None:
        exact = make_exact(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
        x, y = (tensor[:8] for tensor in make_rows().tensors)
        exact.step(square_error, (x, y))
        bad = y.clone()
        bad[5] = torch.inf
        self.refused(GradientError, r"the gradient of \S+ is not a finite number: lower the learn",
                     exact, lambda: exact.step(square_error, (x, bad)))
        self.refused(GradientError, r"gradient exploded: the gradient of \S+ grew from 2\^",
                     exact, lambda: exact.step(square_error, (x, y * 1e15)))
        exact.step(square_error, (x, y))

    def test_first_gradients_of_zero(self) -> None:
        """They say nothing about the size of later ones."""
        exact = make_exact(nn.Linear(4, 4), rate=0.0)
        x, y = (tensor[:8] for tensor in make_rows().tensors)
        for factor in (0, 0, 1e6):
            exact.step(lambda m, b, f=factor: square_error(m, b) * f, (x, y))
        self.refused(GradientError, r"gradient exploded", exact, lambda: exact.step(
            lambda m, b: square_error(m, b) * 1e20, (x, y)))

    def test_first_gradients_beyond_every_scale(self) -> None:
        exact = make_exact(nn.Linear(4, 4))
        x, y = (tensor[:8] for tensor in make_rows().tensors)
        self.refused(GradientError, "not a finite number, or too large for a first gradient",
                     exact, lambda: exact.step(lambda m, b: square_error(m, b) * 1e30, (x, y)))

    def test_optimizers_and_schedulers_that_need_more(self) -> None:
        model = nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        sizes = {"micro_batch": 2, "global_batch": 8}
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        with self.assertRaisesRegex(ExactError, r"the scheduler ReduceLROnPlateau needs .*metrics"
                                    r".*call its step\(\) yourself"):
            Exact(model, optimizer, scheduler=plateau, **sizes)
        with self.assertRaisesRegex(ExactError, "the optimizer LBFGS needs .*closure.*use another"):
            Exact(model, torch.optim.LBFGS(model.parameters()), **sizes)
        Exact(model, optimizer, scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 1), **sizes)

    def test_backward_passes_inside_the_loss_function(self) -> None:
        for options in ({}, {"overlap": False}, {"bucket_bytes": 1}, {"batch_norm": "sync"}):
            exact = make_exact(nn.Linear(4, 4), **options)
            batch = next(exact.batches(make_rows()))

            def loss_fn(model: Any, b: Any) -> torch.Tensor:
                model.weight.pow(2).sum().backward()
                return square_error(model, b)

            def attack(model: Any, b: Any) -> torch.Tensor:
                x = b[0].clone().requires_grad_()
                square_error(model, (x, b[1])).backward()
                model.zero_grad()
                return square_error(model, ((x + x.grad).detach(), b[1]))

            self.refused(ExactError, r"loss_fn called backward\(\).* gradient of weight.*"
                         r"torch\.autograd\.grad",
                         exact, lambda e=exact, b=batch: e.step(loss_fn, b))
            exact.step(attack, batch)

    def test_batches_of_another_seed(self) -> None:
        exact, other = make_exact(nn.Linear(4, 4), seed=1), make_exact(nn.Linear(4, 4), seed=2)
        batches = exact.batches(make_rows())
        exact.load_state_dict(other.state_dict())
        self.refused(ExactError, r"have the seed 1, .* has 2: call batches\(\) again",
                     exact, lambda: next(batches))

    def test_sizes(self) -> None:
        for options, text in (
                ({"micro_batch": 3}, "micro_batch 3 does not divide global_batch 8: .* 6 and 9"),
                ({"micro_batch": 0}, "micro_batch is 0: give a whole number"),
                ({"batch_norm": "local"}, "batch_norm is 'local': give \"ghost\""),
                ({"threads": 0}, "threads is 0")):
            with self.assertRaisesRegex(ExactError, text):
                make_exact(nn.Linear(4, 4), **options)
        with mock.patch.dict(os.environ, WORLD_SIZE="2"), \
                self.assertRaisesRegex(ExactError, "call torch.distributed.init_process_group"):
            make_exact(nn.Linear(4, 4))

    def test_models(self) -> None:
        sparse = nn.Sequential(nn.Embedding(4, 4, sparse=True))
        with self.assertRaisesRegex(ExactError, "the layer 0 has sparse gradients"):
            make_exact(sparse)
        with self.assertRaisesRegex(ExactError, "the layer 0 has max_norm, which changes the wei"):
            make_exact(nn.Sequential(nn.Embedding(4, 4, max_norm=1.0)))
        with self.assertRaisesRegex(ExactError, "the layer 0 is a SyncBatchNorm"):
            make_exact(nn.Sequential(nn.SyncBatchNorm(4)))
        with self.assertRaisesRegex(ExactError, r"pass the module inside it \(model.module\)"):
            make_exact(nn.DataParallel(nn.Linear(4, 4)))
        with self.assertRaisesRegex(ExactError, r"group 0 updates a parameter of the shape \(3,\)"):
            Exact(nn.Linear(4, 4), torch.optim.SGD([nn.Parameter(torch.ones(3))], 0.1),
                  micro_batch=2, global_batch=8)

    def test_data(self) -> None:
        exact = make_exact(nn.Linear(4, 4))
        rows = make_rows()
        self.refused(ExactError, r"7 samples, fewer than one global batch \(8\): use a smaller",
                     exact, lambda: exact.batches(make_rows(7)))
        self.refused(ExactError, r"is a DataLoader, .*pass its data set \(loader.dataset\)",
                     exact, lambda: exact.batches(torch.utils.data.DataLoader(rows)))
        self.refused(ExactError, "no length or no samples by index",
                     exact, lambda: exact.batches(iter([])))
        first, second = list(exact.batches(rows))[:2]
        self.refused(ExactError, "the batch begins at sample 8, but the training is at sample 0",
                     exact, lambda: exact.step(square_error, second))
        exact.step(square_error, first)
        self.refused(ExactError, "has 30 samples, but this training began with 24",
                     exact, lambda: exact.batches(make_rows(30)))
        self.refused(ExactError, r"tensors of \[6\] samples: .* the 8 samples of a global batch",
                     exact, lambda: exact.step(square_error, [rows.tensors[0][:6]] * 2))

    def test_random_numbers_that_exact_does_not_seed(self) -> None:
        rows = make_rows()

        class Noisy(torch.utils.data.Dataset):
            def __init__(self) -> None:
                self.generator = torch.Generator().manual_seed(0)

            def __len__(self) -> int:
                return len(rows)

            def __getitem__(self, index: int) -> Any:
                x, y = rows[index]
                return x + torch.randn(4, generator=self.generator), y

        for workers in (0, 2):
            exact = make_exact(nn.Linear(4, 4))
            self.refused(ExactError, "gives other samples when it is asked again: draw random num",
                         exact, lambda: next(exact.batches(Noisy(), workers=workers)))

    def test_loss_functions(self) -> None:
        exact = make_exact(nn.Linear(4, 4))
        batch = next(exact.batches(make_rows()))
        for loss_fn, text in (
                (lambda model, b: None, "loss_fn returned a value of the type NoneType: return"),
                (lambda model, b: model(b[0]), r"a tensor of the shape \(2, 4\)"),
                (lambda model, b: torch.ones(()), r"shape \(\) without a gradient"),
                (lambda model, b: {"lost": 1}, "a dictionary with .'lost'.")):
            self.refused(ExactError, text, exact, lambda f=loss_fn: exact.step(f, batch))
        exact.step(square_error, batch)
        batch = next(exact.batches(make_rows()))
        self.refused(ExactError, r"the metrics \['loss', 'more'\], and \['loss'\] before",
                     exact, lambda: exact.step(
                         lambda m, b: {"loss": square_error(m, b), "more": 1}, batch))
        self.refused(ZeroDivisionError, "", exact, lambda: exact.step(lambda m, b: 1 / 0, batch))

    def test_buffers_that_change(self) -> None:
        exact = make_exact(nn.Sequential(Counter()))
        self.refused(ExactError, r"the buffer 0\.calls changes in the forward pass.*persistent=Fal",
                     exact, lambda: exact.step(square_error, next(exact.batches(make_rows()))))

    def test_changes_that_raise_no_version(self) -> None:
        exact = make_exact(nn.Sequential(Changing(lambda layer: layer.scale.data.mul_(0.9))))
        self.refused(ExactError, r"the buffer 0\.scale changes in the forward pass",
                     exact, lambda: exact.step(square_error, next(exact.batches(make_rows()))))

    def test_parameters_that_change_in_the_forward_pass(self) -> None:
        def replace(layer: Any) -> None:
            layer.slow.data = layer.slow.data * 0.9

        for trained in (False, True):
            for change in (replace, lambda layer: layer.slow.data.mul_(0.9),
                           lambda layer: layer.slow.mul_(0.9)):
                exact = make_exact(nn.Sequential(Changing(change, trained)))
                with self.assertRaisesRegex(ExactError, r"the parameter 0\.slow changes in the fo"):
                    exact.step(square_error, next(exact.batches(make_rows())))

    def test_parameters_that_begin_to_change(self) -> None:
        """In place at once; through `.data` when the contents are compared. A tensor may move."""
        for change, steps in ((lambda layer: layer.slow.mul_(0.9), 3),
                              (lambda layer: layer.slow.data.mul_(0.9), 100)):
            layer = Changing(lambda layer: layer.slow.set_(layer.slow.clone()))
            exact = make_exact(layer, rate=0.01)
            with self.assertRaisesRegex(ExactError, "the parameter slow changes in the forward"):
                for batch in exact.batches(make_rows(), steps=101):
                    layer.change = change if exact.step_count >= 3 else layer.change
                    exact.step(square_error, batch)
            self.assertEqual(steps, exact.step_count)

    def test_operations_without_a_deterministic_form(self) -> None:
        for backward in (False, True):
            exact = make_exact(nn.Sequential(nn.Linear(4, 4), Scatter(backward)))
            self.refused(DeterminismError, r"^the layer 1 uses put_, which has no deterministic",
                         exact, lambda: exact.step(square_error, next(exact.batches(make_rows()))))

    def test_saved_states(self) -> None:
        exact = make_exact(nn.Linear(4, 4))
        exact.step(square_error, next(exact.batches(make_rows())))
        state = exact.state_dict()
        other = make_exact(nn.Linear(4, 3))
        self.refused(StateError, r"weight has the shape \(3, 4\) in the model and \(4, 4\) in the "
                     "saved state; the checkpoint belongs to another model",
                     other, lambda: other.load_state_dict(state))
        deep = make_exact(nn.Sequential(nn.Linear(4, 4)))
        self.refused(StateError, r"the saved state has no 0\.weight",
                     deep, lambda: deep.load_state_dict(state))
        wide = make_exact(nn.Linear(4, 4), micro_batch=4)
        self.refused(StateError, "micro_batch is 4 here and 2 in the saved state.*use micro_batch=",
                     wide, lambda: wide.load_state_dict(state))
        self.refused(StateError, "not made by Exact.state_dict()",
                     other, lambda: other.load_state_dict({"weight": 1}))
        model = nn.Linear(4, 4)
        split = Exact(model, torch.optim.SGD([{"params": [model.weight]},
                                              {"params": [model.bias]}], 0.1),
                      micro_batch=2, global_batch=8)
        self.refused(StateError, r"groups of \[1, 1\] parameters, the saved state has \[2\]",
                     split, lambda: split.load_state_dict(state))
        scheduled = make_exact(nn.Linear(4, 4))
        scheduled.scheduler = torch.optim.lr_scheduler.StepLR(scheduled.optimizer, 1)
        self.refused(StateError, "differ in having a scheduler",
                     scheduled, lambda: scheduled.load_state_dict(state))

    def test_other_arithmetic_is_reported(self) -> None:
        exact = make_exact(nn.Linear(4, 4))
        state = exact.state_dict()
        state["fingerprint"] = dict(state["fingerprint"], threads=8)
        with self.assertWarnsRegex(UserWarning, "threads 8 -> 1"):
            exact.load_state_dict(state)

    def test_micro_batches_that_part_in_sync_batch_norm(self) -> None:
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        exact = make_exact(model, batch_norm="sync")
        x, y = (tensor[:8].clone() for tensor in make_rows().tensors)
        x[:2] = 9

        def loss_fn(m: Any, batch: Any) -> torch.Tensor:
            skip = bool((batch[0] == 9).all())
            return ((m[0](batch[0]) if skip else m(batch[0])) ** 2).mean()

        self.refused(ExactError, "are at different layers",
                     exact, lambda: exact.step(loss_fn, (x, y)))
        self.refused(ExactError, "must call the model that it is given",
                     exact, lambda: exact.step(lambda m, b: square_error(model[0], b), (x, y)))
        self.refused(ZeroDivisionError, "", exact, lambda: exact.step(lambda m, b: 1 / 0, (x, y)))
        exact.step(square_error, (x, y))


if __name__ == "__main__":
    unittest.main()
