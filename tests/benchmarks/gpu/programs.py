"""Starting what the GPU benchmarks measure: programs of a build or of the archive of launch/bundle, and PyTorch; and watching the memory of the GPU."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading

ROOT = pathlib.Path(__file__).resolve().parents[3]


def add_arguments(parser):
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--build", type=pathlib.Path, help="a build of this tree (default: build/release)")
    source.add_argument("--installation", type=pathlib.Path, help="the archive of launch/bundle, unpacked")
    parser.add_argument("--json", type=pathlib.Path, help="write the results to this file as well")


class Programs:
    def __init__(self, arguments):
        self.build, self.installation = arguments.build, arguments.installation
        if not self.build and not self.installation:
            self.build = ROOT / "build/release"

    def run(self, program, *arguments, text=""):
        path = (self.installation or self.build) / "bin" / program
        if not path.exists():
            raise SystemExit(f"there is no {path}: build it (a machine with nvcc does), or give --build or --installation")
        start = [path] if self.build else [self.installation / "start", program]
        return run([*start, *arguments], text)


def run(command, text="", environment=None):
    """The output of a program that must succeed."""
    done = subprocess.run(list(map(str, command)), input=text, capture_output=True, text=True, env={**os.environ, **(environment or {})})
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def json_lines(output):
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def device_name():
    """What nvidia-smi calls the first GPU, and its driver; "emulated" where there is none."""
    if not shutil.which("nvidia-smi"):
        return "emulated"
    return run(["nvidia-smi", "--id=0", "--query-gpu=name,driver_version", "--format=csv,noheader"]).strip()


class MemoryWatch:
    """The most memory of the first GPU in use while the block runs, less what was in use before: the same measure for every program."""

    def __enter__(self):
        self._stop, self.peak_mib = threading.Event(), None
        self._before = self._used()
        if self._before is not None:
            self.peak_mib = 0
            self._thread = threading.Thread(target=self._watch)
            self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        if self._before is not None:
            self._thread.join()

    def _watch(self):
        while not self._stop.wait(0.1):
            used = self._used()
            if used is not None:
                self.peak_mib = max(self.peak_mib, used - self._before)

    @staticmethod
    def _used():
        if not shutil.which("nvidia-smi"):
            return None
        done = subprocess.run(["nvidia-smi", "--id=0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True)
        return int(done.stdout) if done.returncode == 0 and re.fullmatch(r"\s*\d+\s*", done.stdout) else None
