"""Stages that train: on the GPU and on the CPU, twice, and with several ranks on the one GPU."""
import dataclasses

import parity
from parity import MODELS
from records import Stage
from work import Failed

NCCL = "ranks.nccl"    # a trial: what uses NCCL needs it
RANK_STEPS = 3         # ranks that share a GPU take turns on it: a collective takes milliseconds
RANK_MICRO_BATCHES = 2
RANK_LAYERS = 2        # unless there are more stages of the pipeline
BF16_STEP, BF16_MEAN = 1e-2, 2e-3  # around the CPU's bf16 losses: any step, the mean over all
VIRTUAL = "--num-virtual-stages-per-pipeline-rank"
LAYOUTS = {  # ranks: {name: options}
    2: {"zero": ["--use-distributed-optimizer"], "tensor": ["--tp", 2], "data": [],
        "sequence": ["--tp", 2, "--sequence-parallel"],
        "pipeline": ["--pp", 2], "interleaved": ["--pp", 2, VIRTUAL, 2]},
    4: {"tensor-pipeline": ["--tp", 2, "--pp", 2, "--sequence-parallel"],
        "zero": ["--use-distributed-optimizer"], "data": [], "tensor": ["--tp", 4],
        "pipeline": ["--pp", 4], "tensor-data": ["--tp", 2, "--lm-head-chunks", 3],
        "pipeline-data": ["--pp", 2, "--use-distributed-optimizer"]},
}
# What NCCL may need in a virtual machine, where NUMA ids or parts of /sys are missing.
NCCL_CAREFUL = {"NCCL_CUMEM_ENABLE": "0", "NCCL_CUMEM_HOST_ENABLE": "0", "NCCL_SOCKET_IFNAME": "lo"}


def parity_stages(a):
    def fp32(model):
        def run(work):
            cpu, gpu = (a.train(work, f"{model}.{device}", [*MODELS[model], "--device", device])
                        for device in ("cpu", "cuda"))
            work.details |= {"cpu": cpu.losses, "cuda": gpu.losses}
            compare(work, gpu, cpu, parity.DEVICES_AGREE)

        return Stage(f"parity.fp32.{model}", 20, run, uses=("train_gpt",))

    def bf16(model):
        def run(work):
            cpu, gpu = (a.train(work, f"{model}.bf16.{device}",
                                [*MODELS[model], "--device", device, "--bf16"])
                        for device in ("cpu", "cuda"))
            step = parity.largest(parity.relative(gpu.losses, cpu.losses))
            mean = abs(sum(gpu.losses) - sum(cpu.losses)) / sum(cpu.losses)
            work.details |= {"cpu": cpu.losses, "cuda": gpu.losses, "summary":
                             f"losses within {step:.1e}, their mean within {mean:.1e}"}
            parity.require_below("a bf16 loss", step, BF16_STEP)
            parity.require_below("the mean bf16 loss", mean, BF16_MEAN)

        return Stage(f"parity.bf16.{model}", 15, run, uses=("train_gpt",))

    def repeat(precision):
        def run(work):
            options = [*MODELS["gpt2"], "--device", "cuda", "--hidden-dropout", "0.1",
                       *(["--bf16"] if precision == "bf16" else [])]
            first, second = (a.train(work, f"repeat.{precision}.{i}", options) for i in (1, 2))
            work.details["summary"] = str(parity.difference(first, second))
            parity.require_same_bits(first, second)
            return {"summary": f"two runs have the same bits over {len(first.bits)} steps"}

        return Stage(f"parity.repeat.{precision}", 10, run, uses=("train_gpt",))

    return [*map(fp32, MODELS), *map(bf16, MODELS), repeat("fp32"), repeat("bf16")]


def compare(work, ours, theirs, limit):
    """What was measured is in the record before it is judged."""
    difference = parity.difference(ours, theirs)
    work.details |= {"summary": f"{difference} over {len(ours.losses)} steps",
                     "difference": dataclasses.asdict(difference),
                     "limit": dataclasses.asdict(limit)}
    difference.require_below(limit)


def rank_stages(a):
    model = [*MODELS["gpt2"], "--device", "cuda"]
    one_rank = {}  # once a command: what an earlier one left may be of other programs

    def reference(work, size):
        if size.layers not in one_rank:
            one_rank[size.layers] = a.train(work, f"ranks.1.{size.layers}-layers", model, size)
        return one_rank[size.layers]

    def stage(ranks, name, options):
        def run(work):
            size, replicas = rank_size(a.size, ranks, options)
            one = reference(work, size)
            shared = ["--ranks-per-gpu", ranks, "--serialize-communication"]
            own = dataclasses.replace(size, micro_batch=size.micro_batch // replicas)
            work.details["nccl"] = a.nccl
            many = a.train(work, f"ranks.{ranks}.{name}", [*model, *options, *shared], own,
                           ranks=ranks, environment=nccl_debug(work) | a.nccl)
            compare(work, many, one, parity.LAYOUTS_AGREE if a.emulated
                    else parity.LAYOUTS_AGREE_ON_A_GPU)

        return Stage(f"ranks.{ranks}.{name}", {2: 12, 4: 16}[ranks], run, uses=("train_gpt",),
                     needs=NCCL)

    return [Stage("ranks.mpi", 6, lambda work: mpi(a, work), uses=("train_gpt",)),
            Stage(NCCL, 12, lambda work: try_nccl(a, work), uses=("train_gpt",), needs="ranks.mpi"),
            *(stage(ranks, name, options) for ranks, layouts in LAYOUTS.items()
              for name, options in layouts.items())]


def mpi(a, work):
    """mpirun starts ranks, and these exchange messages. Where it does not, what needs it is left
    out."""
    size = dataclasses.replace(a.size, steps=2, layers=2)
    a.train(work, "ranks.mpi", [*MODELS["gpt2"], "--device", "cpu", "--tp", 2], size, ranks=2)
    return {"summary": "2 ranks trained on the CPU"}


def rank_size(size, ranks, options):
    """(of one rank with two micro-batches; replicas among the ranks). As few layers as the pipeline
    has stages: every collective is slow here."""
    def degree(option):
        return options[options.index(option) + 1] if option in options else 1

    replicas = ranks // (degree("--tp") * degree("--pp"))
    layers = max(RANK_LAYERS, degree("--pp") * degree(VIRTUAL))
    return dataclasses.replace(size, layers=layers, steps=RANK_STEPS,
                               micro_batch=size.batch // RANK_MICRO_BATCHES), replicas


def try_nccl(a, work):
    """Two ranks reduce, scatter and gather; once more with careful settings where that fails or
    hangs. Each attempt has half of the stage's limit. The details have the settings that worked."""
    size = dataclasses.replace(a.size, steps=2, layers=2, micro_batch=a.size.batch // 2)
    options = [*MODELS["gpt2"], "--device", "cuda", *LAYOUTS[2]["zero"], "--ranks-per-gpu", 2,
               "--serialize-communication"]

    def train(settings):
        a.train(work, NCCL, options, size, ranks=2, environment=nccl_debug(work) | settings,
                limit_s=work.limit_s / 2)
        work.details["nccl"] = settings
        words = " ".join(f"{key}={value}" for key, value in settings.items()) or "NCCL as it is"
        return {"summary": f"2 ranks trained on the one GPU with {words}"}

    try:
        return train({})
    except Failed as failure:
        work.note("# once more with careful settings")
        work.details["nccl failed"] = str(failure)
        return train(NCCL_CAREFUL)


def nccl_debug(work):
    return {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": f"{work.log}.nccl.%p"}
