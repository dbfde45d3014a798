"""Programs that pretend, for tests of the GPU benchmarks: a build, a PyTorch and an nvidia-smi that
print what they are expected to and take no time. BROKEN names what goes wrong; every start is a
line of `calls`."""
import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import tempfile
import unittest

BENCHMARKS = pathlib.Path(__file__).resolve().parents[1] / "benchmarks/gpu"
sys.path.insert(0, str(BENCHMARKS))
MOST_SECONDS = 120  # of a script

PROGRAM = r"""#!/bin/bash
all="$(basename "$0") $*"
echo "$all" >> "@calls"
steps() { out=${all##*--metrics }; for i in $(seq 20); do
  echo '{"step_ms": '$((i < 6 ? 900 : 194 + i % 13))', "loss": 10.5}'; done > "${out%% *}"; }
case "$all" in
  gpu_kernels_benchmark*) for k in copy add scale; do
      echo '{"kernel":"'$k'","dtype":"f32","bytes":1,"ms":1,"ms_min":0.9,"ms_max":1.2,' \
        '"gb_per_s":3000,"of_copy":1}'
      [ "$BROKEN$k" != hangadd ] || sleep 60; done ;;
  gpu_products_benchmark*) while read -r job || [ -n "$job" ]; do
      case "$job" in copy*) of=gb_per_s ;; *) of=tflops ;; esac
      echo '{"job":"'$job'","ms":1,"ms_min":0.9,"ms_max":1.2,"batches":5,"'$of'":3000}'
      [ "$BROKEN" != hang ] || sleep 60; done ;;
  train_gpt*) [ "$BROKEN" = train ] && { echo "no memory"; exit 1; }
    case "$BROKEN $all" in hang-profile*profile-ops*)
      sleep 60 & echo $! > "@calls.pid"; wait ;; esac
    steps
    case "$all" in *--profile-ops*)
      out=${all##*--profile-ops }; m=${all#*--model }
      echo '{"model": "'${m%% *}'", "micro_batch": 1, "sequence": 32, "micro_batches": 1,' \
        '"rows": [{"op": "add", "phase": "forward", "calls": 2, "ms": 1, "operations": 2,' \
        '"bytes": 2e9, "flops": 3e9, "limit_ms": 0.5}, {"op": "update", "phase": "step",' \
        '"calls": 1, "ms": 3, "operations": null, "bytes": 6e9, "flops": 0, "limit_ms": 1.5}]}' \
        > "${out%% *}" ;; esac ;;
  *) echo "pretender does not know: $all" >&2; exit 1 ;;
esac
"""
PYTHON = r"""#!/bin/bash
echo "python $*" >> "@calls"
times() { echo "[9000, 9000, 9000, 9000, 9000, $1, $1, $1, $1, $1]"; }
torch='"versions": {"torch": "2.0"}, "sdpa": "default", "sdpa_order": ["cudnn", "flash"],
  "attention": {"backends": ["cudnn"], "kernels": ["cudnn_sdpa_kernel"]}'
line() {
  echo '{"times_ms": '$(times $1)', "host_times_ms": '$(times $2)', '$torch'}' | tr -d '\n'; echo; }
row() { echo '{"shape": "'$shape'", "backend": "'$1'", "direction": "'$2'", "ms": '$3',' \
  '"ms_min": 0.2, "ms_max": 0.6, "tflops": 300}'; }
case "$*" in
  *attention.py*) while read -r shape || [ -n "$shape" ]; do for d in forward backward; do
      row cudnn $d 0.25; row flash $d 0.5; done; done ;;
  *--compile*--weights*) line 250 2; [ "$BROKEN" != profiler ] || { echo CUPTI >&2; exit 1; } ;;
  *--compile*) [ "$BROKEN" = compile ] && { echo "out of memory" >&2; exit 1; }; line 300 2 ;;
  *--weights*) line 350 20 ;;
  *pytorch_model.py*) line 400 20 ;;
esac
"""
NVIDIA_SMI = r"""#!/usr/bin/env python3
# Knows the fields of an H200 but for what REFUSED names; one that it does not know fails the query.
import os, sys
known = {"name": "NVIDIA H200", "driver_version": "580.1", "memory.total": "143771",
         "clocks.sm": "1980", "clocks.mem": "3201", "power.draw": "412.5", "power.limit": "700.00",
         "ecc.mode.current": "Enabled", "persistence_mode": "Enabled", "temperature.gpu": "45",
         "pstate": "P0", "memory.used": "1000",
         "clocks_event_reasons.active": "0x0000000000000005",
         "clocks_throttle_reasons.active": "0x0000000000000004", "power.default_limit": "[N/A]"}
fields = next(a for a in sys.argv if a.startswith("--query-gpu=")).split("=", 1)[1].split(",")
refused = os.environ.get("REFUSED", "").split()
if any(field in refused for field in fields):
    print('Field "%s" is not a valid field to query.' % fields[0])
    sys.exit(2)
print(", ".join(known.get(field, "[Not Supported]") for field in fields))
"""


class Pretended(unittest.TestCase):
    """A folder with a build, tools/python and, in smi/, an nvidia-smi for PATH where asked for."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        for name in ("train_gpt", "gpu_kernels_benchmark", "gpu_products_benchmark"):
            self.program(f"build/bin/{name}", PROGRAM)
        self.program("tools/python", PYTHON)
        self.program("smi/nvidia-smi", NVIDIA_SMI)
        self.file = self.root / "results.json"

    def program(self, name, text):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("@calls", str(self.root / "calls")))
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return file

    def environment(self, broken="", smi=False, **more):
        path = f"{self.root}/smi:" if smi else ""
        known = {key: text for key, text in os.environ.items() if key != "TRIREME_CUDA_MODULE"}
        return {**known, "BROKEN": broken, "PYTHONFAULTHANDLER": "1", **more,
                "PATH": f"{path}{self.root}/tools:/usr/bin:/bin"}

    def start(self, script, *arguments, broken="", smi=False):
        command = [sys.executable, BENCHMARKS / script, "--build", self.root / "build", "--json",
                   self.file, *arguments]
        return subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True,
                                env=self.environment(broken, smi))

    def run_script(self, script, *arguments, **how):
        """(exit status, what it printed). One that hangs fails with the line of each thread."""
        job = self.start(script, *arguments, **how)
        try:
            output, errors = job.communicate(timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            job.send_signal(signal.SIGABRT)
            output, errors = job.communicate()
            self.fail(f"{script} took longer than {MOST_SECONDS} s:\n{output}{errors}")
        return job.returncode, output + errors

    def calls(self):
        """Programs that were started since the last call."""
        file = self.root / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return lines

    def content(self):
        return json.loads(self.file.read_text())

    def measured(self, name):
        return self.content()["measured"][name]
