"""In what order stages run, and what each of three commands runs where a GPU is there for half an
hour: by what they show for their time."""
import fnmatch
from dataclasses import dataclass

from training_stages import NCCL

LIMIT_S = {"first": 450, "second": 450, "third": 400}
# Does it run, is it right, how fast is the small model?
FIRST = ("kernels", "kernels.large", "parity.fp32.*", "benchmarks.products",
         "benchmarks.gpt2-124m.trireme", "benchmarks.gpt2-124m.pytorch",
         "benchmarks.gpt2-124m.pytorch-compiled", "benchmarks.kernels", "parity.bf16.*",
         "parity.repeat.*", "ranks.mpi", NCCL, "ranks.2.zero", "benchmarks.nccl")
# Large models, ranks.
SECOND = ("benchmarks.llama-1b.trireme", "benchmarks.llama-1b.pytorch-compiled",
          "benchmarks.gpt2-1558m.trireme", "benchmarks.gpt2-1558m.pytorch-compiled",
          "ranks.mpi", NCCL, "ranks.2.tensor", "ranks.2.pipeline", "ranks.2.interleaved",
          "ranks.4.*")
TRIALS = {"ranks.mpi", NCCL}  # what the stages of several ranks need
# Why is it so? As far as there is time.
TOOLS = ("sanitizers.memcheck.CudaAttention", "sanitizers.memcheck.CudaNorm",
         "sanitizers.memcheck.CudaGemm", "sanitizers.memcheck.CudaEmbedding",
         "benchmarks.gpt2-124m.llmc", "ncu.*")
REST = ("benchmarks.products.pytorch", "ranks.*",
        "sanitizers.racecheck.CudaAttention", "benchmarks.gpt2-124m.*", "sanitizers.memcheck.*",
        "benchmarks.*", "sanitizers.*")
JUDGED_ANEW = ("kernels", "parity")  # by the third command, for other programs or another GPU
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


def make_plan(call, always, stages, records, identity):
    """always: what every command runs first. call: "first", "second", "third" or None, all in one
    order. identity: of the programs and the GPU."""
    if call is None:
        return Plan([*always, *matching(stages, (*FIRST, *SECOND, *TOOLS, *REST))])
    if call == "third":
        return third_plan(always, stages, records, identity)
    patterns = FIRST if call == "first" else SECOND
    stages = [stage for stage in stages if call == "first" or stage.name in TRIALS
              or not matching([stage], FIRST)]
    return Plan([*always, *matching(stages, patterns)], LIMIT_S[call])


def third_plan(always, stages, records, identity):
    """Looks into kernels that failed, then runs what an earlier command should have and did not
    pass, then the rest as far as the time allows. Several ranks that failed come late: a hang
    costs much."""
    plan = Plan([*always], LIMIT_S["third"])
    left = [stage for stage in stages if not has_passed(stage, records, identity)]
    again = matching(left, (*FIRST, *SECOND)) if records.has_any() else []
    late = [stage for stage in again if ranks_failed(stage, records)]
    soon = [stage for stage in again if stage not in late]
    for stage in [*matching(left, why_kernels_failed(records)), *soon, *matching(left, TOOLS),
                  *late, *matching(left, REST)]:
        if stage not in plan.stages and plan.planned_s + stage.planned_s <= plan.limit_s:
            plan.stages.append(stage)
    return plan


def why_kernels_failed(records):
    """Patterns: memcheck of the suites that failed, and each once more with every launch waited
    for, so that the failing one is named; so also the tests with large arrays that failed."""
    suites = dict.fromkeys(test.split(".")[0] for test in failed_tests(records, "kernels"))
    found = [pattern for suite in list(suites)[:SUITES_LOOKED_INTO]
             for pattern in (f"sanitizers.memcheck.{suite}", f"kernels.blocking.{suite}")]
    return found + ["kernels.large.blocking"] * bool(failed_tests(records, "kernels.large"))


def failed_tests(records, stage):
    return (records.read(stage) or {}).get("details", {}).get("failed tests", [])


def ranks_failed(stage, records):
    """Does it train with several ranks, and did it or what it needs fail before?"""
    of_ranks = stage.name in TRIALS or stage.needs in TRIALS
    return of_ranks and any(status(name, records) == "failed" for name in (stage.name, *TRIALS))


def has_passed(stage, records, identity):
    """What is right is judged anew for other programs and on another model of GPU; for all else
    there would be no time."""
    return records.passed(stage.name, identity) or (
        stage.group not in JUDGED_ANEW and status(stage.name, records) == "passed")


def status(name, records):
    return (records.read(name) or {}).get("status")
