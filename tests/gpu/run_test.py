#!/usr/bin/python3
"""The acceptance itself (tests/gpu/run), where there is no GPU: its records, tables and failures, with programs that only pretend.
usage: tests/gpu/run_test.py [-v]"""
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import records
import parity
from records import Failed, Records, Stage

PRETENDER = r"""#!/bin/bash
# Stands in for every program of the installation. BROKEN names what goes wrong.
all="$(basename "$0") $*"
case "$all" in
  *gtest_list_tests*) printf 'CudaNorm.\n  ForwardAgrees\nCudaGemm.\n  Agrees\n' ;;
  *--gtest_filter=-\**) [ "$BROKEN" = gpu ] && { echo "gpu_kernels_tests: no GPU can be used: no driver" >&2; exit 1; }
    echo "# GPU 0 Pretender, compute capability 9.0" ;;
  gpu_kernels_benchmark*) for k in copy add; do echo "{\"kernel\":\"$k\",\"dtype\":\"f32\",\"bytes\":1,\"ms\":1,\"ms_min\":1,\"ms_max\":1,\"gb_per_s\":3000,\"of_copy\":1}"; done ;;
  gpu_products_benchmark*) while read -r job || [ -n "$job" ]; do case "$job" in copy*) of=gb_per_s ;; *) of=tflops ;; esac; echo "{\"job\":\"$job\",\"ms\":1,\"$of\":3000}"; done ;;
  train_gpt*) [ "$BROKEN" = train ] && { echo "no memory"; exit 1; }
    out=${all##*--metrics }; for i in $(seq 20); do echo '{"step_ms": 200, "loss": 10.5}'; done > "${out%% *}"
    case "$all" in *--profile-ops*) out=${all##*--profile-ops }; echo '{"rows": []}' > "${out%% *}" ;; esac ;;
  *gtest_output=json:*) out=${all##*json:}; [ "$BROKEN" = kernels ] && f=1 || f=0
    echo "{\"tests\": 7, \"failures\": $f, \"errors\": 0, \"disabled\": 0}" > "$out" ;;
  *) echo "pretender does not know: $all" >&2; exit 1 ;;
esac
"""
PYTHON = r"""#!/bin/bash
line() { t="[$1,$1,$1,$1,$1,$1]"; echo '{"times_ms":'$t',"host_times_ms":'$t',"versions":{"torch":"2.0"},"sdpa":"default","sdpa_order":null,"attention":{"backends":[],"kernels":[]}}'; }
case "$*" in
  *--compile*) [ "$BROKEN" = compile ] && { echo "out of memory" >&2; exit 1; }; line 300 ;;
  *pytorch_model.py*) line 400 ;;
esac
"""
SANITIZER = r"""#!/bin/bash
[ "$BROKEN" = sanitizer ] && { echo "========= ERROR SUMMARY: 2 errors"; exit 86; }
case "$*" in *racecheck*) echo "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)" ;; *) echo "========= ERROR SUMMARY: 0 errors" ;; esac
"""


class Acceptance(unittest.TestCase):
    """tests/gpu/run as a whole, on programs that pretend."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        self.program("build/bin/gpu_kernels_tests", PRETENDER)
        for name in ("train_gpt", "gpu_kernels_benchmark", "gpu_products_benchmark"):
            self.program(f"build/bin/{name}", PRETENDER)
        self.program("tools/python", PYTHON)
        self.program("tools/compute-sanitizer", SANITIZER)
        self.program("tools/nvidia-smi", "#!/bin/sh\n")

    def program(self, name, text):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(file.stat().st_mode | stat.S_IXUSR)

    def accept(self, *arguments, broken="", path=None):
        environment = {**os.environ, "BROKEN": broken, "PATH": path or f"{self.root}/tools:/usr/bin:/bin"}
        return subprocess.run([sys.executable, HERE / "run", "--build", self.root / "build", "--output", self.root / "out", *arguments],
                              capture_output=True, text=True, env=environment)

    def record(self, stage):
        return json.loads((self.root / f"out/records/{stage}.json").read_text())

    FAST = ("--without", "parity", "--without", "ranks", "--without", "benchmarks")

    def test_passes_and_records_every_stage(self):
        done = self.accept(*self.FAST)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"kernels +passed .* 7 tests against the CPU")
        self.assertIn("sanitizers.racecheck.CudaNorm", done.stdout)
        self.assertIn("# 10 passed, 0 failed, 0 not finished; left out: parity, ranks, benchmarks", done.stdout)
        record = self.record("sanitizers.memcheck.CudaGemm")
        self.assertEqual(record["status"], "passed")
        self.assertRegex(record["identity"], r"^[0-9a-f]{16} on GPU 0 Pretender$")
        self.assertEqual(len(json.loads((self.root / "out/summary.json").read_text())), 10)

    def test_what_has_passed_is_not_run_again_but_for_other_programs(self):
        self.accept(*self.FAST)
        again = self.accept(*self.FAST, broken="kernels")
        self.assertEqual(again.returncode, 0, again.stdout)
        self.assertRegex(again.stdout, r"kernels +passed before")
        self.program("build/bin/train_gpt", PRETENDER + "# another build\n")
        self.assertEqual(self.accept(*self.FAST, broken="kernels").returncode, 1)

    def test_the_summary_alone_is_enough_to_go_on(self):
        self.accept(*self.FAST)
        for file in (self.root / "out/records").iterdir():
            file.unlink()
        self.assertRegex(self.accept(*self.FAST, broken="kernels").stdout, r"kernels +passed before")

    def test_a_command_that_does_a_part_keeps_the_records_of_the_others(self):
        self.accept(*self.FAST)
        self.accept(*self.FAST, "--only", "kernels", "--again")
        self.assertEqual(len(json.loads((self.root / "out/summary.json").read_text())), 10)

    def test_what_tells_the_most_comes_first(self):
        listed = self.accept("--list")
        stages = [line.split()[0] for line in listed.stdout.splitlines() if not line.startswith("#")]
        firsts = [next(i for i, stage in enumerate(stages) if stage.startswith(start))
                  for start in ("kernels", "parity.", "ranks.", "sanitizers.memcheck.", "benchmarks.", "sanitizers.racecheck.")]
        self.assertEqual(firsts, sorted(firsts))
        self.assertEqual(len(stages), len(set(stages)))
        self.assertRegex(listed.stdout, rf"# {len(stages)} stages, about \d+ minutes")

    def test_benchmarks_run_beside_pytorch(self):
        done = self.accept("--only", "benchmarks.*", "--python", self.root / "tools/python")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"benchmarks.kernels +passed .* 1 of 1 kernels at 90% of copy bandwidth or more, 3000 GB/s")
        self.assertRegex(done.stdout, r"benchmarks.gpt2-124m +passed .* gpt2-124m: \d+% of the floor, 1.50 x the best PyTorch")
        log = (self.root / "out/logs/benchmarks.llama-1b.log").read_text()
        self.assertRegex(log, r"trireme +40960 +200.00 .* 200.00\n")
        self.assertRegex(log, r"pytorch-compiled +27307 +300.00 .* 300.00 +-\n")
        record = self.record("benchmarks.gpt2-1558m")["details"]["measured"]
        self.assertEqual({name: record[f"gpt2-1558m/{name}"]["step_ms"] for name in ("trireme", "pytorch", "pytorch-compiled")},
                         {"trireme": 200, "pytorch": 400, "pytorch-compiled": 300})

    def test_a_pytorch_that_fails_does_not_take_the_measurement_with_it(self):
        done = self.accept("--only", "benchmarks.llama-1b", "--python", self.root / "tools/python", broken="compile")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"2.00 x the best PyTorch .*; pytorch-compiled failed")
        self.assertRegex((self.root / "out/logs/benchmarks.llama-1b.log").read_text(), r"pytorch-compiled +failed: out of memory")

    def test_a_benchmark_that_fails_is_a_failure(self):
        done = self.accept("--only", "benchmarks.llama-1b", "--python", self.root / "tools/python", broken="train")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no memory", done.stdout)

    def test_a_failure_is_named_recorded_and_tried_again(self):
        done = self.accept(*self.FAST, broken="sanitizer")
        self.assertEqual(done.returncode, 1)
        self.assertIn("# 2 passed, 8 failed", done.stdout)
        record = self.record("sanitizers.synccheck.CudaNorm")
        self.assertEqual(record["status"], "failed")
        self.assertIn("ERROR SUMMARY: 2 errors", record["reason"])
        self.assertIn("$ ", (self.root / "out/logs/sanitizers.synccheck.CudaNorm.log").read_text())
        self.assertEqual(self.accept(*self.FAST).returncode, 0)

    def test_failing_kernel_tests_fail(self):
        done = self.accept(*self.FAST, broken="kernels")
        self.assertEqual(done.returncode, 1)
        self.assertIn("7 tests, 1 failed", done.stdout)

    def test_without_time_it_says_that_it_is_not_finished(self):
        done = self.accept(*self.FAST, "--minutes", "0.6")
        self.assertEqual(done.returncode, 75, done.stdout)
        self.assertRegex(done.stdout, r"kernels +not finished")

    def test_without_a_gpu_one_message_says_so(self):
        done = self.accept(broken="gpu")
        self.assertEqual(done.returncode, 69)
        self.assertIn("no GPU can be used: no driver", done.stdout)

    def test_without_a_tool_one_message_says_which(self):
        self.program("only_smi/nvidia-smi", "#!/bin/sh\n")
        done = self.accept(path=f"{self.root}/only_smi:/usr/bin:/bin")
        self.assertEqual(done.returncode, 69)
        self.assertIn("compute-sanitizer is not found", done.stderr)
        self.assertEqual(self.accept(*self.FAST, "--without", "sanitizers", path=f"{self.root}/only_smi:/usr/bin:/bin").returncode, 0)
        done = self.accept(path="/usr/bin:/bin")
        self.assertEqual((done.returncode, done.stderr.count("is not found")), (69, 2))

    def test_mistakes_of_the_command_line_are_named(self):
        for arguments, message in ((["--without", "everything"], "invalid choice"), (["--only", "kernel"], "no stage is called kernel"),
                                   (["--archive", "/nowhere"], "not allowed with argument")):
            done = self.accept(*arguments)
            self.assertEqual(done.returncode, 64, done.stdout + done.stderr)
            self.assertIn(message, done.stderr)


class Stages(unittest.TestCase):
    """One stage at a time."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.records = Records(pathlib.Path(scratch.name))

    def run_stage(self, run, minutes=1.0, usual_s=0):
        return records.run_stage(Stage("some", usual_s, run), self.records, "me", time.monotonic() + 60 * minutes)

    def test_a_program_that_hangs_is_ended_with_all_that_it_started(self):
        # Whatever is left holds its output open, and so this test until its time-out.
        status = self.run_stage(lambda work: work.run(["bash", "-c", "sleep 3600 & sleep 3600"]), minutes=0.01)
        self.assertEqual(status, "not finished")
        self.assertIsNone(self.records.read("some"))

    def test_after_each_stage_the_summary_has_all_records(self):
        summary, seen = self.records.output / "summary.json", []

        def run(work):
            seen.append([record["stage"] for record in json.loads(summary.read_text())] if summary.exists() else [])
            return {}

        for names in ("install",), ("kernels", "parity"), ("ranks",):  # commands, one after the other
            records.run_stages([Stage(name, 0, run) for name in names], self.records, "", time.monotonic() + 60)
        self.assertEqual([sorted(stages) for stages in seen], [[], ["install"], ["install", "kernels"], ["install", "kernels", "parity"]])

    def test_a_stage_that_exceeds_its_limit_fails(self):
        records.LONGEST_STAGE_S, before = 0.3, records.LONGEST_STAGE_S
        self.addCleanup(setattr, records, "LONGEST_STAGE_S", before)
        self.assertEqual(self.run_stage(lambda work: work.run(["sleep", "60"])), "failed")
        self.assertIn("took longer", self.records.read("some")["reason"])

    def test_a_program_that_fails_is_quoted(self):
        self.assertEqual(self.run_stage(lambda work: work.run(["bash", "-c", "echo why; exit 3"])), "failed")
        self.assertIn("ended with 3:\nwhy", self.records.read("some")["reason"])


class Comparisons(unittest.TestCase):
    """What two trainings are compared by notices what it should."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)

    def training(self, name, losses=(5.0, 4.0), values=(1.0, 2.0, 3.0)):
        import array
        folder = self.root / name
        folder.mkdir()
        for which in ("gradients", "parameters"):
            (folder / f"tensors.{which}.f32").write_bytes(array.array("f", values).tobytes())
            (folder / f"tensors.{which}.index").write_text("a 2 0\nb - 8\n")
        return parity.Training(list(losses), list(losses), [str(x) for x in losses], folder)

    def test_equal_ones_are_equal(self):
        a, b = self.training("a"), self.training("b")
        parity.require_same_bits(a, b)
        parity.difference(a, b).require_below(parity.LAYOUTS_AGREE)
        self.assertEqual(str(parity.difference(a, b)), "loss 0.0e+00, norm 0.0e+00, gradients 0.0e+00, parameters 0.0e+00")

    def test_a_loss_that_differs_is_noticed(self):
        a, b = self.training("a"), self.training("b", losses=(5.0, 4.0001))
        self.assertAlmostEqual(parity.difference(b, a).loss, 2.5e-5)
        with self.assertRaisesRegex(Failed, "the loss differs by 2.50e-05, more than 2e-07"):
            parity.difference(b, a).require_below(parity.LAYOUTS_AGREE)
        with self.assertRaisesRegex(Failed, "differ from step 2 on"):
            parity.require_same_bits(a, b)

    def test_a_tensor_that_differs_is_named(self):
        a, b = self.training("a"), self.training("b", values=(1.0, 2.0, 3.3))
        found = parity.difference(b, a)
        self.assertEqual((found.gradient[1], found.parameter[1]), ("b", "b"))
        self.assertAlmostEqual(found.gradient[0], 0.1, places=6)
        self.assertAlmostEqual(found.parameter[0], 0.3, places=6)
        with self.assertRaisesRegex(Failed, "the gradient of b differs by 1.00e-01"):
            found.require_below(parity.LAYOUTS_AGREE)
        with self.assertRaisesRegex(Failed, "two runs have other gradients"):
            parity.require_same_bits(a, b)

    def test_bounds_hold_and_nan_is_above_each(self):
        parity.require_below("it", 1e-8, 1e-7)
        for value in (1e-6, float("nan")):
            with self.assertRaisesRegex(Failed, "it differs by"):
                parity.require_below("it", value, 1e-7)


if __name__ == "__main__":
    unittest.main()
