#!/usr/bin/python3
"""The GPU benchmarks (tests/benchmarks/gpu) where there is no GPU: their arithmetic, records and
failures, with programs that pretend. usage: tests/gpu/benchmarks_test.py [-v]"""
import contextlib
import dataclasses
import io
import os
import pathlib
import signal
import sys
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pretend import Pretended  # its folder of benchmarks comes first in sys.path

import floor
import machine
import peers
import products
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
        self.assertEqual((state["sm_mhz"], state["mem_mhz"], state["throttle"]), (1980, None, None))

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


class Training(Pretended):
    """training.py as a whole, on programs that pretend."""
    MODEL = ("--model", "gpt2-124m")

    def train(self, *arguments, **how):
        return self.run_script("training.py", *self.MODEL, "--python", self.root / "tools/python",
                               *arguments, **how)

    def test_all_parts_are_measured_and_compared(self):
        status, output = self.train(smi=True)
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"\ntrireme +163840 +200.00 +194.00 +206.00 ")
        self.assertRegex(output, r"\npytorch-bf16-compiled +131072 +250.00 ")
        self.assertIn("# pytorch-bf16: eager, bf16 weights; PyTorch 2.0; attention ran: cudnn",
                      output)
        self.assertIn("order: cudnn, flash; kernels: cudnn_sdpa_kernel", output)
        self.assertIn("# median of 15 steps after a warm-up of 5", output)
        self.assertRegex(output, r"# floor [\d.]+ ms: .*; attention: PyTorch's cudnn attention")
        self.assertIn("1.25 x the best PyTorch (compiled by block, bf16 weights)", output)
        self.assertRegex(output, r"llmc +left out: not given: --llmc DIR")
        content = self.content()
        self.assertEqual(content["measured"]["gpt2-124m/profile"]["profile"], {"rows": []})
        self.assertAlmostEqual(content["floor"]["gpt2-124m"]["parts_ms"]["attention"], 12 * 0.5)
        record = content["measured"]["gpt2-124m/trireme"]["machine"]
        self.assertEqual(record["gpu"]["name"], "NVIDIA H200")
        self.assertEqual((record["before"]["sm_mhz"], record["after"]["power_w"]), (1980, 412.5))
        self.assertIn("--json", record["command"])
        self.assertTrue(record["host"]["cores"] and record["date"] and record["trireme"])

    def test_the_cache_is_there_once_and_left_out_once(self):
        self.train("--part", "trireme")
        calls = [call for call in self.calls() if call.startswith("train_gpt")]
        self.assertEqual(["--gemm-cache" in call for call in calls], [True, False, True])
        self.assertIn("--seq-length 64", calls[2])

    def test_parts_add_up_and_are_not_measured_twice(self):
        self.train("--part", "products")
        self.calls()
        self.train("--part", "products", "--part", "pytorch")
        self.assertEqual([call.split()[0] for call in self.calls()], ["python", "python"])
        names = {name.split("/")[1] for name in self.content()["measured"]}
        self.assertEqual(names, {"products", "pytorch", "pytorch-short"})
        self.train("--part", "products", "--again")
        self.assertEqual(len(self.calls()), 1)

    def test_other_settings_or_another_gpu_are_measured_anew(self):
        self.train("--part", "products")
        self.train("--part", "products", "--micro-batch", "16")
        self.train("--part", "products", "--micro-batch", "16", smi=True)
        self.assertEqual(len(self.calls()), 3)

    def test_a_pytorch_that_fails_does_not_take_the_others_with_it(self):
        status, output = self.train(broken="compile")
        self.assertEqual(status, 0, output)
        self.assertIn("out of memory", self.measured("gpt2-124m/pytorch-compiled")["reason"])
        self.assertEqual(self.measured("gpt2-124m/pytorch-bf16-compiled")["step_ms"], 250)
        self.assertRegex(output, r"\npytorch-compiled +failed: out of memory\n")
        self.assertIn("; pytorch-compiled failed", output)
        self.train("--part", "pytorch-compiled")  # what failed is tried again
        self.assertEqual(self.measured("gpt2-124m/pytorch-compiled")["step_ms"], 300)

    def test_what_fails_of_ours_is_a_failure(self):
        status, output = self.train(broken="train")
        self.assertEqual(status, 1, output)
        self.assertIn("no memory", self.measured("gpt2-124m/trireme")["reason"])
        self.assertEqual(self.measured("gpt2-124m/pytorch")["step_ms"], 400)
        self.assertIn("trireme was not measured", output)

    def test_a_program_ends_at_its_limit_and_what_it_printed_is_kept(self):
        status, output = self.train("--part", "products", "--part", "trireme", "--limit-s", "1",
                                    broken="hang")
        self.assertEqual(status, 1, output)
        record = self.measured("gpt2-124m/products")
        self.assertIn("took longer than 1 s", record["reason"])
        self.assertEqual(len(record["rows"]), 1)
        self.assertEqual(self.measured("gpt2-124m/trireme")["step_ms"], 200)

    def test_a_cut_off_loses_one_measurement_and_ends_what_runs(self):
        job = self.start("training.py", *self.MODEL, "--part", "trireme", "--part", "profile",
                         broken="hang-profile")
        pid = self.root / "calls.pid"
        while not pid.exists() or not pid.read_text():
            self.assertIsNone(job.poll())
            time.sleep(0.05)
        job.send_signal(signal.SIGTERM)
        job.communicate()
        self.assertEqual(job.returncode, 128 + signal.SIGTERM)
        self.assertEqual(self.measured("gpt2-124m/trireme")["step_ms"], 200)
        self.assertEqual(self.measured("gpt2-124m/profile")["status"], "cut off")
        self.assertTrue(ended(int(pid.read_text())), "a program outlived the benchmark")

    def test_without_pytorch_its_parts_are_left_out(self):
        status, output = self.train("--without-pytorch")
        self.assertEqual(status, 0, output)
        self.assertFalse(any(call.startswith("python") for call in self.calls()))
        self.assertIn("no PyTorch beside it", output)
        self.assertIn("no other attention was measured", output)

    def test_forced_attention_reaches_pytorch(self):
        self.train("--part", "pytorch-compiled", "--sdpa", "flash")
        self.assertIn("--sdpa flash --compile", self.calls()[0])

    def test_bad_arguments_are_named(self):
        for arguments, message in ((("--steps", "5"), "--steps 5: at least 6, of which 5 count"),
                                   (("--llmc", "/nowhere"), "--llmc /nowhere: there is no such"),
                                   (("--limit-s", "0"), "--limit-s: invalid positive value: '0'")):
            status, output = self.train(*arguments)
            self.assertEqual(status, 2)
            self.assertIn(message, output)
        self.file.write_text("[1")
        status, output = self.train()
        self.assertEqual(status, 1)
        self.assertIn(f"--json {self.file}: not a file of results", output)


def ended(pid):
    """Has the process ended, or is about to be collected?"""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


class LlmC(Pretended):
    def sources(self):
        (self.root / "llm.c/llmc").mkdir(parents=True)
        line = "cudaMemAdvise(*out, bytes, cudaMemAdviseSetPreferredLocation, cudaCpuDeviceId)"
        (self.root / "llm.c/llmc/cuda_utils.cuh").write_text(line)
        step = ("step %4d/20 | loss 7.6 (+0.1z)| norm 6.4 (+0.1z)| lr 3.00e-04 | %d.50 ms | "
                "40.1%% bf16 MFU | 1 tok/s\\n")
        self.program("tools/make", f"""#!/bin/bash
grep -q 'cudaMemLocation{{cudaMemLocationTypeHost, 0}}' llmc/cuda_utils.cuh || exit 1
echo '#!/bin/bash
for i in $(seq 20); do printf "{step}" $i $((i < 6 ? 900 : 100)); done' > train_gpt2cu
chmod +x train_gpt2cu
""")
        return self.root / "llm.c"

    def train(self, model, sources):
        return self.run_script("training.py", "--model", model, "--part", "llmc", "--llmc", sources)

    def test_a_copy_is_mended_built_and_timed(self):
        sources = self.sources()
        status, output = self.train("gpt2-124m", sources)
        self.assertEqual(status, 0, output)
        record = self.measured("gpt2-124m/llmc")
        self.assertEqual((record["step_ms"], record["steps"]["count"]), (100.5, 15))
        self.assertRegex(record["patched"][0], "llmc/cuda_utils.cuh: .*cudaMemLocation")
        self.assertIn("-ge 2", " ".join(record["options"]))
        self.assertNotIn("cudaMemLocation{", (sources / "llmc/cuda_utils.cuh").read_text())

    def test_a_model_that_it_has_not_and_other_sources_are_said(self):
        other = self.root / "other"
        other.mkdir()
        self.train("llama-1b", other)
        self.assertEqual(self.measured("llama-1b/llmc")["reason"], "llm.c has no llama-1b")
        self.train("gpt2-124m", other)
        self.assertIn("not the sources of llm.c", self.measured("gpt2-124m/llmc")["reason"])


class Kernels(Pretended):
    def test_the_table_and_the_record(self):
        status, output = self.run_script("kernels.py")
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"add +f32 +1.0000 +0.9000 +1.2000 +3000.0 +100.0%\n")
        self.assertEqual(self.content()["summary"],
                         "2 of 2 kernels at 90% of copy bandwidth or more, 3000 GB/s")
        self.assertIn("gpu", self.measured("kernels")["machine"])

    def test_a_cut_off_leaves_the_kernels_before_it(self):
        status, output = self.run_script("kernels.py", "--limit-s", "1", broken="hang")
        self.assertEqual(status, 1)
        self.assertIn("took longer than 1 s", output)
        record = self.measured("kernels")
        self.assertEqual([row["kernel"] for row in record["rows"]], ["copy", "add"])


class Products(Pretended):
    """products.py as a whole."""

    def table(self, *arguments, **how):
        return self.run_script("products.py", "--python", self.root / "tools/python", *arguments,
                               **how)

    def test_every_group_is_measured_once(self):
        status, output = self.table()
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"rate: +gemm forward 8192 8192 8192 +1.0000 +0.9000 +1.2000 "
                                 r"+3000.0 +100.0%\n")
        self.assertIn("attention forward 2 8192 16 16 128", output)
        self.assertIn("attention backward 16 1024 32 32 64 cudnn", output)
        self.assertIn("attention at 0.25 of PyTorch's best (median over shapes)", output)
        self.assertEqual(list(self.content()["measured"]), ["rate", *MODELS, "attention",
                                                            "attention-pytorch"])
        self.calls()
        self.table()
        self.assertEqual(self.calls(), [])

    def test_jobs_are_those_of_the_models(self):
        self.assertEqual([len(jobs) for jobs in products.groups(small=False).values()],
                         [2, 15, 15, 15, 20])
        self.assertIn("gemm weight 32768 50264 768", products.groups(small=False)["gpt2-124m"])
        self.assertTrue(all(len(line.split()) > 1 for jobs in products.groups(small=True).values()
                            for line in jobs))

    def test_a_cut_off_leaves_the_groups_before_it(self):
        status, output = self.table("--limit-s", "1", broken="hang")
        self.assertEqual(status, 1, output)
        self.assertEqual(len(self.measured("rate")["rows"]), 1)
        self.assertIn("took longer than 1 s", self.measured("attention")["reason"])
        self.assertEqual(self.measured("attention-pytorch")["status"], "measured")
        self.assertIn("; rate failed", output)

    def test_without_pytorch_nothing_is_beside_ours(self):
        status, output = self.table("--without-pytorch")
        self.assertEqual(status, 0, output)
        self.assertIn("no attention of PyTorch beside it", output)


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
