"""`libmend fit` over PyTorch: its answer beside the program's own numbers, and beside runs with
less memory."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import libmend
import torch
from programs import FolderTest, add_entry_point, finished

HELD = Path(__file__).resolve().parents[3] / "bench" / "held"
GIB = 1 << 30
MIB = 1 << 20
PREFIX = [sys.executable, "-m", "libmend", "fit"]
SAID = re.compile(r"in use at most ([\d,]+) MiB, held at most ([\d,]+) MiB")

MODEL = """
import sys, torch
from torch import nn
batch = int(sys.argv[1]) if len(sys.argv) > 1 else 64
with torch.device("cuda"):
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(4)])
optimizer = torch.optim.AdamW(model.parameters())
def step():
    loss = model(torch.randn(batch, 1024, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
"""


def takes(count):
    kept = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(count)]
    return kept, torch.empty(GIB, dtype=torch.uint8, device="cuda")


class Fit(FolderTest):
    def program(self, text, before="import sys, torch; from torch import nn\n"):
        path = self.folder / "program.py"
        path.write_text(before + textwrap.dedent(text))
        return str(path)

    def done(self, *words, **variables):
        return finished([*PREFIX, *map(str, words)], {**os.environ, **variables})

    def answer(self, status, *words, allocator="default", **variables):
        done = self.done("--json", f"--allocator={allocator}", *words, **variables)
        self.assertEqual(done.returncode, status, done.stdout[-2000:] + done.stderr)
        return json.loads(done.stdout)

    def test_it_says_what_the_program_says_of_itself(self):
        """Of each allocator, to the MiB that the program prints. Mend chooses places by how much
        memory there is."""
        found = self.answer(
            0, "--memory=24GiB", HELD / "train.py", allocator="default,expandable,mend"
        )
        add_entry_point(self.folder)
        path = os.pathsep.join([str(self.folder), os.environ["PYTHONPATH"]])
        settings = {
            "default": {},
            "expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
            "mend": {"MEND_TORCH": "1"},
        }
        for allocator, setting in settings.items():
            done = finished(
                [sys.executable, "-m", "libmend.simulate", "--memory=24GiB", HELD / "train.py"],
                {**os.environ, **setting, "PYTHONPATH": path},
            )
            said = [int(word.replace(",", "")) for word in SAID.search(done.stdout).groups()]
            column = found["columns"][allocator]
            sizes = [column["allocated_bytes"] / MIB, column["reserved_bytes"] / MIB]
            self.assertEqual([round(size) for size in sizes], said, allocator)
            self.assertLessEqual(column["allocated_bytes"], column["least_bytes"])
            self.assertLessEqual(column["least_bytes"], column["reserved_bytes"])
        self.assertEqual(found["row"]["ended"], "end")
        self.assertEqual(found["torch"], torch.__version__)
        lines = [owner["line"] for owner in found["owners"]]
        self.assertTrue(any(line.startswith("train.py:14 ") for line in lines), lines)
        if not hasattr(torch._C, "_cuda_getCublasWorkspaceSize"):  # else it is freed at each use
            self.assertIn("<cuBLAS> workspace", lines)

    def test_it_ends_when_peaks_repeat_and_needs_no_more_later(self):
        endless = self.program("while True: print(step().item())", MODEL)
        found = self.answer(0, endless)
        self.assertEqual(found["row"]["ended"], "peaks repeat")
        self.assertEqual(found["values"]["depends"], False)
        [(line, count)] = found["values"]["reads"]
        self.assertEqual((line, count), ("program.py:14", found["row"]["steps"] - 1))
        later = self.answer(0, "--steps=40", endless)
        self.assertEqual(later["row"]["steps"], 40)
        self.assertEqual(later["columns"], found["columns"])

    def test_a_step_is_one_of_all_optimizers(self):
        """Of two that take turns, and of one for each parameter, which steps in the backward."""
        turns = self.program("""
            other = nn.Linear(1024, 1024, device="cuda")
            second = torch.optim.SGD(other.parameters(), momentum=0.9)
            while True:
                step()
                other(torch.randn(3 * batch, 1024, device="cuda")).sum().backward()
                second.step()
                second.zero_grad()
            """, MODEL)
        row = self.answer(0, turns)["row"]
        self.assertEqual((row["ended"], row["steps_differ"]), ("peaks repeat", False))
        self.assertLess(row["steps"], 12)
        fused = self.program("""
            optimizers = {}
            def in_backward(parameter):
                optimizers[parameter].step()
                optimizers[parameter].zero_grad()
            for parameter in model.parameters():
                optimizers[parameter] = torch.optim.AdamW([parameter])
                parameter.register_post_accumulate_grad_hook(in_backward)
            for i in range(8):
                model(torch.randn(1000 * (i + 1), 1024, device="cuda")).square().mean().backward()
            """, MODEL)
        row = self.answer(0, fused)["row"]
        self.assertEqual((row["ended"], row["steps"], row["grew_at_step"]), ("end", 8, 8))

    def test_it_says_where_a_program_fails_that_does_not_fit(self):
        grows = self.program("""
            kept = []
            for i in range(10):
                step()
                kept.append(torch.empty(1 << 30, dtype=torch.uint8, device="cuda"))
            """, MODEL)
        found = self.answer(1, "--memory=4GiB", grows)
        [target] = found["targets"]
        verdict = target["verdicts"]["default"]
        self.assertEqual(verdict["what"], "does not fit")
        self.assertEqual((verdict["step"], verdict["line"]), (5, "program.py:18"))
        self.assertEqual(verdict["size_bytes"], GIB)
        self.answer(0, "--gpu=H200", grows)

    def test_programs_that_catch_out_of_memory_do_not_fit(self):
        catches = self.program("""
            try:
                torch.empty(3 << 30, dtype=torch.uint8, device="cuda")
            except RuntimeError:
                torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
            """)
        [target] = self.answer(1, "--memory=3GiB", catches)["targets"]
        self.assertEqual(target["verdicts"]["default"]["line"], "program.py:4")

    def test_the_largest_size_fits_and_the_next_does_not(self):
        program = self.program("while True: step()", MODEL)
        found = self.answer(
            0, "--memory=2GiB", "--largest=batch=1000..200000:1000", "--", program, "{batch}",
            allocator="default,mend",
        )  # fmt: skip
        largest = found["targets"][0]["largest"]
        self.assertGreater(largest["mend"], 1000)
        for size, what in ((largest["mend"], "fits"), (largest["mend"] + 1000, "does not fit")):
            done = self.done("--json", "--memory=2GiB", "--allocator=mend", "--", program, size)
            verdict = json.loads(done.stdout)["targets"][0]["verdicts"]["mend"]["what"]
            self.assertIn(verdict, (what, "not sure"))
        self.answer(1, "--memory=1GiB", "--largest=b=200000..200001", "--", program, "{b}")

    def test_a_limit_for_ci(self):
        program = self.program('torch.empty(1 << 30, device="cuda", dtype=torch.uint8)', MODEL)
        self.answer(0, "--fail-above=2GiB", program)
        self.answer(1, "--fail-above=1GiB", program)

    def test_memory_that_depends_on_values_is_not_known(self):
        program = self.program("""
            for _ in range(3):
                count = int(torch.rand(1, device="cuda") * 100)
                torch.empty((1 + count) << 20, dtype=torch.uint8, device="cuda")
            """)
        found = self.answer(3, "--memory=24GiB", program)
        self.assertEqual(found["values"]["reads"], [["program.py:4", 3]])
        self.assertEqual(found["targets"][0]["verdicts"]["default"]["what"], "not known")
        done = self.done("--allocator=default", program)
        self.assertTrue(done.stdout.startswith("NOT KNOWN: "), done.stdout)

    def test_masks_and_choices_have_two_ends_which_both_must_fit(self):
        """With room for their difference again. A number has no ends."""
        program = self.program("""
            x = torch.rand(100, device="cuda")
            torch.empty(int(x.sum()) << 10, dtype=torch.uint8, device="cuda")
            kept = torch.empty((1 + int((x > 0.5).sum())) << 20, dtype=torch.uint8, device="cuda")
            if sys.argv[1] == "number":
                torch.empty(int(x.sum()) << 20, dtype=torch.uint8, device="cuda")
            """)
        found = self.answer(3, program, "number")
        self.assertFalse(found["values"]["is_known"])
        found = self.answer(0, "--memory=2GiB", program, "mask")
        column = found["columns"]["default"]
        self.assertAlmostEqual(column["allocated_least_bytes"] / MIB, 1, 1)
        self.assertAlmostEqual(column["allocated_bytes"] / MIB, 101, -1)
        least, most = column["need"].values()
        self.assertLess(least, found["targets"][0]["beside_bytes"][0] + 2 * MIB)
        self.assertGreater(most, found["targets"][0]["beside_bytes"][1] + 201 * MIB)
        done = self.done("--allocator=default", program, "mask")
        self.assertTrue(done.stdout.startswith("ASSUMED: the memory depends on masks"), done.stdout)
        beyond = found["targets"][0]["beside_bytes"][1]
        for size, status in ((90, 3), (190, 3), (210, 0)):  # of the allocator
            self.answer(status, f"--memory={beyond + size * MIB}", program, "mask")

    def test_masks_that_exclude_each_other_have_an_upper_end(self):
        """All of them true at once would keep nothing, as with all of them false. The same under
        Mend, whose blocks are known to be new too, and with more elements than are looked at."""
        program = self.program("""
            for count in (100, (1 << 20) + 4):
                x = torch.rand(count, device="cuda")
                kind = torch.zeros(count, dtype=torch.int64, device="cuda")
                kind[x < 0.3] = 1
                kind[(x >= 0.3) & (x < 0.7)] = 2
                size = len(torch.where(kind == 1)[0]) << (20 if count == 100 else 7)
                kept = torch.empty(size, dtype=torch.uint8, device="cuda")
                del kept
                if sys.argv[1] == "number":
                    torch.empty(int(x[0] * 9) << 24, dtype=torch.uint8, device="cuda")
            """)
        found = self.answer(3, "--memory=2GiB", program, "number")
        self.assertFalse(found["values"]["is_known"], "a number counts below the masks' peak, too")
        found = self.answer(0, "--memory=2GiB", program, "mask", allocator="default,mend")
        for name, column in found["columns"].items():
            least, most = (column[f"allocated{end}_bytes"] / MIB for end in ("_least", ""))
            self.assertLess(least, 40, name)
            self.assertGreater(most, 128, name)
        [line, most] = found["values"]["counts"][0]
        self.assertEqual((line.partition(" ")[0], most), ("program.py:8", (1 << 20) + 4))

    def test_a_condition_that_a_program_fails_by_is_turned(self):
        program = self.program("""
            x = torch.rand(8, device="cuda")
            if not (x[1:] >= 0).all():
                raise ValueError("negative")
            assert bool((x < 2).all())
            if sys.argv[1] == "never":
                raise ValueError(f"always: {x}")
            torch.empty((1 + int((x > 0.5).sum())) << 20, dtype=torch.uint8, device="cuda")
            """)
        found = self.answer(0, "--memory=2GiB", program, "once")
        self.assertEqual(found["turned"], {"program.py:4": True, "program.py:6": True})
        done = self.done("--allocator=default", program, "once")
        said = "ASSUMED: program.py:4 reads 1 (the program fails otherwise)."
        self.assertTrue(done.stdout.startswith(said), done.stdout)
        done = self.done("--allocator=default", program, "never")
        self.assertEqual(done.returncode, 2)
        self.assertIn("the program failed: ValueError: always", done.stderr)

    def test_the_largest_size_fits_at_both_ends(self):
        """As a verdict on that size does, and on the next does not."""
        program = self.program("""
            x = torch.rand(int(sys.argv[1]), device="cuda")
            torch.empty((1 + int((x > 0.5).sum())) << 20, dtype=torch.uint8, device="cuda")
            """)
        found = self.answer(0, "--memory=2GiB", "--largest=n=10..2000", "--", program, "{n}")
        self.assertTrue(found["values"]["depends"] and found["values"]["is_known"])
        [target] = found["targets"]
        largest = target["largest"]["default"]
        for size, status in ((largest, 0), (largest + 1, 3)):
            self.answer(status, "--memory=2GiB", "--", program, size)

    def test_what_the_user_gives_is_taken_and_said(self):
        program = self.program("""
            mask = torch.rand(100, device="cuda") > 0.5
            torch.empty((1 + int(mask.sum())) << 20, dtype=torch.uint8, device="cuda")
            """)
        self.assertEqual(self.answer(0, program)["row"]["given"], {})
        for line, value, size in ((3, 0.5, 51 * MIB), (4, 30, 31 * MIB)):
            given = f"--value=program.py:{line}={value}"
            found = self.answer(0, given, "--memory=24GiB", program)
            self.assertEqual(found["row"]["given"], {f"program.py:{line}": value})
            column = found["columns"]["default"]
            self.assertAlmostEqual(column["allocated_bytes"], size, delta=2 * MIB)
            done = self.done("--allocator=default", given, program)
            self.assertTrue(done.stdout.startswith(f"ASSUMED: program.py:{line} reads"))
        done = self.done("--value=program.py:9=1", program)
        self.assertEqual(done.returncode, 2)
        self.assertIn("program.py:9: no value that only a GPU computes is read there", done.stderr)

    def test_experts_are_chosen_by_values_and_may_be_balanced(self):
        """One expert in use needs less than four: without a word of the user it is between."""
        program = self.program("""
            experts = nn.ModuleList(nn.Linear(1024, 4096) for _ in range(4)).cuda()
            optimizer = torch.optim.AdamW(experts.parameters())
            router = nn.Linear(1024, 4).cuda()
            while True:
                x = torch.randn(512, 1024, device="cuda")
                chosen = router(x).topk(1).indices[:, 0]
                loss = 0
                for i, expert in enumerate(experts):
                    at = torch.where(chosen == i)[0]
                    if len(at):
                        loss = loss + expert(x[at]).square().sum()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            """)
        found = self.answer(0, program)
        self.assertLess(found["values"]["with_zeros_bytes"], found["values"]["with_ones_bytes"])
        balanced = self.answer(0, "--value=program.py:8=balanced", program)
        column = balanced["columns"]["default"]
        self.assertEqual(column["allocated_bytes"], found["values"]["with_ones_bytes"])

    def test_a_function_of_this_program_is_asked_about(self):
        answer = libmend.fit(
            takes, 3, options=f"--memory 4GiB --allocator default -o {self.folder / 'page.html'}"
        )
        self.assertIs(answer.fits, False)
        [target] = answer.answer["targets"]
        line = takes.__code__.co_firstlineno + 2
        found = target["verdicts"]["default"]["line"]
        self.assertEqual(found, f"torch_fit_real.py:{line} takes", answer)
        self.assertIn("takes(): PyTorch", repr(answer))
        page = (self.folder / "page.html").read_text()
        self.assertIn("<h1>a GPU of 4.00 GiB: does not fit", page)
        self.assertIs(libmend.fit(takes, 1, options="--memory 4GiB --allocator default").fits, True)

    def test_random_orders_of_steps_that_differ(self):
        program = self.program("""
            import random
            for i in range(80):
                batch = random.Random(i).randrange(1000, 30000)
                step()
            """, MODEL)
        found = self.answer(0, "--memory=24GiB", program, allocator="default,mend")
        [counts] = found["orders"]["ran_out"].values()
        self.assertEqual(counts, {"default": [0, 4], "mend": [0, 4]})
        self.assertEqual(found["orders"]["steps"], 2002)

    def test_loops_that_count_on_the_gpu_end(self):
        """As generate() of transformers: all have reached their length, or an end was chosen."""
        program = self.program("""
            tokens = torch.randint(5, 1000, (2, 8), device="cuda")
            unfinished = torch.ones(2, dtype=torch.long, device="cuda")
            while unfinished.max() != 0:
                chosen = torch.randn(2, 1000, device="cuda").argmax(-1)
                tokens = torch.cat([tokens, chosen[:, None]], -1)
                is_long = torch.full((2,), tokens.shape[1] >= 40, device="cuda")
                unfinished = unfinished & ~(is_long | torch.isin(chosen, torch.tensor(999).cuda()))
            assert tokens.shape == (2, 40), tokens.shape
            torch.empty(int(unfinished.sum() + 1) << 20, dtype=torch.uint8, device="cuda")
            """)
        found = self.answer(0, program)
        self.assertEqual(found["row"]["ended"], "end")
        self.assertEqual(dict(found["row"]["whole_reads"])["program.py:5"], 32)
        done = self.done("--allocator=default", program)
        self.assertTrue(done.stdout.startswith("ASSUMED: memory does not depend on"), done.stdout)

    def test_what_the_program_has_copied_itself_is_known(self):
        program = self.program("""
            lengths = torch.tensor([5, 7]).cuda()
            torch.empty(int(lengths[1]) << 20, dtype=torch.uint8, device="cuda")
            """)
        found = self.answer(0, program)
        self.assertEqual(found["values"]["reads"], [])
        self.assertGreater(found["columns"]["default"]["allocated_bytes"], 7 * MIB)

    def test_a_program_that_plans_by_what_is_free_runs_on_each_card(self):
        program = self.program("""
            kept = torch.empty(4 << 30, dtype=torch.uint8, device="cuda")
            cache = torch.empty(torch.cuda.mem_get_info()[0] * 9 // 10, dtype=torch.uint8,
                                device="cuda")
            work = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
            """)
        found = self.answer(1, "--gpu=H100,L4,T4", "--memory=5GiB", program)
        self.assertEqual(found["row"]["asks_free"], "program.py:4")
        verdicts = [one["verdicts"]["default"] for one in found["targets"]]
        whats = [verdict["what"] for verdict in verdicts]
        self.assertEqual(whats, ["fits", "fits", "not sure", "does not fit"])
        self.assertEqual(verdicts[3]["line"], "program.py:6")
        self.assertEqual(self.answer(0, program)["columns"]["default"]["smallest_card"], "L4")

    def test_a_program_that_asks_how_much_memory_there_is_reads_the_cards(self):
        """One that tells it only is answered as if it had not asked."""
        program = self.program("""
            total = torch.cuda.get_device_properties(0).total_memory
            plans = sys.argv[1] == "plans"
            kept = torch.empty(total // 4 if plans else 1 << 30, dtype=torch.uint8, device="cuda")
            q = torch.empty(4, 8, 1024, 64, dtype=torch.bfloat16, device="cuda")
            torch.nn.functional.scaled_dot_product_attention(q, q, q)  # on a T4 it takes more
            """)
        plans = self.answer(0, "--gpu=T4,L4", program, "plans")
        self.assertEqual((plans["plans"], plans["row"]["asks_free"]), (True, "program.py:3"))
        used = plans["columns"]["default"]["allocated_bytes"] / GIB
        self.assertAlmostEqual(used, 14.56 / 4, 0)  # of the first card
        tells = self.answer(0, program, "tells")
        self.assertEqual((tells["plans"], tells["row"]["asks_free"]), (False, "program.py:3"))
        self.assertGreaterEqual(tells["columns"]["default"]["least_bytes"], GIB)

    def test_a_loss_scaler_finds_no_overflow(self):
        program = self.program("""
            scaler = torch.amp.GradScaler()
            while True:
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = model(torch.randn(batch, 1024).cuda()).square().mean()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
            """, MODEL)
        self.assertFalse(self.answer(0, program)["values"]["depends"])

    def test_a_peak_that_the_program_forgets_is_kept(self):
        program = self.program("""
            torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
            torch.cuda.reset_peak_memory_stats()
            """)
        column = self.answer(0, program)["columns"]["default"]
        self.assertGreaterEqual(column["allocated_bytes"], GIB)

    def test_streams_that_share_memory_are_run_with_kernels_of_several_times(self):
        program = self.program("""
            streams = [torch.cuda.Stream() for _ in range(2)]
            for i in range(8):
                with torch.cuda.stream(streams[i % 2]):
                    block = torch.empty(1 << 28, dtype=torch.uint8, device="cuda")
                    for _ in range(40):
                        block.add_(1)
                    block.record_stream(torch.cuda.current_stream())
                    block.record_stream(streams[(i + 1) % 2])
                    del block
            """)
        found = self.answer(0, program)
        self.assertEqual(found["ways"], [{}, {"kernel_ns": 1000}, {"kernel_ns": 1000000}])
        column = found["columns"]["default"]
        self.assertLess(column["reserved_least_bytes"], column["reserved_bytes"])
        self.assertIn(" to ", self.done("--allocator=default", program).stdout.split("held")[1])

    def test_workspaces_are_a_range(self):
        """The memory of cuDNN is not known: none, or a copy of a convolution's data. Fits is said
        where it fits with the most."""
        program = self.program("""
            net = nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64)).cuda().half()
            for _ in range(2):
                net(torch.empty(32, 64, 128, 128, device="cuda").half()).sum().backward()
            """)
        found = self.answer(0, program)
        self.assertEqual(found["row"]["unknown"], ["cuDNN's convolutions"])
        self.assertEqual(found["ways"], [{}, {"workspaces": "most"}])
        column = found["columns"]["default"]
        least, most = column["allocated_least_bytes"], column["allocated_bytes"]
        operand = 2 * 32 * 64 * 128 * 128
        self.assertLess(least + operand // 2, most)
        self.assertLess(most, least + 2.1 * operand)
        self.answer(0, "--memory=4GiB", program)
        self.answer(1, f"--memory={least // 2}", program)

    def test_convolutions_recurrent_networks_and_attention_run(self):
        program = self.program("""
            def step(module, *sizes, dtype=torch.float, **more):
                found = module.cuda().to(dtype)(torch.empty(*sizes, device="cuda", dtype=dtype))
                (found[0] if isinstance(found, tuple) else found).sum().backward()
            step(nn.Conv1d(4, 8, 3), 2, 4, 32)
            step(nn.Conv2d(8, 8, 3, groups=8), 2, 8, 32, 32, dtype=torch.bfloat16)
            step(nn.Conv3d(4, 8, 3), 2, 4, 8, 8, 8)
            step(nn.ConvTranspose2d(4, 8, 3), 2, 4, 8, 8)
            step(nn.LSTM(8, 16, 2, bidirectional=True, dropout=0.1, proj_size=4), 5, 2, 8)
            step(nn.GRU(8, 16), 5, 2, 8)
            scores = torch.empty(50, 4, 20, device="cuda", requires_grad=True)
            lengths = [50] * 4, [10] * 4
            labels = torch.ones(40, dtype=torch.int32)
            for to in list, torch.tensor:  # the lengths, and on the CPU
                few = [to(one) for one in lengths]
                nn.functional.ctc_loss(scores.log_softmax(2), labels, *few).backward()
            nn.functional.ctc_loss(scores.log_softmax(2), labels.cuda(), *few).backward()
            torch.backends.cudnn.benchmark = True
            step(nn.Conv2d(3, 8, 3), 2, 3, 32, 32)
            with nn.attention.sdpa_kernel(nn.attention.SDPBackend.CUDNN_ATTENTION):
                q = torch.empty(2, 8, 128, 64, device="cuda", dtype=torch.half, requires_grad=True)
                nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
            """)
        parts = ["convolutions", "attention", "recurrent networks", "batch norm and CTC"]
        unknown = self.answer(0, "--gpu=H100", program)["row"]["unknown"]
        self.assertEqual(unknown, [f"cuDNN's {part}" for part in parts])

    def test_what_triton_compiles_runs(self):
        program = self.program("""
            compiled = torch.compile(lambda x: (x.sin() + 1).cos(), mode="reduce-overhead")
            x = torch.empty(1 << 26, device="cuda")
            for _ in range(3):
                torch.compiler.cudagraph_mark_step_begin()
                y = compiled(x)
            """)
        column = self.answer(0, "--seconds=600", "--gpu=H100", program)["columns"]["default"]
        # x, and y twice: all else is fused away.
        self.assertEqual(column["allocated_bytes"] >> 26, 12)

    def test_a_run_that_compiles_is_made_again(self):
        """It measures kernels, with memory that later runs do not take. Lines are the program's."""
        program = self.program("""
            @torch.compile
            def normed(x, y):
                return (torch.softmax(x, -1) * y).sum(-1)
            x = torch.empty(1 << 12, 1 << 12, device="cuda")
            for _ in range(3):
                normed(x, torch.empty(1 << 12, 1 << 12, device="cuda"))
            """)
        found = self.answer(
            0, "--seconds=600", "--gpu=H100", program, MEND_CACHE_DIR=str(self.folder)
        )
        first, second, *later = found["runs"]
        compiles = [one["compiles"] for one in (first, second, *later)]
        self.assertEqual(compiles, [True] + [False] * (len(later) + 1))
        self.assertEqual(found["values"], {"reads": [], "depends": False, "is_known": True})
        self.assertEqual(found["row"]["reserved_bytes"], second["reserved_bytes"])
        self.assertEqual(found["cold_bytes"], first["reserved_bytes"])
        lines = [owner["line"].split(" ")[0] for owner in found["owners"]]
        self.assertLessEqual({"program.py:6", "program.py:8"}, set(lines))
        self.assertEqual({line.partition(":")[0] for line in lines}, {"program.py"})

    def test_one_of_several_ranks(self):
        """Parameters P on 8 ranks: DDP holds them, their gradients as buckets, and AdamW's two
        states. FSDP an eighth of it, and no more than two blocks as a whole."""
        program = self.program("""
            import datetime, os, sys
            import torch.distributed as dist
            from torch.distributed.fsdp import fully_shard
            dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=60))
            device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            with device:
                model = nn.Sequential(*[nn.Linear(4096, 4096, bias=False) for _ in range(16)])
            if sys.argv[1] == "ddp":
                model = nn.parallel.DistributedDataParallel(model, device_ids=[device.index])
            else:
                for part in model:
                    fully_shard(part)
                fully_shard(model)
            assert dist.get_world_size(dist.new_group(range(4), backend="nccl")) == 4
            optimizer = torch.optim.AdamW(model.parameters())
            for _ in range(3):
                model(torch.empty(8, 4096, device=device)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
                torch.cuda.empty_cache()
            ranks = [None] * dist.get_world_size()
            dist.all_gather_object(ranks, dist.get_rank())
            assert ranks == [0] * 8, ranks
            dist.barrier()
            dist.destroy_process_group()
            """)
        run = ["--", sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=8", program]
        sizes = {}
        for way in ("ddp", "fsdp"):
            found = self.answer(0, *run, way)
            self.assertEqual(found["world_size"], 8)
            sizes[way] = found["columns"]["default"]["allocated_bytes"] / GIB  # P is 1 GiB
        self.assertLess(5, sizes["ddp"])
        self.assertLess(sizes["ddp"], 6.5)
        self.assertLess(3 / 8, sizes["fsdp"])
        self.assertLess(sizes["fsdp"], 2.5)

    def test_a_mesh_begins_the_ranks_itself(self):
        program = self.program("""
            import torch.distributed as dist
            from torch.distributed.device_mesh import init_device_mesh
            mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=("dp", "tp"))
            assert (dist.get_world_size(), mesh["tp"].size()) == (8, 4)
            torch.empty(1 << 20, device="cuda")
            """)
        self.assertEqual(self.answer(0, "--world-size=8", program)["row"]["ended"], "end")

    def test_another_card_is_another_program(self):
        """PyTorch chooses by the card: attention in bfloat16 takes a matrix before 8.0."""
        program = self.program("""
            q = torch.empty(8, 16, 2048, 64, dtype=torch.bfloat16, device="cuda")
            torch.nn.functional.scaled_dot_product_attention(q, q, q)
            print(torch.cuda.get_device_name())
            """)
        sizes = [
            self.answer(0, f"--gpu={card}", program)["columns"]["default"]["allocated_bytes"]
            for card in ("T4", "RTX3090")
        ]
        self.assertGreater(sizes[0], 4 * sizes[1])

    def test_a_card_that_cannot_run_it_is_passed_over_and_told(self):
        program = self.program("""
            assert torch.cuda.get_device_capability() >= (8, 0), "no flash attention"
            torch.empty(1 << 20, device="cuda")
            """)
        why = {"T4": "failed: AssertionError: no flash attention"}
        found = self.answer(0, program)
        self.assertEqual(found["columns"]["default"]["smallest_card"], "L4")
        self.assertEqual(found["elsewhere"], why)
        found = self.answer(3, "--gpu=L4,T4", program)
        whats = [one["verdicts"]["default"]["what"] for one in found["targets"]]
        self.assertEqual((whats, found["elsewhere"]), (["fits", "does not run"], why))

    def test_lines_of_an_installed_module_that_is_run_are_the_programs(self):
        packages = self.folder / "site-packages" / "trains"
        packages.mkdir(parents=True)
        text = "import torch\nkept = torch.empty(1 << 20, device='cuda')\nkept.sum().item()"
        (packages / "main.py").write_text(text)
        path = os.pathsep.join([os.environ["PYTHONPATH"], str(packages.parent)])
        found = self.answer(0, "--", sys.executable, "-m", "trains.main", PYTHONPATH=path)
        self.assertEqual(found["owners"][0]["line"], "main.py:2")
        self.assertEqual(found["row"]["reads"], [["main.py:3", 1]])

    def test_modules_and_texts_are_programs_too(self):
        text = "import torch, sys; torch.empty(int(sys.argv[1]), device='cuda')"
        (self.folder / "part.py").write_text(text)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        self.answer(0, "--", sys.executable, "-m", "part", 1 << 20)
        self.answer(0, "--", sys.executable, "-u", "-c", text, 1 << 20)

    def test_an_import_that_uses_the_gpu_spoils_nothing(self):
        packages = self.folder / "site-packages"
        packages.mkdir()
        path = os.pathsep.join([os.environ["PYTHONPATH"], str(packages)])
        uses = "import torch\ntorch.zeros(1, device='cuda')"
        counts = "import ctypes\nctypes.CDLL(None).cudaGetDeviceCount(ctypes.byref(ctypes.c_int()))"
        asks = (
            "import os, sys, torch\nfound, process = torch.cuda.is_available(), os.getpid()\n"
            "arguments = sys.argv[1:]"
        )
        for text in (uses, counts, asks):
            (packages / "eager.py").write_text(text)
            program = self.program("torch.empty(1 << 30, device='cuda')", "import torch, eager\n")
            self.answer(1, "--memory=2GiB", program, PYTHONPATH=path)
        program = self.program("""
            import eager, os
            assert eager.found and eager.process == os.getppid()  # it was not imported anew
            assert eager.arguments == ["--size", "8"], eager.arguments
            torch.empty(1, device="cuda")
            """)
        self.answer(0, "--", program, "--size", 8, PYTHONPATH=path)

    def test_what_goes_wrong_is_said(self):
        for text, said in (
            ("raise ValueError('lost')", "the program failed: ValueError: lost"),
            ("sys.exit(4)", "the program ended with status 4"),
            ("import os; os.abort()", "the program failed: SIGABRT"),
            ("print(1)", "the program has not used the GPU"),
            (
                "import ctypes; lock = ctypes.create_string_buffer(64)\n"
                "for _ in 'ab': ctypes.CDLL(None).pthread_mutex_lock(lock)",
                "the program hangs outside of Python: it does not end after 2 s",
            ),
            ("torch.empty(1 << 41, device='cuda', dtype=torch.uint8)", "runs out of memory on"),
            ("torch.fft.rfft(torch.empty(8).cuda())", "docs/fit.md#limits"),
            (
                "assert int(torch.rand(8, device='cuda').argmax()) == 3",
                "They are 0 here, at program.py:2 (1x).\nGive one: --value FILE:LINE=VALUE",
            ),
        ):
            program = self.program(text)
            seconds = ["--seconds=2"] if "2 s" in said else []
            done = self.done("--allocator=default", *seconds, program)
            self.assertEqual(done.returncode, 2, said)
            self.assertIn(said, done.stderr)

    def test_a_run_that_does_not_end_is_stopped_and_says_so(self):
        program = self.program("torch.empty(1, device='cuda')\nwhile True: pass")
        terminal, beside = os.openpty()
        for one in (terminal, beside):
            self.addCleanup(os.close, one)
        command = [*PREFIX, "--allocator=default", "--seconds=1", program]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=beside, check=False)
        self.assertIn("run 2: PyTorch's default, ", os.read(terminal, 1 << 16).decode())
        self.assertEqual(done.returncode, 3)
        self.assertTrue(done.stdout.startswith(b"NOT THE END: "), done.stdout)
