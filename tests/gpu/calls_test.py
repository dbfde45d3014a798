#!/usr/bin/python3
"""In what order the acceptance runs, what its three commands contain, and what it leaves out where
something is missing.
usage: tests/gpu/calls_test.py [-v]"""
import contextlib
import io
import os
import re
import subprocess
import sys
import unittest

from pretend_run import HERE, PROGRAM, Pretended
import calls
import probe
import read_ahead
import stages
from installation import Installation
from records import Records


class Listed(Pretended):
    """tests/gpu/run --list, with all programs and tools there."""

    def setUp(self):
        super().setUp()
        self.python = ("--python", self.pytorch)

    def listed(self, *arguments):
        done = self.accept("--list", *self.python, *arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        names = [line.split()[0] for line in done.stdout.splitlines() if line[0] != "#"]
        self.assertEqual(len(names), len(set(names)))
        planned = re.search(r"# (\d+) stages, planned (\d+) s(?: of (\d+))?", done.stdout)
        self.assertEqual(int(planned[1]), len(names))
        return names, int(planned[2]), planned[3] and int(planned[3])

    def test_each_command_keeps_to_its_time(self):
        for call, limit_s in (("first", 450), ("second", 450), ("third", 400)):
            names, planned_s, of_s = self.listed("--call", call)
            self.assertEqual(of_s, limit_s)
            self.assertLessEqual(planned_s, limit_s)
            self.assertGreater(planned_s, limit_s - 50, "time is left unused")

    def test_what_tells_the_most_comes_first(self):
        names, _, _ = self.listed()
        starts = ("kernels", "kernels.large", "parity.fp32", "benchmarks.gpt2-124m.trireme",
                  "benchmarks.gpt2-124m.pytorch", "benchmarks.kernels", "parity.bf16",
                  "parity.repeat", "ranks.mpi", "ranks.nccl", "ranks.2.zero", "benchmarks.nccl",
                  "benchmarks.llama-1b", "benchmarks.gpt2-1558m",
                  "ranks.2.pipeline", "ranks.4", "sanitizers.memcheck", "ncu")
        firsts = [next(i for i, name in enumerate(names) if name.startswith(start))
                  for start in starts]
        self.assertEqual(firsts, sorted(firsts))

    def test_the_first_two_commands_share_nothing_but_the_trials_of_several_ranks(self):
        first, second = (set(self.listed("--call", call)[0]) for call in ("first", "second"))
        self.assertEqual(first & second, {"ranks.mpi", "ranks.nccl"})

    def test_the_third_runs_what_failed_or_was_cut_off(self):
        only = ("--only", "kernels*", "--only", "sanitizers.*", "--only", "ranks.2.*",
                "--only", "ranks.mpi", "--only", "ranks.nccl")
        self.accept("--only", "kernels", broken="kernels")  # its suite CudaGemm failed
        names, _, _ = self.listed("--call", "third", *only)
        self.assertEqual(names[:4], ["sanitizers.memcheck.CudaGemm", "kernels.blocking.CudaGemm",
                                     "kernels", "kernels.large"])
        self.assertEqual(names[4:7], ["ranks.mpi", "ranks.nccl", "ranks.2.zero"])
        self.accept("--only", "kernels", "--only", "ranks.*", "--only", "kernels.large")
        names, _, _ = self.listed("--call", "third", *only)
        self.assertEqual(names[0], "sanitizers.memcheck.CudaNorm")

    def test_the_third_judges_other_programs_anew(self):
        only = ("--only", "kernels", "--only", "parity.repeat.*", "--only", "ranks.mpi")
        self.accept(*only)
        self.assertEqual(self.listed("--call", "third", *only)[0], [])
        self.program("build/bin/train_gpt", PROGRAM + "# another build\n")
        self.assertEqual(self.listed("--call", "third", *only)[0],
                         ["kernels", "parity.repeat.fp32", "parity.repeat.bf16"])

    def test_several_ranks_that_failed_come_behind_the_tools(self):
        self.accept("--only", "ranks.*", broken="nccl-always")
        only = ("--only", "ranks.*", "--only", "sanitizers.*", "--only", "ncu.*", "--only",
                "kernels", "--only", "benchmarks.nccl")
        names, _, _ = self.listed("--call", "third", *only)
        self.assertEqual(names[0], "kernels")
        self.assertEqual(names[5:8], ["ranks.nccl", "ranks.2.zero", "benchmarks.nccl"])

    def test_llmc_is_measured_where_its_sources_are(self):
        (self.root / "llm.c").mkdir()
        with_it, _, _ = self.listed("--call", "third", "--llmc", self.root / "llm.c")
        without, _, _ = self.listed("--call", "third")
        name = "benchmarks.gpt2-124m.llmc"
        self.assertEqual((name in with_it, name in without), (True, False))

    def test_the_third_runs_them(self):
        self.accept("--only", "kernels", broken="kernels")
        done = self.accept("--call", "third", "--only", "kernels*")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("CUDA_LAUNCH_BLOCKING=1",
                      (self.output / "logs/kernels.blocking.CudaGemm.log").read_text())

    def test_large_arrays_that_failed_are_looked_into(self):
        self.accept("--only", "kernels.large", broken="kernels")
        done = self.accept("--call", "third", "--only", "kernels*")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertLess(done.stdout.index("# kernels.large.blocking ..."),
                        done.stdout.index("# kernels.large ..."))
        log = (self.output / "logs/kernels.large.blocking.log").read_text()
        self.assertRegex(log, r"CUDA_LAUNCH_BLOCKING=1 .*--gtest_filter=CudaGemm.Agrees ")


class Missing(Pretended):
    """What this machine lacks leaves out what uses it, with a line, and nothing else."""

    def left(self, missing_tools=(), python=None):
        tools = lambda name: None if name in missing_tools else f"/tools/{name}"
        self.addCleanup(setattr, probe, "find_tool", probe.find_tool)
        probe.find_tool = tools
        acceptance = stages.Acceptance(Installation(None, self.root / "build"), self.root,
                                       Records(self.root / "logs"), python=python)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            found = stages.that_can_run(acceptance, stages.all_stages(acceptance))
        return {stage.name for stage in found}, out.getvalue()

    def test_a_tool(self):
        everything, _ = self.left(python="/tools/python")
        left, said = self.left(missing_tools=("compute-sanitizer",), python="/tools/python")
        gone = everything - left
        self.assertEqual({name.split(".")[0] for name in gone}, {"sanitizers"})
        self.assertRegex(said, r"# compute-sanitizer is not found in PATH or the CUDA toolkit: "
                         r"sanitizers.memcheck.CudaNorm.* \.\.\. left out \(8\)\n")

    def test_pytorch_and_programs(self):
        everything, _ = self.left(python="/tools/python")
        (self.root / "build/bin/gpu_large_tests").unlink()
        (self.root / "build/bin/gpu_nccl_benchmark").unlink()
        left, said = self.left()
        gone = sorted(name for name in everything - left if "pytorch" not in name)
        self.assertEqual(gone, ["benchmarks.nccl", "kernels.large", "kernels.large.blocking"])
        self.assertIn("benchmarks.llama-1b.trireme", left)
        self.assertNotIn("benchmarks.llama-1b.pytorch", left)
        for name in ("PyTorch is not found", "gpu_large_tests is not", "gpu_nccl_benchmark is"):
            self.assertEqual(said.count(name), 1)


    def test_names_of_suites(self):
        self.program("build/bin/gpu_kernels_tests", "#!/bin/sh\nexit 127\n")
        left, said = self.left()
        self.assertIn("no suite of gpu_kernels_tests is known", said)
        self.assertIn("kernels", left)
        self.assertFalse([name for name in left if name.startswith("sanitizers")])


class Tools(Pretended):
    def test_a_tool_is_looked_for_in_the_toolkit(self):
        self.program("cuda/compute-sanitizer/some_tool", "")
        self.program("cuda/nsight-compute-2025.3/other_tool", "")
        command = [sys.executable, "-c", "import probe, sys; print(probe.find_tool(sys.argv[1]))"]
        for name, place in (("some_tool", "compute-sanitizer"), ("no_tool", None),
                            ("other_tool", "nsight-compute-2025.3")):
            done = subprocess.run([*command, name], capture_output=True, text=True, cwd=HERE,
                                  env=self.environment(CUDA_HOME=str(self.root / "cuda")))
            expected = f"{self.root}/cuda/{place}/{name}" if place else "None"
            self.assertEqual(done.stdout.strip(), expected, done.stderr)

    def test_the_sanitizer_is_asked_how_kernels_are_named(self):
        for option in ("--kernel-name", "--kernel-regex", "--filter"):
            self.assertEqual(probe.kernel_filter(f"  {option} arg"), [option, "kns=trireme"])
        self.assertEqual(probe.kernel_filter("nothing"), [])


class Packages(Pretended):
    """Python's packages have libraries of CUDA, and PyTorch's."""

    def setUp(self):
        super().setUp()
        self.packages = self.root / "site"
        self.pytorch = self.program("tools/python", f"""#!/bin/sh
            echo '{{"packages": "{self.packages}", "torch": "2.0"}}'
            """)

    def test_the_programs_get_those_of_the_python_that_has_pytorch(self):
        self.accept("--only", "kernels", "--python", self.pytorch)
        for stage in ("probe", "gpu", "kernels"):
            self.assertIn(f"TRIREME_PYTHON_PACKAGES={self.packages} ",
                          (self.output / f"logs/{stage}.log").read_text())
        self.assertFalse((self.output / "logs/read_ahead.log").exists())  # nothing needs PyTorch

    def test_start_looks_there(self):
        start = HERE.parents[1] / "launch/bundle_start"
        if not start.exists():
            self.skipTest(f"no {start}: this is an archive")
        self.program("archive/start", start.read_text())
        self.program("archive/openmpi/mpirun.env", "")
        self.program("archive/lib/cuda_libraries", "libpretended.so.1\n")
        self.program("site/nvidia/some/lib/libpretended.so.1", "")
        command = [self.root / "archive/start", "printenv", "LD_LIBRARY_PATH"]
        for given, found in ((str(self.packages), f":{self.packages}/nvidia/some/lib"), ("", "")):
            done = subprocess.run(command, capture_output=True, text=True, env=self.environment(
                TRIREME_PYTHON_PACKAGES=given, LD_LIBRARY_PATH="/behind"))
            self.assertEqual(done.stdout.strip(), f"{self.root}/archive/lib{found}:/behind",
                             done.stderr)

    def test_what_pytorch_loads_is_read_before_it_is_needed(self):
        library = self.packages / "torch/lib/libtorch.so"
        library.parent.mkdir(parents=True)
        os.mkfifo(library)
        log = self.root / "log"
        with read_ahead.read_ahead(self.packages, log):
            writer = ["timeout", "60", "sh", "-c", f"echo read > {library}"]  # waits for a reader
            self.assertEqual(subprocess.run(writer).returncode, 0)
        self.assertIn(f"nice -n 19 cat {library}\n", log.read_text())
        library.unlink()
        library.write_text("")
        self.accept("--only", "benchmarks.gpt2-124m.pytorch", "--python", self.pytorch)
        self.assertIn(f" cat {library}\n", (self.output / "logs/read_ahead.log").read_text())


class FallBack(Pretended):
    """Where the archive's module does not load."""

    CMAKE = r"""#!/bin/bash
[ -z "$BROKEN_BUILD" ] || { echo "no compiler"; exit 1; }
[ "$1" != -S ] || { mkdir -p "$4"/{bin,lib}; cp "$PROGRAMS"/* "$4/bin/"; }
"""

    def accept_without_module(self, *arguments, tools=("nvcc", "ninja", "c++"), **environment):
        self.program("tools/cmake", self.CMAKE)
        for tool in tools:
            self.program(f"tools/{tool}", "#!/bin/sh\n")
        works = PROGRAM.replace("#!/bin/bash\n", "#!/bin/bash\nBROKEN=\n")
        for name in ("gpu_kernels_tests", "gpu_large_tests"):
            self.program(f"programs/{name}", works)
        return self.accept(*arguments, broken="gpu", PROGRAMS=str(self.root / "programs"),
                           **environment)

    def test_the_kernels_are_built_there_and_what_needs_no_more_runs(self):
        done = self.accept_without_module("--only", "kernels*", "--only", "parity.*")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"kernels.only +passed .* built here, for Pretender")
        self.assertRegex(done.stdout, r"kernels.large +passed .* 7 tests passed")
        self.assertIn("train_gpt is not among the programs", done.stdout)
        self.assertIn("no GPU can be used: no driver", self.summary()["gpu"]["reason"])
        self.assertIn("find library=", self.summary()["gpu"]["details"]["loader"])

    def test_nvcc_is_found_in_the_toolkit(self):
        self.program("cuda/bin/nvcc", "#!/bin/sh\n")
        done = self.accept_without_module("--only", "kernels", tools=("ninja", "c++"),
                                          CUDA_HOME=str(self.root / "cuda"))
        self.assertRegex(done.stdout, r"kernels.only +passed .* built here, for Pretender")

    def test_a_build_that_fails_says_why(self):
        done = self.accept_without_module(BROKEN_BUILD="yes")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"kernels.only +failed .* no compiler")


if __name__ == "__main__":
    unittest.main()
