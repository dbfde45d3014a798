"""What trireme is measured beside: PyTorch in its forms, and llm.c where its sources are given."""
import array
import pathlib
import random
import re
import shutil
import struct

from programs import HERE, Failed, json_lines, run
from results import spread

# part: what pytorch_model.py is given. bf16 weights have no fp32 masters: faster, another result.
PYTORCH = {
    "pytorch": [],
    "pytorch-compiled": ["--compile"],
    "pytorch-bf16": ["--weights", "bf16"],
    "pytorch-bf16-compiled": ["--compile", "--weights", "bf16"],
}
FORM = {"pytorch": "eager, autocast", "pytorch-compiled": "compiled by block, autocast",
        "pytorch-bf16": "eager, bf16 weights",
        "pytorch-bf16-compiled": "compiled by block, bf16 weights"}


def form_of(name):
    """Of a record's name: a part, or PART-BACKEND where one attention was forced; else None."""
    if name in FORM:
        return FORM[name]
    part, _, backend = name.rpartition("-")
    return f"{FORM[part]}, {backend} attention" if part in FORM and backend != "short" else None


def pytorch(python, s, part, limit_s, sequence=None):
    """Step times of a form of PyTorch, and which attention it ran. `sequence`: of one short
    sequence."""
    short = ["--sequence", sequence, "--micro-batch", 1] if sequence else \
        ["--sequence", s.sequence, "--micro-batch", s.micro_batch]
    command = [python, HERE / "pytorch_model.py", s.name, *short, "--micro-batches",
               s.micro_batches, "--steps", s.steps, "--layers", s.layers, "--vocab",
               s.model.vocab, "--device", s.pytorch_device, "--sdpa", s.sdpa, *PYTORCH[part]]
    found = last_line(command, limit_s)
    host = spread(found.pop("host_times_ms"))["median"]
    times = spread(found.pop("times_ms"))
    return {"step_ms": times["median"], "steps": times, "host_ms": host, **found}


def last_line(command, limit_s):
    lines = json_lines(run(command, limit_s=limit_s))
    if not lines:
        raise Failed(f"{' '.join(map(str, command))} printed no result")
    return lines[-1]


def attention(python, shapes, device, limit_s, partial):
    """Rows of attention.py for shapes "BATCH SEQUENCE QUERY_HEADS KV_HEADS HEAD_DIM"."""
    rows = []

    def keep(line):
        rows.extend(json_lines(line))
        partial({"rows": rows})

    run([python, HERE / "attention.py", "--device", device], "\n".join(shapes), limit_s,
        on_line=keep)
    return {"rows": rows}


LLMC_MODELS = {"gpt2-124m": "d12", "gpt2-1558m": "d48"}
CUDA_13 = {  # file: (as it is, for CUDA 13), where cudaMemAdvise takes a place, not a number
    "llmc/cuda_utils.cuh": ("cudaMemAdviseSetPreferredLocation, cudaCpuDeviceId)",
                            "cudaMemAdviseSetPreferredLocation, "
                            "cudaMemLocation{cudaMemLocationTypeHost, 0})")}
STEP = re.compile(r"^step\s+\d+/\d+ \|.*\| ([\d.]+) ms \|", re.M)


def llmc_command(s, tokens):
    """Options of llm.c for the same step: no recomputation, GELU in the products, no evaluation."""
    return ["./train_gpt2cu", "-i", tokens, "-j", tokens, "-e", LLMC_MODELS[s.name],
            "-b", s.micro_batch, "-t", s.sequence, "-d", s.tokens, "-x", s.steps, "-l", "3e-4",
            "-c", "0.1", "-ge", 2, "-r", 0, "-w", 1, "-v", s.steps + 1, "-m", 1, "-s", 0, "-h", 0]


def llmc(sources, s, folder, limit_s):
    """Builds a copy of the sources and reads the times of its steps."""
    if s.name not in LLMC_MODELS:
        raise Failed(f"llm.c has no {s.name}")
    if s.device != "cuda":
        raise Failed("llm.c's train_gpt2cu needs a GPU")
    built = folder / "llm.c"
    patched = patch_llmc(sources, built)
    frontend = next((path for path in (pathlib.Path.home() / "cudnn-frontend/include",
                                       built / "cudnn-frontend/include") if path.is_dir()), None)
    run(["make", "train_gpt2cu", "NO_MULTI_GPU=1", "NO_USE_MPI=1",
         f"USE_CUDNN={int(frontend is not None)}"], limit_s=limit_s, folder=built)
    tokens = folder / "llmc.bin"
    write_llmc_tokens(tokens, s.model.vocab, max(2**20, 2 * s.tokens + 1))
    output = run(llmc_command(s, tokens), limit_s=limit_s, folder=built)
    times = spread([float(ms) for ms in STEP.findall(output)])
    return {"step_ms": times["median"], "steps": times, "cudnn": frontend is not None,
            "patched": patched, "options": list(map(str, llmc_command(s, tokens)[5:]))}


def patch_llmc(sources, copy):
    """Copies the sources and makes the one change that CUDA 13 needs; returns the changed lines."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(sources, copy, ignore=shutil.ignore_patterns(".git"))
    changed = []
    for name, (old, new) in CUDA_13.items():
        file = copy / name
        if not file.exists():
            raise Failed(f"--llmc {sources}: there is no {name}: not the sources of llm.c")
        text = file.read_text()
        if old in text:
            file.write_text(text.replace(old, new))
            changed.append(f"{name}: {new}")
    return changed


def write_llmc_tokens(file, vocab, count):
    """llm.c's token file: 256 int32 (magic, version, count, zeros), then uint16 tokens."""
    generator = random.Random(1)
    with open(file, "wb") as out:
        out.write(struct.pack("<256i", 20240520, 1, count, *[0] * 253))
        array.array("H", (generator.randrange(vocab) for _ in range(count))).tofile(out)


def write_tokens(prefix, vocab, count):
    """A token file (docs/data_formats.md) of one document; every token is as likely as any
    other."""
    generator = random.Random(1)
    with open(f"{prefix}.bin", "wb") as out:
        array.array("i", (generator.randrange(vocab) for _ in range(count))).tofile(out)
    with open(f"{prefix}.idx", "wb") as index:
        index.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, 1, 2))
        index.write(struct.pack("<iqqq", count, 0, 0, 1))
