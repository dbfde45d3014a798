#!/usr/bin/python3
"""The GPU benchmarks (tests/benchmarks/gpu) as whole programs where there is no GPU: what they
measure and how they fail, with programs that pretend. usage: tests/gpu/benchmarks_test.py [-v]"""
import os
import pathlib
import signal
import sys
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pretend import Pretended  # its folder of benchmarks comes first in sys.path

import products
from models import MODELS


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
        self.assertIn("1.25 x the best PyTorch (compiled by block, and the head with its loss, "
                      "bf16 weights)", output)
        self.assertRegex(output, r"llmc +left out: not given: --llmc DIR")
        content = self.content()
        self.assertEqual(content["measured"]["gpt2-124m/profile"]["profile"]["model"], "gpt2-124m")
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

    def test_another_build_measures_trireme_anew_and_no_peer(self):
        parts = ("--part", "products", "--part", "attention")
        self.train(*parts)
        self.calls()
        for library in ("libtrireme_base.so", "libtrireme.so", "libtrireme_cuda.so"):
            self.program(f"build/lib/{library}", "another build")
            self.train(*parts)
            self.assertEqual([call.split()[0] for call in self.calls()],
                             ["gpu_products_benchmark"])

    def test_a_pytorch_that_fails_does_not_take_the_others_with_it(self):
        status, output = self.train(broken="compile")
        self.assertEqual(status, 0, output)
        self.assertIn("out of memory", self.measured("gpt2-124m/pytorch-compiled")["reason"])
        self.assertEqual(self.measured("gpt2-124m/pytorch-bf16-compiled")["step_ms"], 250)
        self.assertRegex(output, r"\npytorch-compiled +failed: out of memory\n")
        self.assertIn("; pytorch-compiled failed", output)
        self.train("--part", "pytorch-compiled")  # what failed is tried again
        self.assertEqual(self.measured("gpt2-124m/pytorch-compiled")["step_ms"], 300)

    def test_a_profiler_that_fails_does_not_take_the_steps_with_it(self):
        status, output = self.train("--part", "pytorch-bf16-compiled", broken="profiler")
        self.assertEqual(status, 0, output)
        record = self.measured("gpt2-124m/pytorch-bf16-compiled")
        self.assertEqual((record["status"], record["step_ms"]), ("measured", 250))
        self.assertIn("attention ran: cudnn, CUPTI (asked for", output)

    def test_the_profile_is_printed_beside_the_prediction(self):
        status, output = self.train("--part", "profile", smi=True)
        self.assertEqual(status, 0, output)
        self.assertIn("# profile of a step, 4.00 ms in 2 rows; the largest:\n", output)
        self.assertRegex(output, r"\nupdate +step +1 +3.000 +75.0% +2000.0 +0.0 +50.0%\n"
                                 r"add +forward +2 +1.000 +25.0% +2000.0 +3.0 +50.0%\n")
        self.assertIn("# predicted for H200: predict.py\n# measured on NVIDIA H200, beside", output)
        self.assertRegex(output, r"\nupdate +step +1.550 +3.000 +1.93 +1.450\n")
        self.assertIn("# next gain: update step, 1.45 ms more than predicted", output)
        _, output = self.train("--part", "trireme", smi=True)
        self.assertNotIn("# profile of a step", output)  # once, where it was asked for

    def test_a_program_that_cannot_be_started_is_one_failure(self):
        status, output = self.run_script("training.py", *self.MODEL, "--python", "/nowhere/python",
                                         "--part", "pytorch", "--part", "trireme")
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"\npytorch +failed: /nowhere/python cannot be started: No such")
        self.assertEqual(self.measured("gpt2-124m/trireme")["step_ms"], 200)

    def test_a_program_that_leaves_no_result_is_one_failure(self):
        self.program("build/bin/train_gpt", "#!/bin/bash\n")
        status, output = self.train("--part", "trireme", "--part", "pytorch")
        self.assertEqual(status, 1, output)
        self.assertIn("FileNotFoundError", self.measured("gpt2-124m/trireme")["reason"])
        self.assertEqual(self.measured("gpt2-124m/pytorch")["step_ms"], 400)

    def test_what_fails_of_ours_is_a_failure(self):
        status, output = self.train(broken="train")
        self.assertEqual(status, 1, output)
        self.assertIn("no memory", self.measured("gpt2-124m/trireme")["reason"])
        self.assertEqual(self.measured("gpt2-124m/pytorch")["step_ms"], 400)
        self.assertIn("trireme was not measured", output)
        status, output = self.train("--part", "pytorch", broken="train")
        self.assertEqual(status, 0, "that of another command: " + output)

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

    def test_forced_attention_reaches_pytorch_and_is_a_row_of_its_own(self):
        self.train("--part", "pytorch", "--part", "trireme")
        self.calls()
        _, output = self.train("--part", "pytorch", "--part", "trireme", "--sdpa", "flash")
        calls = self.calls()
        self.assertEqual(len(calls), 1)
        self.assertIn("--sdpa flash", calls[0])
        self.assertRegex(output, r"\npytorch +81920 +400.00 ")
        self.assertRegex(output, r"\npytorch-flash +81920 +400.00 ")
        self.assertIn("# pytorch-flash: eager, autocast, flash attention; ", output)

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
[ "$(command -v nvcc)" = "$CUDA_HOME/bin/nvcc" ] || exit 3
[ "$(readlink "${{LIBRARY_PATH%%:*}}/libnvidia-ml.so")" = /far/libnvidia-ml.so.1 ] || exit 2
echo '#!/bin/bash
for i in $(seq 20); do printf "{step}" $i $((i < 6 ? 900 : 100)); done' > train_gpt2cu
chmod +x train_gpt2cu
""")
        self.program("tools/ldconfig", """#!/bin/bash
echo "	libnvidia-ml.so.1 (libc6,x86-64) => /far/libnvidia-ml.so.1"
""")
        self.program("cuda/bin/nvcc", "#!/bin/bash\n")  # not in PATH, as in many images
        return self.root / "llm.c"

    def train(self, model, sources):
        with mock.patch.dict(os.environ, CUDA_HOME=str(self.root / "cuda")):
            return self.run_script("training.py", "--model", model, "--part", "llmc", "--llmc",
                                   sources)

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


if __name__ == "__main__":
    unittest.main()
