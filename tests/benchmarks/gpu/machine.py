#!/usr/bin/env python3
"""What a figure was measured on: the GPU and its state, libraries, host, date, command and
trireme's version. Everything is only read; no setting of the GPU is ever changed. What is not known
is null.

usage: machine.py --libraries     versions of the CUDA libraries that the loader finds, as JSON
"""
import ctypes
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys
import threading

CARD = {  # key of the record: field of nvidia-smi --query-gpu
    "name": "name", "driver": "driver_version", "memory_mib": "memory.total",
    "power_limit_w": "power.limit", "power_limit_default_w": "power.default_limit",
    "sm_mhz_max": "clocks.max.sm", "mem_mhz_max": "clocks.max.mem", "ecc": "ecc.mode.current",
    "persistence": "persistence_mode", "compute_mode": "compute_mode", "pci": "pci.bus_id",
    "pcie_generation": "pcie.link.gen.current", "pcie_width": "pcie.link.width.current",
}
STATE = {
    "sm_mhz": "clocks.sm", "mem_mhz": "clocks.mem", "power_w": "power.draw",
    "temperature_c": "temperature.gpu", "memory_used_mib": "memory.used", "pstate": "pstate",
    "throttle": "clocks_event_reasons.active",
}
OLDER = {"clocks_event_reasons.active": "clocks_throttle_reasons.active"}  # drivers before 535
THROTTLE = {  # bits of the field above
    0x1: "idle", 0x2: "application clocks", 0x4: "power cap", 0x8: "hardware slowdown",
    0x10: "sync boost", 0x20: "software thermal", 0x40: "hardware thermal", 0x80: "power brake",
    0x100: "display clocks",
}
LIBRARIES = {  # name: (files that it may be, function that gives its version)
    "cublaslt": (("libcublasLt.so.13", "libcublasLt.so.12"), "cublasLtGetVersion"),
    "cudnn": (("libcudnn.so.9",), "cudnnGetVersion"),
    "nccl": (("libnccl.so.2",), "ncclGetVersion"),
    "cuda_driver_api": (("libcuda.so.1",), "cuDriverGetVersion"),
    "cuda_runtime": (("libcudart.so.13", "libcudart.so.12"), "cudaRuntimeGetVersion"),
}
NO_SMI = "nvidia-smi is not found"


def ask(fields):
    """[text of each field] for the first GPU; None where nvidia-smi is missing or refuses."""
    command = ["nvidia-smi", "--id=0", f"--query-gpu={','.join(fields)}",
               "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    texts = [text.strip() for text in done.stdout.strip().split(",")]
    return texts if done.returncode == 0 and len(texts) == len(fields) else None


def value(text):
    """A number where it is one, null where the GPU does not report it."""
    if text is None or re.fullmatch(r"\[?(N/A|Not Supported|Unknown Error|GPU is lost)\]?|", text):
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def query(keys):
    """{key: value}. A driver that does not know one field refuses all: then each is asked for
    alone."""
    if not shutil.which("nvidia-smi"):
        return dict.fromkeys(keys)
    texts = ask(list(keys.values()))
    if texts is None:
        answers = [ask([field]) or ask([OLDER.get(field, field)]) for field in keys.values()]
        texts = [answer[0] if answer else None for answer in answers]
    return {key: text if key == "driver" else value(text) for key, text in zip(keys, texts)}


def throttle_reasons(mask):
    """["power cap", ...] of nvidia-smi's hexadecimal mask; None where it is not known."""
    if not isinstance(mask, str) or not re.fullmatch("0x[0-9a-fA-F]+", mask):
        return None
    return [name for bit, name in THROTTLE.items() if int(mask, 16) & bit]


def state():
    """Clocks, power, temperature and memory of this moment."""
    found = query(STATE)
    return found | {"throttle": throttle_reasons(found["throttle"])}


def card():
    """What does not change while a command runs; `missing` says why nothing is known."""
    return query(CARD) | {"missing": None if shutil.which("nvidia-smi") else NO_SMI}


def device_name():
    """Name and driver of the first GPU; "emulated" where nvidia-smi knows none."""
    found = query({"name": "name", "driver": "driver_version"})
    return f"{found['name']}, {found['driver']}" if found["name"] else "emulated"


def library_versions():
    """{library: version as its function gives it}; null for one that the loader does not find."""
    return {library: next(filter(None, (library_version(file, function) for file in files)), None)
            for library, (files, function) in LIBRARIES.items()}


def library_version(file, function):
    try:
        call = getattr(ctypes.CDLL(file), function)
    except (OSError, AttributeError):
        return None
    if function in ("cublasLtGetVersion", "cudnnGetVersion"):
        call.restype = ctypes.c_size_t
        return call()
    version = ctypes.c_int()
    return version.value if call(ctypes.byref(version)) == 0 else None


def host():
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    model = re.search(r"^model name\s*: (.*)$", text, re.M)
    return {"cpu": model[1] if model else None, "cores": os.cpu_count(),
            "cores_allowed": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "memory_mib": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20}


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


class Watch:
    """Most memory in use while the block runs (less what was in use before), clocks and power, of
    the first GPU, asked for twice a second: oftener would take time from the host."""
    INTERVAL_S = 0.5
    FIELDS = {key: STATE[key] for key in ("memory_used_mib", "sm_mhz", "power_w")}

    def __init__(self):
        self._stop, self._seen, self.before, self.after = threading.Event(), [], None, None

    def __enter__(self):
        self.before = state()
        self._thread = threading.Thread(target=self._watch)
        if shutil.which("nvidia-smi"):
            self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        self.after = state()

    def _watch(self):
        while not self._stop.wait(self.INTERVAL_S):
            self._seen.append(query(self.FIELDS))

    def _values(self, key):
        return [seen[key] for seen in self._seen if seen[key] is not None]

    @property
    def peak_mib(self):
        used, before = self._values("memory_used_mib"), self.before["memory_used_mib"]
        return max(0, max(used) - before) if used and before is not None else None

    def during(self):
        """Clocks and power while the block ran; null where nothing was seen."""
        clocks, power = self._values("sm_mhz"), self._values("power_w")
        return {"sm_mhz_least": min(clocks, default=None), "sm_mhz_most": max(clocks, default=None),
                "sm_mhz_median": statistics.median(clocks) if clocks else None,
                "power_w_most": max(power, default=None), "looked": len(self._seen)}


class Machine:
    """What stays the same in all records of a command; record() adds what a Watch saw."""

    def __init__(self, programs, command=None):
        self._same = {"gpu": card(), "libraries": programs.library_versions(), "host": host(),
                      "trireme": programs.version(), "command": command or sys.argv}

    @property
    def name(self):
        return self._same["gpu"]["name"] or "emulated"

    @property
    def trireme(self):
        return self._same["trireme"]

    def record(self, watch):
        return {**self._same, "date": now(), "before": watch.before, "during": watch.during(),
                "after": watch.after}


if __name__ == "__main__":
    if sys.argv[1:] != ["--libraries"]:
        sys.exit(__doc__)
    print(json.dumps(library_versions()))
