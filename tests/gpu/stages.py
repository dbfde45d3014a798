"""What is accepted on a GPU, as a list of stages. Groups: kernels, parity with the CPU, several
ranks, benchmarks, compute-sanitizer, Nsight Compute."""
import dataclasses
import json
import pathlib
import re

import calls
import parity
import probe
from benchmark_stages import benchmark_stages
from installation import ROOT, Installation, open_gpu, test_suites
from records import Records, Stage
from tool_stages import ncu_stages, sanitizer_stages
from training_stages import NCCL, parity_stages, rank_stages
from work import Failed

GROUPS = ("kernels", "parity", "ranks", "benchmarks", "sanitizers", "ncu")
KERNELS_ONLY_BUILD_S = 120
BLOCKING = {"CUDA_LAUNCH_BLOCKING": "1"}  # an error is that of the launch that made it


@dataclasses.dataclass
class Acceptance:
    installation: Installation
    output: pathlib.Path
    records: Records
    emulated: bool = False
    python: pathlib.Path | None = None  # has PyTorch; None: there is none
    identity: str = ""                  # of the records that are made
    llmc: pathlib.Path | None = None    # its sources
    again: bool = False                 # measures also what was measured

    @property
    def size(self):
        return parity.SIZES["small" if self.emulated else "whole"]

    @property
    def nccl(self):
        """Settings that NCCL needs here, as the trial found, perhaps in an earlier command."""
        if not self.records.passed(NCCL, self.identity):
            return {}
        return self.records.read(NCCL)["details"]["nccl"]

    def train(self, work, name, options, size=None, **more):
        return parity.train(self.installation, work, self.output, name,
                            [*options, *(size or self.size).options()], **more)

    def program(self, work, program, *arguments, before=(), environment=None, text=""):
        return work.run(self.installation.command(program, *arguments, before=before),
                        self.installation.environment(environment), text=text)

    def why_missing(self, name):
        """None where `name` is there: a program of trireme, a script, a tool, PyTorch."""
        if name == "PyTorch":
            return None if self.python else "PyTorch is not found (--python FILE)"
        if name.endswith(".py"):
            return None if (ROOT / name).exists() else f"{name} is missing"
        if name in probe.TOOLS:
            found = probe.find_tool(name)
            return None if found else f"{name} is not found in PATH or the CUDA toolkit"
        return None if self.installation.has(name) else f"{name} is not among the programs"


def all_stages(a, groups=GROUPS):
    """Those of the groups."""
    suites = test_suites(a.installation)
    return [*(kernel_stages(a, suites) if "kernels" in groups else []),
            *(parity_stages(a) if "parity" in groups else []),
            *(rank_stages(a) if "ranks" in groups else []),
            *(benchmark_stages(a) if "benchmarks" in groups else []),
            *(sanitizer_stages(a, suites) if "sanitizers" in groups else []),
            *(ncu_stages(a) if "ncu" in groups else [])]


def that_can_run(a, stages):
    """The stages that have what they use. A line says what is missing, and what that leaves out."""
    missing = {name: a.why_missing(name) for stage in stages for name in stage.uses}
    for name, why in missing.items():
        if why:
            left_out = [stage.name for stage in stages if name in stage.uses]
            print(f"# {why}: {', '.join(left_out[:3])}{' ...' if len(left_out) > 3 else ''} "
                  f"left out ({len(left_out)})", flush=True)
    return [stage for stage in stages if not any(missing[name] for name in stage.uses)]


def kernel_stages(a, suites):
    sizes = ("--sizes", "small" if a.emulated else "whole")
    large = lambda work: run_tests(a, work, "gpu_large_tests", *sizes)

    def large_blocking(work):
        failed = calls.failed_tests(a.records, "kernels.large")
        return run_tests(a, work, "gpu_large_tests", *sizes, f"--gtest_filter={':'.join(failed)}",
                         environment=BLOCKING)

    def blocking(suite):
        def run(work):
            return run_tests(a, work, "gpu_kernels_tests", f"--gtest_filter={suite}.*",
                             environment=BLOCKING)

        return Stage(f"kernels.blocking.{suite}", 15, run, uses=("gpu_kernels_tests",))

    tests = lambda work: run_tests(a, work, "gpu_kernels_tests")
    return [Stage("kernels", 30, tests, uses=("gpu_kernels_tests",)),
            Stage("kernels.large", 30, large, uses=("gpu_large_tests",)),
            Stage("kernels.large.blocking", 30, large_blocking, uses=("gpu_large_tests",)),
            *map(blocking, suites)]


def run_tests(a, work, program, *arguments, environment=None):
    """Of a GoogleTest program. The details name the tests that failed, also where it did not
    end."""
    report = a.output / f"{program}.json"
    report.unlink(missing_ok=True)
    try:
        a.program(work, program, *arguments, f"--gtest_output=json:{report}",
                  environment=environment)
    finally:
        work.details["failed tests"] = failed_tests(report, work.log)
    counts = json.loads(report.read_text())
    if counts["tests"] == 0 or counts["failures"] + counts["errors"] + counts["disabled"] > 0:
        raise Failed(f"{counts['tests']} tests, {counts['failures']} failed, "
                     f"{counts['disabled']} disabled")
    return {"summary": f"{counts['tests']} tests passed", "tests": counts["tests"]}


def failed_tests(report, log):
    """Suite.Test, as the report says; of a program that did not end, the test that ran."""
    if report.exists():
        suites = json.loads(report.read_text()).get("testsuites", [])
        return [f"{suite['name']}.{test['name']}" for suite in suites
                for test in suite["testsuite"] if test.get("failures")]
    return re.findall(r"^\[ RUN +\] (\S+)", log.read_text(errors="replace"), re.M)[-1:]


def kernels_only(output, found):
    """The fall-back where the archive's module does not load: builds the kernels with their tests
    and benchmarks on this machine. `found` gets that build as its installation, and the GPU."""
    archive = found["installation"].folder
    script = (archive or ROOT) / "tests/gpu/kernels_only/build"
    build = output / "kernels_only"

    def run(work):
        work.run(["bash", script, build])
        found["installation"] = Installation(None, build)
        found["gpu"] = open_gpu(found["installation"], work)
        return {"summary": f"the kernels were built here, for {found['gpu']}"}

    return Stage("kernels.only", KERNELS_ONLY_BUILD_S, run)
