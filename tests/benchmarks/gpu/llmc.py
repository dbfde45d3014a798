"""llm.c beside trireme, where its sources are given: a copy is mended for CUDA 13, built, timed."""
import array
import os
import pathlib
import random
import re
import shutil
import struct
import sys

from programs import ROOT, Failed, run
from results import spread

sys.path.append(str(ROOT / "tests/gpu"))
from probe import find_tool

MODELS = {"gpt2-124m": "d12", "gpt2-1558m": "d48"}
CUDA_13 = {  # file: (as it is, for CUDA 13), where cudaMemAdvise takes a place, not a number
    "llmc/cuda_utils.cuh": ("cudaMemAdviseSetPreferredLocation, cudaCpuDeviceId)",
                            "cudaMemAdviseSetPreferredLocation, "
                            "cudaMemLocation{cudaMemLocationTypeHost, 0})")}
STEP = re.compile(r"^step\s+\d+/\d+ \|.*\| ([\d.]+) ms \|", re.M)


def command_of(s, tokens):
    """Options of llm.c for the same step: no recomputation, GELU in the products, no evaluation."""
    return ["./train_gpt2cu", "-i", tokens, "-j", tokens, "-e", MODELS[s.name],
            "-b", s.micro_batch, "-t", s.sequence, "-d", s.tokens, "-x", s.steps, "-l", "3e-4",
            "-c", "0.1", "-ge", 2, "-r", 0, "-w", 1, "-v", s.steps + 1, "-m", 1, "-s", 0, "-h", 0]


def measure(sources, s, folder, limit_s):
    """Builds a copy of the sources and reads the times of its steps."""
    if s.name not in MODELS:
        raise Failed(f"llm.c has no {s.name}")
    if s.device != "cuda":
        raise Failed("llm.c's train_gpt2cu needs a GPU")
    built = folder / "llm.c"
    patched = mend(sources, built)
    cudnn = any((place / "cudnn-frontend/include").is_dir()
                for place in (pathlib.Path.home(), built))
    run(["make", "train_gpt2cu", "NO_MULTI_GPU=1", "NO_USE_MPI=1", f"USE_CUDNN={int(cudnn)}"],
        limit_s=limit_s, folder=built,
        environment={"PATH": with_nvcc(), "LIBRARY_PATH": linkable(folder / "lib")})
    tokens = folder / "llmc.bin"
    write_tokens(tokens, s.model.vocab, max(2**20, 2 * s.tokens + 1))
    output = run(command_of(s, tokens), limit_s=limit_s, folder=built)
    times = spread([float(ms) for ms in STEP.findall(output)])
    return {"step_ms": times["median"], "steps": times, "cudnn": cudnn,
            "patched": patched, "options": list(map(str, command_of(s, tokens)[5:]))}


def with_nvcc():
    """PATH, and behind it where nvcc is if PATH does not name that: the makefile asks for it."""
    nvcc = find_tool("nvcc")
    return os.pathsep.join([os.environ["PATH"], *([os.path.dirname(nvcc)] if nvcc else [])])


def linkable(folder):
    """A search path for the linker: libraries that this machine has only for running, under the
    name that it looks for; then what was there before."""
    folder.mkdir(exist_ok=True)
    tool = shutil.which("ldconfig", path=f"{os.environ['PATH']}:/sbin:/usr/sbin")
    known = run([tool, "-p"], limit_s=10) if tool else ""
    for name in ("libnvidia-ml.so", "libcudnn.so"):
        found = re.search(rf"{re.escape(name)}\.\d+ .*=> (/.*)$", known, re.M)
        if found and not (folder / name).exists():
            (folder / name).symlink_to(found[1])
    return ":".join(filter(None, (str(folder), os.environ.get("LIBRARY_PATH"))))


def mend(sources, copy):
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


def write_tokens(file, vocab, count):
    """llm.c's token file: 256 int32 (magic, version, count, zeros), then uint16 tokens."""
    generator = random.Random(1)
    with open(file, "wb") as out:
        out.write(struct.pack("<256i", 20240520, 1, count, *[0] * 253))
        array.array("H", (generator.randrange(vocab) for _ in range(count))).tofile(out)
