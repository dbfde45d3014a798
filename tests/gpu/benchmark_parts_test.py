#!/usr/bin/python3
"""The parts of the GPU benchmarks (tests/benchmarks/gpu): their arithmetic, the floor, records of a
machine, files. usage: tests/gpu/benchmark_parts_test.py [-v]"""
import contextlib
import dataclasses
import importlib
import io
import json
import os
import pathlib
import subprocess
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pretend import BENCHMARKS, Pretended  # its folder of benchmarks comes first in sys.path

import floor
import machine
import peers
import table
import training
from models import MODELS
from programs import Failed
from results import Results, read_json, spread


class Arithmetic(unittest.TestCase):
    def test_models_have_the_published_numbers_of_parameters(self):
        self.assertEqual({name: m.parameters() for name, m in MODELS.items()},
                         {"gpt2-124m": 124439808, "gpt2-1558m": 1557611200, "llama-1b": 1235814400})

    def test_tables_are_padded_as_each_pads_them(self):
        m = MODELS["gpt2-124m"]
        self.assertEqual((m.table_rows, m.pytorch_table_rows), (50264, 50304))

    def test_products_add_up_to_the_flops_of_the_causal_convention(self):
        for m in MODELS.values():
            m, total = dataclasses.replace(m, vocab=m.table_rows), 0
            for line, times in m.product_jobs(2):
                kind, what, *numbers = line.split()
                numbers = list(map(int, numbers))
                if kind == "gemm":
                    total += times * 2 * numbers[0] * numbers[1] * numbers[2]
                else:  # two products of half the scores forward, twice as much backward
                    batch, sequence, heads, _, dim = numbers
                    passes = 1 if what == "forward" else 2
                    total += times * passes * 2 * batch * sequence**2 * heads * dim
            self.assertEqual(total, m.flops_per_token()["causal"] * 2 * m.sequence)

    def test_a_spread_leaves_the_warm_up_out(self):
        found = spread([100, 90, 80, 70, 60, 1, 5, 2, 4, 3])
        self.assertEqual(len(found.pop("all")), 10)
        self.assertEqual(found, {"median": 3, "min": 1, "max": 5, "iqr": 2, "count": 5,
                                 "warm_up": 5})

    def test_of_few_steps_five_count(self):
        self.assertEqual(spread([9, 1, 2, 3, 4, 5])["warm_up"], 1)
        with self.assertRaisesRegex(Failed, "4 steps are too few: 5 must count"):
            spread([1, 2, 3, 4])


class Floor(unittest.TestCase):
    """Two layers of width 8 with one head, one sequence of 4: sums that can be made by hand."""
    MODEL = dataclasses.replace(MODELS["gpt2-124m"], layers=2, width=8, heads=1, kv_heads=1, ffn=32,
                                vocab=8, sequence=4)

    def rows(self, attention_ms=1000.0):
        jobs = [line for line, _ in self.MODEL.product_jobs(1)]
        return [{"job": line, "ms": 1.0, "tflops": 100.0} if line.startswith("gemm") else
                {"job": line, "ms": attention_ms, "tflops": 1.0} for line in jobs] + \
            [{"job": floor.COPY, "ms": 1.0, "gb_per_s": 1.0}]

    @staticmethod
    def backends(**ms):
        return [{"shape": "1 4 1 1 8", "backend": name, "direction": direction, "ms": time}
                for name, times in ms.items()
                for direction, time in zip(("forward", "backward"), times)]

    def test_attention_is_that_of_the_best_backend_and_never_ours(self):
        backends = self.backends(flash=(2.0, 4.0), cudnn=(3.0, 2.5), math=(0.1, None))
        for ours in (1000.0, 0.001):
            found = floor.floor(self.MODEL, 1, 3, self.rows(ours), backends)
            self.assertAlmostEqual(found["parts_ms"]["attention"], 3 * 2 * 5.5)
            self.assertEqual(found["attention"], "PyTorch's cudnn attention, measured")

    def test_without_a_backend_attention_has_a_share_of_the_best_product(self):
        found = floor.floor(self.MODEL, 1, 1, self.rows(), self.backends(cudnn=(None, None)))
        flops = 3.5 * 2 * 4 * 4 * 8  # of a layer
        self.assertAlmostEqual(found["parts_ms"]["attention"], 2 * flops / 60e12 * 1e3)
        self.assertIn("60 TFLOP/s: no other attention was measured", found["attention"])

    def test_other_shapes_do_not_count(self):
        self.assertIsNone(floor.best_backend(self.backends(cudnn=(1.0, 1.0)), "2 4 1 1 8"))

    def test_products_and_bytes(self):
        found = floor.floor(self.MODEL, 1, 2, self.rows())["parts_ms"]
        self.assertAlmostEqual(found["products"], 2 * (2 * 4 * 3 + 3))  # layers and the head
        self.assertAlmostEqual(found["other kernels"], 2 * self.MODEL.micro_batch_bytes(1) / 1e6)
        self.assertAlmostEqual(found["update"], self.MODEL.update_bytes() / 1e6)


class PyTorchModel(unittest.TestCase):
    """pytorch_model.py where there is no PyTorch: its modules do nothing."""

    def setUp(self):
        torch = mock.MagicMock(__version__="2.0")
        torch.nn.Module = object
        torch.version.cuda = None
        torch.cuda.is_available.return_value = False
        torch._C._get_sdp_priority_order.side_effect = AttributeError
        names = ("torch.nn", "torch.nn.functional", "torch.nn.attention")
        modules = {"torch": torch, **{name: mock.MagicMock() for name in names}}
        modules["torch.nn"] = torch.nn
        patch = mock.patch.dict(sys.modules, modules)
        patch.start()
        self.addCleanup(patch.stop)
        for name in ("sdpa", "pytorch_model"):
            sys.modules.pop(name, None)
        self.model = importlib.import_module("pytorch_model")

    def printed(self, what_ran):
        loss = mock.MagicMock()
        loss.detach.return_value = 10.5
        words = ["pytorch_model.py", "gpt2-124m", "--micro-batch", "1", "--device", "cpu"]
        with contextlib.redirect_stdout(io.StringIO()) as out, mock.patch("sys.argv", words), \
                mock.patch.object(self.model, "make", lambda *_: lambda: loss), \
                mock.patch.object(self.model, "what_ran", what_ran):
            self.model.main()
        return [json.loads(line) for line in out.getvalue().splitlines()]

    def test_steps_are_printed_before_the_attention_is_looked_for(self):
        ran = {"backends": ["flash"], "kernels": []}
        first, last = self.printed(lambda *_: ran)
        self.assertEqual(len(first["times_ms"]), 20)
        self.assertEqual(first["attention"]["reason"], "the program ended before")
        self.assertEqual(last, first | {"attention": ran})

    def test_a_profiler_that_fails_leaves_its_reason(self):
        lines = self.printed(mock.Mock(side_effect=RuntimeError("no CUPTI")))
        self.assertEqual(lines[-1]["attention"],
                         {"backends": [], "kernels": [], "reason": "RuntimeError: no CUPTI"})

    def test_blocks_and_the_head_are_compiled_each(self):
        parts = [mock.Mock() for _ in range(3)]
        a = mock.Mock(compile=True, weights="fp32", micro_batches=1, device="cpu")
        whole = mock.Mock(blocks=parts[:2], head=parts[2])
        whole.parameters.return_value = [mock.Mock(**{"numel.return_value": 124439808 + 47 * 768})]
        with mock.patch.object(self.model, "Transformer", return_value=whole):
            self.model.make(a, MODELS["gpt2-124m"])
        for part in parts:
            part.compile.assert_called_once_with()


WITH_PYTORCH = f"""
import dataclasses, sys
sys.path.insert(0, {str(BENCHMARKS)!r})
import torch
import pytorch_model
from models import MODELS
for m in MODELS.values():
    m = dataclasses.replace(m, layers=1, width=64, heads=2, kv_heads=2, ffn=64, vocab=64,
                            sequence=8)
    model = pytorch_model.Transformer(m)
    parts = [p for part in pytorch_model.compiled_parts(model) for p in part.parameters()]
    names = [name for name, p in model.named_parameters() if not any(p is q for q in parts)]
    x, table, tokens = torch.randn(2, 8, 64), model.tokens.weight, torch.arange(16).view(2, 8)
    loss = model.head(x, table, tokens)
    logits = model.head.norm(x) @ table.T
    expected = (logits.logsumexp(-1) - logits.gather(-1, tokens[..., None])[..., 0]).mean()
    assert torch.allclose(loss, expected), (loss, expected)
    print(*names)
"""


class WithPyTorch(unittest.TestCase):
    def test_only_the_embedding_is_not_compiled(self):
        places = (sys.executable, BENCHMARKS.parents[2] / "build/peers/bin/python3")
        find = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"
        python = next((place for place in places if pathlib.Path(place).exists()
                       and subprocess.run([place, "-c", find]).returncode == 0), None)
        if python is None:
            self.skipTest("no PyTorch: neither of this Python nor in build/peers")
        job = subprocess.run([python, "-c", WITH_PYTORCH], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        self.assertEqual(job.returncode, 0, job.stderr)
        gpt2 = "tokens.weight positions.weight"
        self.assertEqual(job.stdout.split("\n")[:3], [gpt2, gpt2, "tokens.weight"])


class Machine(Pretended):
    def path(self, smi, **more):
        return mock.patch.dict(os.environ, self.environment(smi=smi, **more))

    def test_a_gpu_is_described(self):
        with self.path(smi=True):
            card, state = machine.card(), machine.state()
            self.assertEqual(machine.device_name(), "NVIDIA H200, 580.1")
        known = ("name", "driver", "power_limit_w", "ecc", "missing")
        self.assertEqual([card[key] for key in known],
                         ["NVIDIA H200", "580.1", 700.0, "Enabled", None])
        self.assertIsNone(card["power_limit_default_w"])  # "[N/A]"
        self.assertIsNone(card["pcie_width"])  # "[Not Supported]"
        self.assertEqual([state[key] for key in ("sm_mhz", "power_w", "temperature_c", "pstate")],
                         [1980, 412.5, 45, "P0"])
        self.assertEqual(state["throttle"], ["idle", "power cap"])

    def test_a_field_that_the_driver_does_not_know_costs_only_itself(self):
        with self.path(smi=True, REFUSED="clocks.mem clocks_event_reasons.active"):
            state = machine.state()
        self.assertEqual((state["sm_mhz"], state["mem_mhz"]), (1980, None))
        self.assertEqual(state["throttle"], ["power cap"])  # by its older name

    def test_without_nvidia_smi_the_record_says_so(self):
        with self.path(smi=False), mock.patch("shutil.which", return_value=None):
            self.assertEqual(machine.card()["missing"], "nvidia-smi is not found")
            self.assertEqual(set(machine.state().values()), {None})
            self.assertEqual(machine.device_name(), "emulated")
            with machine.Watch() as watch:
                pass
        self.assertIsNone(watch.peak_mib)
        self.assertEqual(watch.during()["looked"], 0)

    def test_a_watch_keeps_peak_clocks_and_power(self):
        watch = machine.Watch()
        watch.before = {"memory_used_mib": 100}
        watch._seen = [{"memory_used_mib": used, "sm_mhz": clock, "power_w": power}
                       for used, clock, power in ((300, 1980, 600.0), (700, 1500, 690.0),
                                                  (None, 1700, None))]
        self.assertEqual(watch.peak_mib, 600)
        self.assertEqual(watch.during(), {
            "sm_mhz_least": 1500, "sm_mhz_most": 1980, "sm_mhz_median": 1700, "power_w_most": 690.0,
            "looked": 3})


class Files(Pretended):
    def test_a_killed_write_leaves_the_file_whole(self):
        results = Results(self.file, mock.Mock(record=lambda watch: {}))
        results.measure("one", {}, lambda partial: {"value": 1})
        with mock.patch("json.dumps", side_effect=KeyboardInterrupt), \
                self.assertRaises(KeyboardInterrupt):
            results.measure("two", {}, lambda partial: {"value": 2})
        self.assertEqual(read_json(self.file)["measured"]["one"]["value"], 1)

    def test_the_table_tells_what_failed(self):
        s = training.Settings("gpt2-124m", 32, 1, 20, 1024, 12, "cuda", "cuda")
        steps = {"min": 90.0, "max": 110.0, "iqr": 4.0, "warm_up": 5, "count": 15}
        ours = {"status": "measured", "step_ms": 100.0, "steps": steps, "peak_mib": 9000}
        measured = {"trireme": ours,
                    "trireme-short": {"status": "measured", "step_ms": 3.0, "steps": steps},
                    "pytorch": {"status": "failed", "reason": "x ended with 1:\nno memory\n"}}
        found = {"step_ms": 80.0, "parts_ms": {"products": 60.0}, "attention": "of no one"}
        with contextlib.redirect_stdout(io.StringIO()) as out:
            table.print_table(s, measured, found, "NVIDIA H100 80GB HBM3, 580.1")
        self.assertRegex(out.getvalue(), r"trireme +327680 +100.00 +90.00 +110.00 +4.00 +80.0% "
                                         r"+28.5% +26.4% +9000 +- +3.00")
        self.assertRegex(out.getvalue(), r"pytorch +failed: no memory")
        self.assertEqual(table.summary(measured, found),
                         "80% of the floor, no PyTorch beside it; pytorch failed")

    def test_every_form_of_pytorch_is_named(self):
        self.assertEqual(set(peers.FORM), set(peers.PYTORCH))


if __name__ == "__main__":
    unittest.main()
