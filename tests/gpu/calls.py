"""In what order stages run, and what each of three commands runs where a GPU is there for half an
hour: by what they tell for their time."""
import fnmatch
from dataclasses import dataclass

LIMIT_S = {"first": 450, "second": 450, "third": 400}
# Does it run, is it right, how fast is the small model?
FIRST = ("kernels", "kernels.large", "parity.fp32.*", "benchmarks.products",
         "benchmarks.gpt2-124m.trireme", "benchmarks.gpt2-124m.pytorch",
         "benchmarks.gpt2-124m.pytorch-compiled", "benchmarks.kernels", "parity.bf16.*",
         "parity.repeat.*", "ranks.mpi", "ranks.2.zero", "ranks.2.tensor", "benchmarks.nccl")
# Large models, ranks.
SECOND = ("benchmarks.llama-1b.trireme", "benchmarks.llama-1b.pytorch-compiled",
          "benchmarks.gpt2-1558m.trireme", "benchmarks.gpt2-1558m.pytorch-compiled",
          "ranks.mpi", "ranks.2.*", "ranks.4.*")
# Why is it so? As far as there is time.
REST = ("sanitizers.memcheck.CudaAttention", "sanitizers.memcheck.CudaNorm",
        "sanitizers.memcheck.CudaGemm", "sanitizers.memcheck.CudaEmbedding",
        "benchmarks.gpt2-124m.llmc", "ncu.*",
        "benchmarks.products.pytorch",
        "sanitizers.racecheck.CudaAttention", "benchmarks.gpt2-124m.*", "sanitizers.memcheck.*",
        "benchmarks.*", "sanitizers.*")
SUITES_LOOKED_INTO = 2  # after an illegal access every later suite fails, too


@dataclass
class Plan:
    stages: list
    limit_s: int | None = None  # that the sum of the planned seconds keeps to

    @property
    def planned_s(self):
        return sum(stage.planned_s for stage in self.stages)


def matching(stages, patterns):
    """In the order of the patterns; a stage once."""
    found = []
    for pattern in patterns:
        found += [stage for stage in stages
                  if fnmatch.fnmatch(stage.name, pattern) and stage not in found]
    return found


def make_plan(call, always, stages, records):
    """always: what every command runs first. call: "first", "second", "third" or None, all in one
    order. The third command looks into kernels that failed, then runs what an earlier one should
    have and did not pass, then the rest as far as the time allows."""
    if call is None:
        return Plan([*always, *matching(stages, (*FIRST, *SECOND, *REST))])
    if call != "third":
        patterns = FIRST if call == "first" else SECOND
        stages = [stage for stage in stages if call == "first" or stage.name == "ranks.mpi"
                  or not matching([stage], FIRST)]
        return Plan([*always, *matching(stages, patterns)], LIMIT_S[call])
    plan = Plan([*always], LIMIT_S[call])
    for stage in [*matching(stages, why_kernels_failed(records)), *not_passed(stages, records),
                  *matching(stages, REST)]:
        fits = plan.planned_s + stage.planned_s <= plan.limit_s
        if fits and stage not in plan.stages and not has_passed(stage, records):
            plan.stages.append(stage)
    return plan


def why_kernels_failed(records):
    """Patterns: memcheck of the suites that failed, and each once more with every launch waited
    for, so that the failing one is named."""
    suites = (records.read("kernels") or {}).get("details", {}).get("failed suites", [])
    return [pattern for suite in suites[:SUITES_LOOKED_INTO]
            for pattern in (f"sanitizers.memcheck.{suite}", f"kernels.blocking.{suite}")]


def not_passed(stages, records):
    """Of the first two commands, in their order. Before any command there is none."""
    if not records.has_any():
        return []
    return [stage for stage in matching(stages, (*FIRST, *SECOND))
            if not has_passed(stage, records)]


def has_passed(stage, records):
    return (records.read(stage.name) or {}).get("status") == "passed"
