"""Stages that look at the kernels with NVIDIA's tools. Neither tool changes clocks."""
import re

import probe
from records import Stage
from work import Failed, tail

SANITIZERS = ("memcheck", "racecheck", "synccheck", "initcheck")
# Those whose kernels index the most come first.
SUITES_FIRST = ("CudaAttention", "CudaNorm", "CudaGemm", "CudaEmbedding")
# Benchmarks launch a kernel hundreds of times in a row: of each the third launch is enough. Kernels
# of one template are counted apart, as their demangled names are.
NCU_KERNELS = "::regex:attention|norm_backward|bias|cross:3"
NCU_LAUNCHES = 12
ATTENTION_SHAPES = ("4 1024 12 12 64", "1 2048 32 8 128")  # jobs of gpu_products_benchmark
SMALL_ATTENTION_SHAPES = ("1 32 2 2 64",)


def sanitizer_stages(a, suites):
    def stage(tool, suite):
        def run(work):
            sanitizer = probe.find_tool("compute-sanitizer")
            options = probe.kernel_filter(work.attempt([sanitizer, "--help"]) or "")
            if tool == "memcheck":
                # The tests look at calls that fail: one asks for more memory than there is.
                options += ["--report-api-errors", "no"]
            before = [sanitizer, "--tool", tool, *options, "--error-exitcode", 86]
            output = a.program(work, "gpu_kernels_tests", "--gtest_brief=1",
                               f"--gtest_filter={suite}.*", before=before)
            summaries = r"^=+ (ERROR SUMMARY: .*|RACECHECK SUMMARY: .*)$"
            verdicts = re.findall(summaries, output, re.M)
            if not verdicts or not all("SUMMARY: 0 " in verdict for verdict in verdicts):
                raise Failed(verdicts[-1] if verdicts else "compute-sanitizer gave no summary")
            return {"summary": verdicts[-1].lower()}

        planned_s = 20 if tool == "memcheck" else 40
        return Stage(f"sanitizers.{tool}.{suite}", planned_s, run,
                     uses=("compute-sanitizer", "gpu_kernels_tests"))

    first = [suite for suite in SUITES_FIRST if suite in suites]
    suites = first + [suite for suite in suites if suite not in first]
    return [stage(tool, suite) for tool in SANITIZERS for suite in suites]


def ncu_stages(a):
    def stage(name, program, *arguments, text=""):
        def run(work):
            ncu = [probe.find_tool("ncu"), "--set", "basic", "--clock-control", "none",
                   "--kernel-name-base", "demangled", "--kernel-id", NCU_KERNELS,
                   "-c", NCU_LAUNCHES]
            output = a.program(work, program, *arguments, before=ncu, text=text)
            kernels = re.findall(r"^  (\S.*), Context \d+, Stream \d+", output, re.M)
            work.details["text"] = tail(output, 400)
            if not kernels:
                raise Failed(f"ncu saw no kernel:\n{tail(output)}")
            return {"summary": f"{len(kernels)} launches"}

        return Stage(f"ncu.{name}", 45, run, uses=("ncu", program))

    working_set_mb = 1 if a.emulated else 512
    jobs = "".join(f"attention {direction} {shape}\n"
                   for shape in (SMALL_ATTENTION_SHAPES if a.emulated else ATTENTION_SHAPES)
                   for direction in ("forward", "backward"))
    return [stage("kernels", "gpu_kernels_benchmark", working_set_mb),
            stage("attention", "gpu_products_benchmark", a.output / "gemm", text=jobs)]
