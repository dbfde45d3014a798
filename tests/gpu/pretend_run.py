"""Programs that pretend, for the tests of the acceptance: those of pretend.py, and what a machine
with a GPU has. BROKEN in the environment names what goes wrong."""
import json
import os
import pathlib
import subprocess
import sys

import pretend

HERE = pathlib.Path(__file__).resolve().parent

PROGRAM = r"""#!/bin/bash
# Replaces every program of the installation.
all="$(basename "$0") $*"
after() { local rest=${all##*$1 }; echo "${rest%% *}"; }  # OPTION: its value
case "$all" in
  *gtest_list_tests*) printf 'CudaNorm.\n  ForwardAgrees\nCudaGemm.\n  Agrees\n' ;;
  *--gtest_filter=-\**)
    [ "$BROKEN" = gpu ] && { echo "gpu_kernels_tests: no GPU can be used: no driver" >&2; exit 1; }
    echo "# GPU 0 Pretender $MEMORY, compute capability 9.0, 80.0 GB free" ;;
  *gtest_output=json:*)
    out=${all##*json:}; failures=0; failed=
    echo "[ RUN      ] CudaNorm.ForwardAgrees"
    [ "$BROKEN" = crash ] && exit 139
    if [ "$BROKEN" = hang ]; then while [ -e "$HANGS" ]; do sleep 0.1; done; exit; fi
    [ "$BROKEN" = kernels ] && failures=1 failed=', "failures": [{"failure": "differs"}]'
    suite() { echo "{\"name\": \"$1\", \"testsuite\": [{\"name\": \"$2\"$3}]}"; }
    echo "{\"tests\": 7, \"failures\": $failures, \"errors\": 0, \"disabled\": 0, \"testsuites\":
           [$(suite CudaGemm Agrees "$failed"), $(suite CudaNorm ForwardAgrees)]}" > "$out" ;;
  train_gpt*)
    case "$BROKEN $all" in
      "train "*) echo "no memory"; exit 1 ;;
      "nccl "*--ranks-per-gpu*) [ "$NCCL_CUMEM_ENABLE" = 0 ] ||
        { echo "NCCL: unhandled system error"; exit 1; } ;;
      "nccl-always "*--ranks-per-gpu*) echo "NCCL: unhandled system error"; exit 1 ;;
      "nccl-hangs "*--ranks-per-gpu*)
        while [ "$NCCL_CUMEM_ENABLE" != 0 ] && [ -e "$HANGS" ]; do sleep 0.1; done ;;
    esac
    loss=10.5; [ "$BROKEN" = loss ] && [ "$(after --device)" = cuda ] && loss=10.6
    for i in $(seq "$(after --train-iters)"); do
      echo "{\"step_ms\": 200, \"loss\": $loss, \"grad_norm\": 1, \"loss_bits\": \"$loss\",
             \"skipped\": false}" | tr -d '\n'; echo
    done > "$(after --metrics)"
    for which in gradients parameters; do
      printf '\0\0\x80\x3f' > "$(after --dump-tensors).$which.f32"
      echo "a 1 0" > "$(after --dump-tensors).$which.index"
    done ;;
  trireme*) touch "$(after --output).idx" ;;
  gpu_*_benchmark*) echo '{"ms": 1}' ;;
  *) echo "pretender does not know: $all" >&2; exit 1 ;;
esac
"""
MPIRUN = r"""#!/bin/bash
[ "$BROKEN" = mpirun ] && { echo "mpirun: no ssh" >&2; exit 243; }
shift 2
exec "$@"
"""
SANITIZER = r"""#!/bin/bash
case "$BROKEN $*" in
  *--help) echo "  --kernel-name arg   kns=substring" ;;
  sanitizer*) echo "========= ERROR SUMMARY: 2 errors"; exit 86 ;;
  *racecheck*) echo "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)" ;;
  *) echo "========= ERROR SUMMARY: 0 errors" ;;
esac
"""
NCU = r"""#!/bin/bash
[ "$BROKEN" = ncu ] && { echo "==ERROR== Failed to initialize the profiler"; exit 1; }
echo "  trireme::norm_backward (1, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 9.0"
"""
SMI = r"""#!/bin/bash
case "$*" in
  *vbios*) echo "Field is not a valid field to query" >&2; exit 2 ;;
  *clocks.max.sm*) echo "1980 MHz" ;;
  *) echo "state of $*" ;;
esac
"""


class Pretended(pretend.Pretended):
    """A folder with programs that pretend, and tests/gpu/run on them."""

    def setUp(self):
        super().setUp()
        self.output, self.results = self.root / "out", self.root / "out/results"
        for name in ("gpu_kernels_tests", "gpu_large_tests", "train_gpt", "trireme",
                     "gpu_kernels_benchmark", "gpu_products_benchmark", "gpu_nccl_benchmark"):
            self.program(f"build/bin/{name}", PROGRAM)
        for name, text in (("mpirun", MPIRUN), ("compute-sanitizer", SANITIZER), ("ncu", NCU),
                           ("nvidia-smi", SMI)):
            self.program(f"tools/{name}", text)
        self.pytorch = self.root / "tools/python"
        self.hangs = self.root / "hangs"  # programs hang while it is there
        self.hangs.touch()
        self.addCleanup(self.hangs.unlink, missing_ok=True)

    def environment(self, broken="", path=None, **more):
        return {**os.environ, "BROKEN": broken, "HANGS": str(self.hangs),
                "PATH": path or f"{self.root}/tools:/usr/bin:/bin", **more}

    def command(self, *arguments):
        return [sys.executable, HERE / "run", "--build", self.root / "build", "--output",
                self.output, *arguments]

    def accept(self, *arguments, **environment):
        return subprocess.run(self.command(*arguments), capture_output=True, text=True,
                              env=self.environment(**environment))

    def summary(self):
        """{stage: record}"""
        return {record["stage"]: record
                for record in json.loads((self.results / "summary.json").read_text())}
