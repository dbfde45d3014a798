"""What is accepted on a GPU, as a list of stages: kernels, sanitizers, parity with the CPU, several ranks, benchmarks."""
import dataclasses
import fnmatch
import importlib.util
import json
import pathlib
import re
import shutil
import sys

import parity
from installation import ROOT, Installation, test_suites
from records import Failed, Stage

GROUPS = ("install", "kernels", "sanitizers", "parity", "ranks", "benchmarks")
# By what they tell for their time: a GPU may be there for half an hour only, and all but the last line fit in that.
ORDER = ("kernels", "parity.*", "ranks.*", "sanitizers.memcheck.*", "benchmarks.*", "sanitizers.*")
RANK_STEPS = 3  # ranks that share a GPU take turns on it: every collective takes milliseconds
SANITIZERS = ("memcheck", "racecheck", "synccheck", "initcheck")
BF16_STEP, BF16_MEAN = 1e-2, 2e-3  # the band around the CPU's bf16 losses: any step, and the mean over all
LAYOUTS = {  # ranks: {name: options}
    2: {"data": [], "zero": ["--use-distributed-optimizer"], "tensor": ["--tp", 2], "sequence": ["--tp", 2, "--sequence-parallel"],
        "pipeline": ["--pp", 2], "interleaved": ["--pp", 2, "--num-virtual-stages-per-pipeline-rank", 2]},
    4: {"data": [], "zero": ["--use-distributed-optimizer"], "tensor": ["--tp", 4], "pipeline": ["--pp", 4], "tensor-data": ["--tp", 2, "--lm-head-chunks", 3],
        "pipeline-data": ["--pp", 2, "--use-distributed-optimizer"], "tensor-pipeline": ["--tp", 2, "--pp", 2, "--sequence-parallel"]},
}


@dataclasses.dataclass
class Acceptance:
    installation: Installation
    output: pathlib.Path
    size: parity.Size
    python: pathlib.Path | None = None  # has PyTorch; None: this one, if it has

    def train(self, work, name, options, steps=None, **more):
        size = dataclasses.replace(self.size, steps=steps or self.size.steps)
        return parity.train(self.installation, work, self.output, name, [*options, *size.options()], **more)

    def program(self, work, program, *arguments, before=()):
        return work.run(self.installation.command(program, *arguments, before=before), self.installation.environment())


def stages(acceptance, wanted):
    """All stages of the groups in `wanted`, in the order in which they run."""
    makers = {"kernels": kernel_stages, "sanitizers": sanitizer_stages, "parity": parity_stages, "ranks": rank_stages, "benchmarks": benchmark_stages}
    found = [stage for group, make in makers.items() if group in wanted for stage in make(acceptance)]
    return sorted(found, key=lambda stage: next(i for i, pattern in enumerate(ORDER) if fnmatch.fnmatch(stage.name, pattern)))


def missing(wanted, emulated):
    """What the stages need and this machine lacks: one line each, with what to do."""
    lines = []
    if not emulated and not shutil.which("nvidia-smi"):
        lines.append("nvidia-smi is not found: is there a GPU, and its driver? Without one: --emulated-module FILE tries the stages on the host emulation")
    if "sanitizers" in wanted and not shutil.which("compute-sanitizer"):
        lines.append("compute-sanitizer is not found: put the bin directory of the CUDA toolkit in PATH, or leave it out: --without sanitizers")
    return lines


def kernel_stages(a):
    def run(work):
        report = a.output / "kernels.json"
        a.program(work, "gpu_kernels_tests", "--gtest_brief=1", f"--gtest_output=json:{report}")
        counts = json.loads(report.read_text())
        if counts["tests"] == 0 or counts["failures"] + counts["errors"] + counts["disabled"] > 0:
            raise Failed(f"{counts['tests']} tests, {counts['failures']} failed, {counts['disabled']} disabled")
        return {"summary": f"{counts['tests']} tests against the CPU", "tests": counts["tests"]}

    return [Stage("kernels", 40, run)]


def sanitizer_stages(a):
    def stage(tool, suite):
        def run(work):
            # Only trireme's kernels: what cuBLASLt does is not ours to judge.
            sanitizer = ["compute-sanitizer", "--tool", tool, "--kernel-name", "kns=trireme", "--error-exitcode", 86]
            if tool == "memcheck":
                # Calls that fail are looked at by the tests, and one of them asks for more memory than there is.
                sanitizer += ["--leak-check", "full", "--report-api-errors", "no"]
            output = a.program(work, "gpu_kernels_tests", "--gtest_brief=1", f"--gtest_filter={suite}.*", before=sanitizer)
            verdicts = re.findall(r"^=+ (ERROR SUMMARY: .*|RACECHECK SUMMARY: .*)$", output, re.M)
            if not verdicts or not all(re.search(r"SUMMARY: 0 ", verdict) for verdict in verdicts):
                raise Failed(verdicts[-1] if verdicts else "compute-sanitizer gave no summary")
            return {"summary": verdicts[-1].lower()}

        return Stage(f"sanitizers.{tool}.{suite}", 20 if tool == "memcheck" else 30, run)

    return [stage(tool, suite) for tool in SANITIZERS for suite in test_suites(a.installation)]


def parity_stages(a):
    def fp32(model):
        def run(work):
            cpu = a.train(work, f"{model}.cpu", [*parity.MODELS[model], "--device", "cpu"])
            gpu = a.train(work, f"{model}.cuda", [*parity.MODELS[model], "--device", "cuda"])
            difference = parity.difference(gpu, cpu)
            difference.require_below(parity.DEVICES_AGREE)
            return {"summary": f"{difference} over {len(cpu.losses)} steps", "cpu": cpu.losses, "cuda": gpu.losses}

        return Stage(f"parity.fp32.{model}", 40, run)

    def bf16(model):
        def run(work):
            cpu = a.train(work, f"{model}.bf16.cpu", [*parity.MODELS[model], "--device", "cpu", "--bf16"])
            gpu = a.train(work, f"{model}.bf16.cuda", [*parity.MODELS[model], "--device", "cuda", "--bf16"])
            step, steps = parity.relative(gpu.losses, cpu.losses), len(cpu.losses)
            mean = abs(sum(gpu.losses) - sum(cpu.losses)) / sum(cpu.losses)
            parity.require_below("a bf16 loss", step, BF16_STEP)
            parity.require_below("the mean bf16 loss", mean, BF16_MEAN)
            return {"summary": f"losses within {step:.1e}, their mean within {mean:.1e} over {steps} steps", "cpu": cpu.losses, "cuda": gpu.losses}

        return Stage(f"parity.bf16.{model}", 40, run)

    def repeat(precision):
        def run(work):
            options = [*parity.MODELS["gpt2"], "--device", "cuda", "--hidden-dropout", "0.1", *(["--bf16"] if precision == "bf16" else [])]
            first, second = (a.train(work, f"repeat.{precision}.{i}", options) for i in (1, 2))
            parity.require_same_bits(first, second)
            return {"summary": f"two runs have the same bits over {len(first.bits)} steps"}

        return Stage(f"parity.repeat.{precision}", 20, run)

    return [*map(fp32, parity.MODELS), *map(bf16, parity.MODELS), repeat("fp32"), repeat("bf16")]


def rank_stages(a):
    model = [*parity.MODELS["gpt2"], "--device", "cuda"]

    trained = []

    def one_rank(work):  # once a command: what an earlier one left may be of other programs
        if not trained:
            trained.append(a.train(work, "ranks.1", model, steps=RANK_STEPS))
        return trained[0]

    def stage(ranks, name, options):
        def run(work):
            one = one_rank(work)
            many = a.train(work, f"ranks.{ranks}.{name}", [*model, *options, "--ranks-per-gpu", ranks, "--serialize-communication"], steps=RANK_STEPS, ranks=ranks)
            difference = parity.difference(many, one)
            difference.require_below(parity.LAYOUTS_AGREE)
            return {"summary": f"as one rank: {difference}"}

        return Stage(f"ranks.{ranks}.{name}", 10 * ranks, run)

    return [stage(ranks, name, options) for ranks, layouts in LAYOUTS.items() for name, options in layouts.items()]


def benchmark_stages(a):
    scripts = ROOT / "tests/benchmarks/gpu"

    def stage(name, usual_s, script, *arguments):
        def run(work):
            result = a.output / f"benchmark_{name}.json"
            start = ["--build", a.installation.build] if a.installation.build else ["--installation", a.installation.folder]
            work.run([sys.executable, scripts / script, *start, *arguments, "--json", result], a.installation.environment())
            return json.loads(result.read_text())

        return Stage(f"benchmarks.{name}", usual_s, run)

    # Without PyTorch a GPU is measured all the same; the record says that nothing was beside it.
    python = a.python or (sys.executable if importlib.util.find_spec("torch") else None)
    beside = ["--python", python] if python else ["--without-pytorch"]
    models = {"gpt2-124m": 120, "llama-1b": 240, "gpt2-1558m": 400}
    return [stage("kernels", 60, "kernels.py"), *(stage(model, usual_s, "training.py", "--model", model, *beside) for model, usual_s in models.items())]
