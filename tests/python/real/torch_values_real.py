"""Whole numbers on the simulated GPU as `libmend fit` has them worked out, beside the CPU's."""

import ctypes
import math
import random
import unittest

import torch
from libmend.fit import _values

OPERATORS = (
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * 3 - b // 2,
    lambda a, b: torch.where(a > b, a, b),
    lambda a, b: (a > b).long().cumsum(0),
    lambda a, b: torch.cat([a, b])[: len(a)],
    lambda a, b: a.sort().values,
    lambda a, b: a.flip(0).contiguous(),
    lambda a, b: a.masked_fill(b > 3, 7),
    lambda a, b: a.add_(b),
    lambda a, b: a.index_fill(0, torch.arange(2, device=a.device), 5),
    lambda a, b: a.clone().index_put_((b % len(a),), torch.ones_like(a)),
    lambda a, b: torch.nn.functional.one_hot(a % 8, 8).sum(-1) + a,
    lambda a, b: a.view(-1, 2).t().reshape(-1),
    lambda a, b: a.roll(1).to(torch.int32).long(),
)
READS = (
    lambda a, b: a.tolist(),
    lambda a, b: (a.max().item(), b.min().item(), int(a.sum())),
    lambda a, b: (bool((a > 100).any()), bool((a == b).all()), torch.equal(a, b)),
    lambda a, b: (a > b).nonzero().tolist(),
    lambda a, b: a[a > b].tolist(),
    lambda a, b: a.masked_select(b > 2).shape,
    lambda a, b: [part.tolist() for part in a.unique(return_counts=True)],
    lambda a, b: a.unique_consecutive().tolist(),
    lambda a, b: torch.bincount(b % 5).tolist(),
    lambda a, b: torch.repeat_interleave(b % 3).tolist(),
    lambda a, b: a.view(-1, 2)[:, 1].cpu().tolist(),
    lambda a, b: torch.nn.functional.one_hot(b % 8, 8).view(-1, 2, 8)[:, 0].tolist(),
)


OWN = torch.library.Library("mend_test", "DEF")  # like torchvision's, which keeps a mask's boxes
OWN.define("nms(Tensor boxes, Tensor scores) -> Tensor")
OWN.impl("nms", lambda boxes, scores: (scores > 0).nonzero().view(-1), "CUDA")


class Values(unittest.TestCase):
    def on_read(self, _bytes):
        return self.values.answer() or 0

    def setUp(self):
        self.listener = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_uint64)(self.on_read)
        ctypes.CDLL(None).mend_simulate_on_read(self.listener)
        self.addCleanup(ctypes.CDLL(None).mend_simulate_on_read, None)
        self.mode()

    def mode(self, value=0, given=None, line="x.py:1", number=None):
        self.counted = []
        self.values = _values.Values(
            value,
            given or {},
            lambda: line,
            lambda: False,
            lambda *said: self.counted.append(said),
            number,
        )
        return self.values

    def test_in_inference_mode_they_are_known_too(self):
        """Operators arrive there that consist of others."""
        with self.mode(), torch.inference_mode():
            mask = torch.cat([torch.tensor([[1, 0, 1]]).cuda(), torch.ones(1, 1).long().cuda()], 1)
            is_there = mask.to(torch.bool)
            self.assertEqual((is_there.all().item(), is_there.sum().item()), (False, 3))
            self.assertEqual(torch.where(is_there, 2, 5).tolist(), [[2, 5, 2, 2]])
        self.assertEqual(self.counted, [])

    def program(self, seed, device):
        chance = random.Random(seed)
        numbers = [[chance.randrange(10) for _ in range(16)] for _ in range(2)]
        a, b = (torch.tensor(one).to(device) for one in numbers)
        said = []
        for _ in range(40):
            if chance.random() < 0.6:
                a, b = chance.choice(OPERATORS)(a, b) % 50, a
            else:
                said.append(chance.choice(READS)(a, b))
        return said

    def test_programs_read_what_the_cpu_says(self):
        for seed in range(60):
            expected = self.program(seed, "cpu")
            with self.mode(), torch.inference_mode(seed % 3 == 0):
                self.assertEqual(self.program(seed, "cuda"), expected, seed)
            self.assertEqual(self.counted, [], seed)

    def test_what_comes_from_floats_is_guessed_and_counted(self):
        scores = torch.empty(6, 4, device="cuda")
        with self.mode():
            self.assertEqual(scores.argmax(-1).tolist(), [0] * 6)
            self.assertEqual(scores.topk(2).indices.tolist(), [[0, 1]] * 6)
            self.assertEqual(scores.argsort().tolist(), [[0, 1, 2, 3]] * 6)
            order = scores.sort(dim=0, stable=True).indices
            self.assertEqual(order.tolist(), [[i] * 4 for i in range(6)])
            self.assertEqual(int((scores > 0).sum()), 0)
            self.assertEqual(scores.sum().item(), 0)
        self.assertEqual(self.counted, [(True, False)] * 5 + [(False, False)])
        with self.mode(value=1):
            self.assertEqual(scores.argmax(-1).tolist(), [0, 1, 2, 3, 0, 1])
            self.assertEqual(scores.topk(2).indices[:2].tolist(), [[0, 1], [2, 3]])
            self.assertEqual(int((scores > 0).sum()), 24)
            self.assertEqual(len((scores > 0).nonzero()), 24)

    def test_numbers_have_no_ends(self):
        """Nor have choices among more than there are: the last is not among them."""
        scores = torch.empty(6, 4, device="cuda")
        with self.mode(value=1, number=0):
            self.assertEqual(int((scores > 0).sum()), 24)
            self.assertEqual(scores.argmax(-1).tolist(), [0, 1, 2, 3, 0, 1])
            self.assertEqual(scores[:2].argmax(-1).tolist(), [0, 0])
            self.assertEqual((scores.sum().item(), int(scores[0, 0].long())), (0, 0))

    def test_masks_that_decide_a_size_are_all_true_at_an_end(self):
        """Even those that exclude each other, and those of too many elements to have. What choices
        make is not: their sum is known."""
        scores = torch.empty(6, 4, device="cuda")
        many = torch.empty((1 << 20) + 1, device="cuda")
        for value, kept, count in ((0, 0, 1), (1, 24, 24), ("all", 24, 24)):
            with self.mode(value=value):
                labels = torch.zeros(6, 4, dtype=torch.int64, device="cuda")
                labels[scores < 0.3] = -1
                labels[(scores >= 0.3) & (scores < 0.7)] = -2
                for expected, found in (
                    (24 if value == "all" else 0, labels == -1),
                    (24 if value != 1 else 0, labels != -2),
                    (0, scores[:0] > 0),
                ):
                    self.assertEqual(len(torch.where(found)[0]), expected)
                self.assertEqual(len(many[many > 0.5]), len(many) if value else 0)
                parts = [torch.where(scores.argmax(-1) == i)[0] for i in range(4)]
                self.assertEqual(sum(map(len, parts)), 6)
                boxes = torch.empty(24, 4, device="cuda")
                found = torch.ops.mend_test.nms(boxes, boxes[:, 0])
                self.assertEqual(found.tolist(), list(range(count)))
            self.assertEqual(max(self.values.counts.values()), len(many))
        for given, count in ((0.25, 6), (3, 3), (100, 24)):
            with self.mode(value="all", given={"x.py:1": given}):
                self.assertEqual(len(torch.ops.mend_test.nms(boxes, boxes[:, 0])), count)

    def test_a_condition_that_is_turned_turns_no_number(self):
        scores = torch.empty(6, 4, device="cuda")
        for value in (False, True):
            with self.mode(value=int(not value), number=0, given={"x.py:1": value}):
                self.assertEqual(bool((scores > 0).all()), value)
                self.assertEqual((int(scores.sum()), scores[0, 0].long().item()), (0, 0))

    def test_floats_are_finite(self):
        """Whatever their number, so that checks for NaN decide nothing."""
        for count in (1, 1 << 22):
            floats = torch.empty(count, device="cuda")
            for value in (0, 1):
                with self.mode(value=value), torch.inference_mode(value == 1):
                    self.assertFalse(torch.isnan(floats).any() or torch.isinf(floats).any())
                    self.assertFalse((floats != floats).any())
                    self.assertTrue(torch.isfinite(floats).all())
                    self.assertTrue(bool((~(floats.isnan() | floats.isinf())).all()))
                    for part in (slice(None), slice(1)):  # by itself, and through a view
                        is_there = floats.isnan()
                        is_there[part].fill_(True)
                        self.assertEqual(bool(is_there.any()), value == 1 or count == 1)
                self.assertEqual(self.counted, [(True, False)] * 2 * (count > 1))
            with self.mode():
                self.assertFalse((floats == -math.inf).any())  # as a mask may be
            self.assertEqual(self.counted, [(True, False)])

    def test_many_floats_that_are_read_are_floats(self):
        with self.mode():
            torch.empty(1 << 21, device="cuda").cpu()
            torch.empty(2, 1 << 20, device="cuda").t().to("cpu")
            torch.ones(1 << 21).cuda().cpu()
        self.assertEqual(self.counted, [(False, False)] * 2)

    def test_sparse_tensors_are_passed(self):
        with self.mode(), torch.inference_mode():
            sparse = torch.eye(4).bool().to_sparse().cuda()
            self.assertEqual(sparse.cpu().indices().tolist(), [[0, 1, 2, 3]] * 2)
        self.assertEqual(self.counted, [])

    def test_what_is_given_is_read(self):
        scores = torch.empty(8, 4, device="cuda")
        with self.mode(given={"x.py:1": "balanced"}):
            self.assertEqual(torch.bincount(scores.argmax(-1)).tolist(), [2, 2, 2, 2])
        with self.mode(given={"x.py:1": 0.25}):
            self.assertEqual(int((scores > 0).sum()), 8)
        with self.mode(given={"x.py:1": 3}):
            self.assertEqual(scores.argmax(-1).tolist(), [3] * 8)
            self.assertEqual(int((scores > 0).sum()), 3)
        self.assertTrue(all(is_given for _, is_given in self.counted))
        mode = self.mode(given={"y.py:1": 4})
        with mode:
            self.assertEqual((scores > 0).sum().item(), 0)
        self.assertEqual(mode.used, {})

    def test_what_a_kernel_changes_in_place_is_known_no_more(self):
        number = torch.tensor([5.0]).cuda()
        with self.mode():
            self.assertEqual(number.item(), 5)
            number.add_(torch.empty(1, device="cuda"))
            number.item()
        self.assertEqual(self.counted, [(False, False)])

    def test_small_floats_of_what_is_known_are_computed(self):
        with self.mode():
            self.assertEqual((torch.tensor([1.5, 2]).cuda() * 2).tolist(), [3, 4])
            mask = torch.ones(16, 512, device="cuda")  # of floats, as BERT makes it
            self.assertTrue(torch.all(mask == 1).item())
        self.assertEqual(self.counted, [])

    def test_random_whole_numbers_are_drawn_and_change_no_other_draw(self):
        torch.manual_seed(3)
        expected = torch.rand(3).tolist()
        torch.manual_seed(3)
        with self.mode():
            drawn = torch.randint(5, 9, (1000,), device="cuda")
            self.assertEqual(sorted(set(drawn.tolist())), [5, 6, 7, 8])
        self.assertEqual(torch.rand(3).tolist(), expected)
        self.assertEqual(self.counted, [])

    def test_the_same_memory_is_asked_for(self):
        def step():
            model = torch.nn.Linear(64, 64, device="cuda")
            ids = torch.randint(0, 64, (32,), device="cuda")
            loss = torch.nn.functional.cross_entropy(model(torch.ones(32, 64).cuda()), ids)
            loss.backward()
            mask = ids > 3
            ids[mask.nonzero().view(-1)] = 0
            return torch.cuda.memory_stats()["requested_bytes.all.allocated"]

        step()
        before = torch.cuda.memory_stats()["requested_bytes.all.allocated"]
        with self.mode():
            with_it = step() - before
        mask_of_zeros = step() - before - with_it
        # nonzero() finds numbers then, which have 8 bytes each, twice.
        self.assertLess(abs(with_it - mask_of_zeros), 32 * 8 * 4)
