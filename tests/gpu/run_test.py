#!/usr/bin/python3
"""The acceptance itself (tests/gpu/run), where there is no GPU: its stages, failures and commands,
with programs that only pretend.
usage: tests/gpu/run_test.py [-v]"""
import sys
import unittest

from pretend_run import PROGRAM, Pretended
from training_stages import NCCL_CAREFUL

KERNELS = ("--only", "kernels*", "--only", "sanitizers.*")
TRAINING = ("--only", "parity.*", "--only", "ranks.*")


class Acceptance(Pretended):
    """tests/gpu/run as a whole."""

    def test_passes_and_records_every_stage(self):
        done = self.accept(*KERNELS)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"kernels +passed .* 7 tests passed")
        self.assertRegex(done.stdout, r"kernels.large +passed .* 7 tests passed")
        self.assertIn("sanitizers.racecheck.CudaNorm", done.stdout)
        self.assertIn("# 13 passed, 0 failed, 0 not finished, 0 left out", done.stdout)
        record = self.summary()["sanitizers.memcheck.CudaGemm"]
        self.assertEqual(record["status"], "passed")
        self.assertRegex(record["identity"], r"^[0-9a-f]{16} on Pretender $")
        log = (self.output / "logs/sanitizers.memcheck.CudaGemm.log").read_text()
        self.assertIn("--kernel-name kns=trireme", log)
        self.assertNotIn("leak-check", log)

    def test_trainings_are_compared(self):
        done = self.accept(*TRAINING)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"parity.fp32.llama +passed .* loss 0.0e\+00 and then")
        self.assertRegex(done.stdout, r"ranks.4.tensor +passed")
        details = self.summary()["ranks.2.zero"]["details"]
        self.assertEqual((details["nccl"], details["limit"]["loss"]), ({}, 2e-6))
        log = (self.output / "logs/ranks.2.zero.log").read_text()
        self.assertRegex(log, r"NCCL_DEBUG_FILE=\S*/logs/ranks.2.zero.log.nccl.%p")
        self.assertIn("--num-layers 2 ", log)  # and of 8 sequences two micro-batches a rank
        self.assertRegex(log, r"--micro-batch-size 4 .*\n(.*\n)+.*--micro-batch-size 2 ")

    def test_what_was_measured_is_recorded_also_where_it_fails(self):
        done = self.accept("--only", "parity.*", broken="loss")
        self.assertEqual(done.returncode, 1)
        record = self.summary()["parity.fp32.gpt2"]
        self.assertIn("the loss differs by 9.52e-03, more than 1e-05", record["reason"])
        self.assertAlmostEqual(record["details"]["difference"]["losses"][0], 0.1 / 10.5)
        self.assertRegex(done.stdout, r"more than 1e-05; loss 9.5e-03 and then 9.5e-03, norm 0")
        self.assertRegex((self.results / "table.txt").read_text(), "more than 1e-05; loss 9.5e-03")

    def test_where_mpirun_fails_ranks_are_left_out_with_its_message(self):
        done = self.accept("--only", "ranks.*", "--only", "kernels", broken="mpirun")
        self.assertEqual(done.returncode, 1)
        self.assertIn("mpirun: no ssh", (self.results / "table.txt").read_text())
        self.assertIn("# ranks.nccl is left out: ranks.mpi failed", done.stdout)
        self.assertIn("# 4 passed, 1 failed, 0 not finished, 14 left out", done.stdout)

    def test_where_nccl_fails_it_is_tried_once_more_with_care(self):
        done = self.accept("--only", "ranks.nccl", "--only", "ranks.2.zero", broken="nccl")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"ranks.nccl +passed .* with NCCL_CUMEM_ENABLE=0 "
                         "NCCL_CUMEM_HOST_ENABLE=0 NCCL_SOCKET_IFNAME=lo")
        trial = self.summary()["ranks.nccl"]["details"]
        self.assertEqual(trial["nccl"], NCCL_CAREFUL)
        self.assertIn("unhandled system error", trial["nccl failed"])
        self.assertEqual(self.summary()["ranks.2.zero"]["details"]["nccl"], NCCL_CAREFUL)

    def test_later_commands_know_what_nccl_needs(self):
        self.accept("--only", "ranks.nccl", broken="nccl")
        self.assertEqual(self.accept("--only", "ranks.2.tensor", broken="nccl").returncode, 0)
        self.program("build/bin/train_gpt", PROGRAM + "# another build\n")
        self.assertEqual(self.accept("--only", "ranks.2.tensor", broken="nccl").returncode, 1)

    def test_where_nccl_fails_also_with_care_what_needs_it_is_left_out(self):
        done = self.accept("--only", "ranks.*", "--only", "benchmarks.nccl", broken="nccl-always")
        self.assertEqual(done.returncode, 1)
        self.assertIn("# benchmarks.nccl is left out: ranks.nccl failed", done.stdout)
        self.assertIn("# 4 passed, 1 failed, 0 not finished, 14 left out", done.stdout)

    def test_what_a_benchmark_could_not_measure_is_a_failed_stage(self):
        benchmarks = ("--only", "benchmarks.gpt2-124m.pytorch*", "--python", self.pytorch)
        done = self.accept(*benchmarks, broken="compile")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"benchmarks.gpt2-124m.pytorch +passed")
        self.assertRegex(done.stdout, r"benchmarks.gpt2-124m.pytorch-compiled +failed .*"
                         "gpt2-124m/pytorch-compiled: failed: .*--compile.* ended with 1")
        third = self.accept("--call", "third", "--list", *benchmarks).stdout
        self.assertIn("benchmarks.gpt2-124m.pytorch-compiled ", third)
        self.assertNotIn("benchmarks.gpt2-124m.pytorch ", third)
        done = self.accept(*benchmarks)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"benchmarks.gpt2-124m.pytorch +passed before")
        self.calls()
        self.accept(*benchmarks, "--again")
        measured = [call for call in self.calls() if "pytorch_model.py" in call]
        self.assertEqual(len(measured), 5)

    def test_the_machine_is_described(self):
        self.accept("--only", "kernels")
        probe = self.summary()["probe"]["details"]
        self.assertEqual(probe["tools"]["ncu"], f"{self.root}/tools/ncu")
        self.assertEqual(probe["kernel filter"], ["--kernel-name", "kns=trireme"])
        self.assertEqual(probe["gpu"]["clocks.max.sm"], "1980 MHz")
        self.assertNotIn("vbios_version", probe["gpu"])  # refused, and the others are there
        self.assertEqual(probe["python"]["executable"], sys.executable)
        self.assertEqual(set(probe["python"]), {"executable", "version", "packages", "torch",
                                                "triton", "Python.h"})
        self.assertLess({"make", "cc", "gcc"}, set(probe["tools"]))
        self.assertIn("state of -q", (self.output / "logs/probe.log").read_text())

    def test_ncu_leaves_the_clocks_alone(self):
        done = self.accept("--only", "ncu.*")
        self.assertEqual(done.returncode, 0, done.stdout)
        log = (self.output / "logs/ncu.attention.log").read_text()
        self.assertIn("--clock-control none --kernel-name-base demangled "
                      "--kernel-id '::regex:attention|norm_backward|bias|cross:3' -c 12", log)
        self.assertIn("== ncu.attention (passed)\n", (self.results / "table.txt").read_text())
        done = self.accept("--only", "ncu.*", "--again", broken="ncu")
        self.assertRegex(done.stdout, r"ncu.kernels +failed .* ended with 1")

    def test_what_has_passed_is_not_run_again_but_for_other_programs(self):
        self.accept(*KERNELS)
        again = self.accept(*KERNELS, broken="kernels")
        self.assertEqual(again.returncode, 0, again.stdout)
        self.assertRegex(again.stdout, r"kernels +passed before")
        self.program("build/bin/train_gpt", PROGRAM + "# another build\n")
        self.assertEqual(self.accept(*KERNELS, broken="kernels").returncode, 1)

    def test_a_command_that_does_a_part_keeps_the_records_of_the_others(self):
        self.accept(*KERNELS)
        self.accept("--only", "kernels", "--again")
        self.assertEqual(len(self.summary()), 13)
        self.assertRegex((self.results / "table.txt").read_text(),
                         r"sanitizers.memcheck.CudaNorm +passed \*")

    def test_a_failure_is_named_recorded_and_tried_again(self):
        done = self.accept(*KERNELS, broken="sanitizer")
        self.assertEqual(done.returncode, 1)
        self.assertIn("# 5 passed, 8 failed", done.stdout)
        record = self.summary()["sanitizers.synccheck.CudaNorm"]
        self.assertEqual(record["status"], "failed")
        self.assertIn("ERROR SUMMARY: 2 errors", record["reason"])
        self.assertEqual(self.accept(*KERNELS).returncode, 0)

    def test_failing_kernel_tests_are_named(self):
        for broken, reason, test in (("kernels", "7 tests, 1 failed", "CudaGemm.Agrees"),
                                     ("crash", "ended with 139", "CudaNorm.ForwardAgrees")):
            done = self.accept("--only", "kernels", broken=broken)
            self.assertEqual(done.returncode, 1)
            record = self.summary()["kernels"]
            self.assertIn(reason, record["reason"])
            self.assertEqual(record["details"]["failed tests"], [test])

    def test_without_time_it_says_that_it_is_not_finished(self):
        done = self.accept("--only", "kernels", "--minutes", "0.3")
        self.assertEqual(done.returncode, 75, done.stdout)
        self.assertRegex(done.stdout, r"kernels +not finished")

    def test_without_a_gpu_one_message_says_so(self):
        (self.root / "tools/nvidia-smi").unlink()
        done = self.accept(broken="gpu")
        self.assertEqual(done.returncode, 69, done.stdout)
        self.assertIn("no GPU can be used: no driver", done.stdout)

    def test_mistakes_of_the_command_line_are_named(self):
        (self.root / "no_summary").write_text("[1]")
        for arguments, message in (
                (["--without", "everything"], "invalid choice"),
                (["--only", "kernel"], "no stage is called kernel"),
                (["--archive", "/nowhere"], "not allowed with argument"),
                (["--resume", "/nowhere"], "there is no /nowhere"),
                (["--resume", self.root / "no_summary"], "no_summary is no summary.json"),
                (["--call", "third"], "--resume SUMMARY")):
            done = self.accept(*arguments)
            self.assertEqual(done.returncode, 64, done.stdout + done.stderr)
            self.assertIn(message, done.stderr)


if __name__ == "__main__":
    unittest.main()
