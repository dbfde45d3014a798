"""What this machine is: tools, libraries, clocks. Nothing here changes a setting of the GPU."""
import glob
import importlib.util
import json
import os
import re
import shutil
import sys

# Where a CUDA image has its tools when PATH does not name them.
PLACES = ("{cuda}/bin", "{cuda}/compute-sanitizer", "{cuda}/nsight-compute*",
          "/opt/nvidia/nsight-compute/*", "/usr/local/nvidia/bin")
TOOLS = ("ssh", "mpirun", "nvidia-smi", "compute-sanitizer", "ncu", "nvcc", "cmake", "ninja",
         "make", "cc", "gcc")
# Printed by the Python that has PyTorch. `packages`: the folder that PyTorch is in. PyTorch is not
# imported: that takes long. Its compiler needs a C compiler and Python.h.
PYTHON_FACTS = """
import importlib.metadata as metadata, importlib.util as util, json, os, sys, sysconfig
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
torch = util.find_spec("torch")
print(json.dumps({
    "executable": sys.executable, "version": sys.version.split()[0],
    "packages": os.path.dirname(os.path.dirname(torch.origin)) if torch and torch.origin
                else sysconfig.get_path("purelib"),
    "torch": version("torch"), "triton": version("triton"),
    "Python.h": os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))}))
"""
GPU_QUERY = ("name", "driver_version", "vbios_version", "memory.total", "memory.used",
             "clocks.sm", "clocks.max.sm", "clocks.mem", "clocks.max.mem", "power.draw",
             "power.limit", "temperature.gpu", "ecc.mode.current", "persistence_mode",
             "compute_mode", "mig.mode.current", "clocks_event_reasons.active")


def find_tool(name):
    """Its path: in PATH, else in the toolkit's directories; None where there is none."""
    if found := shutil.which(name):
        return found
    roots = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda", *glob.glob("/usr/local/cuda-*")]
    for place in PLACES:
        for cuda in filter(None, roots):
            for folder in sorted(glob.glob(place.format(cuda=cuda)), reverse=True):
                if found := shutil.which(name, path=folder):
                    return found
    return None


def find_python(given):
    """A Python that has PyTorch; None where there is none."""
    return given or (sys.executable if importlib.util.find_spec("torch") else None)


def python_facts(work, python):
    """{what: value} of a Python and its PyTorch; {} where it does not say."""
    try:
        return json.loads(last_line(work.attempt([python, "-c", PYTHON_FACTS], limit_s=30)))
    except ValueError:
        return {}


def kernel_filter(help_text):
    """Options of compute-sanitizer that leave only trireme's kernels: what cuBLASLt does is not
    ours to judge. Its versions spell it differently."""
    for option in ("--kernel-name", "--kernel-regex", "--filter"):
        if option in help_text:
            return [option, "kns=trireme"]
    return []


def facts(work, installation, python):
    """{what: value}, as far as this machine says. python: its facts. Never fails."""
    tools = {name: find_tool(name) for name in TOOLS}
    found = {
        "kernel": " ".join(os.uname()[i] for i in (0, 2)),
        "glibc": last_word(work.attempt(["ldd", "--version"])),
        "cpus": len(os.sched_getaffinity(0)),
        "python": python,
        "tools": tools,
        "shared memory": last_line(work.attempt(["df", "-h", "/dev/shm"])),
        "not found by the loader": unknown_libraries(work, installation),
    }
    work.attempt(["free", "-m"])
    if smi := tools["nvidia-smi"]:
        work.attempt([smi, "-q"])  # whole in the log
        found["gpu"] = gpu_state(work, smi)
    if sanitizer := tools["compute-sanitizer"]:
        found["kernel filter"] = kernel_filter(work.attempt([sanitizer, "--help"]) or "")
    missing = [name for name, path in tools.items() if not path]
    found["summary"] = (f"{found['cpus']} CPUs, glibc {found['glibc']}, no {', '.join(missing)}"
                        if missing else f"{found['cpus']} CPUs, glibc {found['glibc']}")
    return found


def gpu_state(work, smi):
    """{what: value} of the first GPU. A driver refuses a query with a name that it does not know:
    then each is asked for alone."""
    state = {}
    for query in (",".join(GPU_QUERY), *GPU_QUERY):
        names = query.split(",")
        line = work.attempt([smi, "--id=0", f"--query-gpu={query}", "--format=csv,noheader"])
        if line is not None:
            state |= dict(zip(names, map(str.strip, line.split(","))))
        if len(state) == len(GPU_QUERY):
            break
    return state


def unknown_libraries(work, installation):
    """Of the CUDA module and the programs: what the loader does not find, with its versions."""
    libraries = (installation.build or installation.folder) / "lib"
    module = installation.module or libraries / "libtrireme_cuda.so"
    lines = []
    for file in (module, installation.bin / "train_gpt"):
        output = work.attempt(installation.inside("ldd", file), installation.environment())
        lines += re.findall(r"^.*not found.*$", output or "", re.M)
    return sorted({line.strip() for line in lines})


def last_line(text):
    return text.strip().splitlines()[-1] if text and text.strip() else "unknown"


def last_word(text):
    """Of the first line."""
    return text.splitlines()[0].split()[-1] if text and text.strip() else "unknown"
