"""Stages that measure (tests/benchmarks/gpu). Each part is a stage of its own, and the programs
write what they have after every sub-measurement: a cut-off costs one of these."""
import json
import re
import sys

from installation import ROOT
from records import Stage
from training_stages import NCCL, nccl_debug
from work import Failed

SCRIPTS = "tests/benchmarks/gpu"
# {model: {stage: (planned s, parts of training.py)}}
PARTS = {
    "gpt2-124m": {"trireme": (60, "products", "trireme", "profile"), "pytorch": (45, "pytorch"),
                  "pytorch-compiled": (60, "attention", "pytorch-compiled"),
                  "pytorch-bf16": (60, "pytorch-bf16-compiled", "pytorch-bf16")},
    "llama-1b": {"trireme": (55, "products", "trireme", "profile"),
                 "pytorch-compiled": (55, "attention", "pytorch-compiled"),
                 "pytorch": (35, "pytorch"), "pytorch-bf16": (60, "pytorch-bf16-compiled")},
    "gpt2-1558m": {"trireme": (75, "products", "trireme", "profile"),
                   "pytorch-compiled": (75, "attention", "pytorch-compiled"),
                   "pytorch": (45, "pytorch"), "pytorch-bf16": (80, "pytorch-bf16-compiled")},
}
VARIANTS = "(-no-cache|-short)?"  # of a part, measured with it
SMALL = {  # on the emulation
    "training.py": ["--layers", 1, "--sequence", 16, "--micro-batch", 1, "--steps", 6,
                    "--vocab", 256, "--pytorch-device", "cpu"],
    "kernels.py": ["--working-set-mb", 1],
    "products.py": ["--small", "--pytorch-device", "cpu"],
}


def benchmark_stages(a):
    def stage(name, planned_s, script, *arguments, file=None, uses=(), own=()):
        """own: patterns of the records that it makes."""
        def run(work):
            result = results_of(a) / f"{file or name}.json"
            restore(a, result)
            work.details["file"] = result.name
            work.follow(result)
            try:
                measure(a, work, script, [*arguments, "--json", result])
                require_measured(result, own)
            finally:
                work.details["text"] = printed(work)

        return Stage(f"benchmarks.{name}", planned_s, run, uses=(f"{SCRIPTS}/{script}", *uses))

    def training(model, part, planned_s, *parts):
        chosen = [word for name in parts for word in ("--part", name)]
        ours = part == "trireme"
        pytorch = ["--without-pytorch"] if ours else ["--python", a.python]
        return stage(f"{model}.{part}", planned_s, "training.py", "--model", model, *chosen,
                     *pytorch, "--gemm-cache", a.output / "gemm", file=model,
                     own=[f"{model}/{name}{VARIANTS}" for name in parts],
                     uses=("train_gpt", "gpu_products_benchmark") if ours else ("PyTorch",))

    def llmc():
        return stage("gpt2-124m.llmc", 90, "training.py", "--model", "gpt2-124m", "--part", "llmc",
                     "--llmc", a.llmc, file="gpt2-124m", own=["gpt2-124m/llmc"])

    products = lambda name, *arguments, **more: stage(
        name, 40, "products.py", *arguments, "--gemm-cache", a.output / "gemm", file="products",
        **more)
    return [products("products", "--without-pytorch", uses=("gpu_products_benchmark",)),
            products("products.pytorch", "--python", a.python, uses=("PyTorch",),
                     own=["attention-pytorch"]),
            stage("kernels", 30, "kernels.py", uses=("gpu_kernels_benchmark",)),
            *(training(model, part, *plan) for model, parts in PARTS.items()
              for part, plan in parts.items()),
            *([llmc()] if a.llmc else []), nccl_stage(a)]


def measure(a, work, script, arguments):
    """A program that hangs costs half of the stage's limit, and the other parts are measured."""
    start = (["--build", a.installation.build] if a.installation.build
             else ["--installation", a.installation.folder])
    small = SMALL[script] if a.emulated else []
    work.run([sys.executable, ROOT / SCRIPTS / script, *start, *arguments, *small,
              *(["--again"] if a.again else []), "--limit-s", work.limit_s / 2],
             a.installation.environment({"PYTHONUNBUFFERED": "1"}))


def require_measured(result, own):
    """The programs end with 0 also where what is measured beside trireme failed."""
    measured = json.loads(result.read_text()).get("measured", {})
    failed = []
    for pattern in own:
        found = {name: record for name, record in measured.items() if re.fullmatch(pattern, name)}
        if not found:
            raise Failed(f"{result.name} has no {pattern}")
        failed += [f"{name}: {record['status']}: {record.get('reason', '').strip()}"
                   for name, record in found.items() if record["status"] != "measured"]
    if failed:
        raise Failed("\n".join(failed))


def results_of(a):
    """A folder for each build: what other programs reached does not count."""
    folder = a.output / "benchmarks" / a.installation.identity()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def restore(a, result):
    """What an earlier command measured, perhaps on another machine of this kind, is there again."""
    if result.exists():
        return
    found = [record for record in a.records.ended() if record["identity"] == a.identity
             and record.get("details", {}).get("file") == result.name]
    if found:
        measured = {key: value for key, value in found[-1]["details"].items()
                    if key not in ("file", "text")}
        result.write_text(json.dumps(measured))


def printed(work):
    """Its tables, without the lines that this driver writes, and without JSON."""
    lines = work.log.read_text(errors="replace").splitlines()
    return "\n".join(line for line in lines if not line.startswith(("$ ", "# exit status", "{")))


def nccl_stage(a):
    """Few collectives of few sizes: two ranks take turns on the one GPU, so that each takes
    milliseconds."""
    ranks, sizes = 2, ["-b", 8, "-e", "4K" if a.emulated else "1M", "-f", 32]
    few = ["--iters", 2, "--warmup-iters", 1]
    shared = ["--device", "cuda", "--ranks-per-gpu", ranks, "--serialize-communication"]

    def run(work):
        result = results_of(a) / "nccl.json"
        result.unlink(missing_ok=True)
        work.follow(result)
        command = a.installation.command("gpu_nccl_benchmark", *shared, *sizes, *few, "--limit-s",
                                         work.limit_s / 2, "--json", result, ranks=ranks)
        try:
            work.run(command, a.installation.environment(nccl_debug(work) | a.nccl))
        finally:
            work.details["text"] = printed(work)
        return {"summary": f"{ranks} ranks on one GPU: right; how fast says nothing"}

    return Stage("benchmarks.nccl", 15, run, uses=("gpu_nccl_benchmark",), needs=NCCL)
