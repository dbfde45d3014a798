"""Where trireme's programs are: unpacked from the archive of launch/bundle, or in a build of this
tree."""
import hashlib
import os
import pathlib
import re
import subprocess
import tarfile

from work import Failed

# Of this tree, or of the archive that this file came in.
ROOT = pathlib.Path(__file__).resolve().parents[2]


class Installation:
    """packages: the folder of Python's packages, where CUDA's libraries may be."""

    def __init__(self, folder, build=None, module=None):
        self.folder, self.build, self.module = folder, build, module
        self.packages = None

    @property
    def bin(self):
        return (self.build or self.folder) / "bin"

    def environment(self, extra=None):
        """For runs of its programs. TRIREME_CUDA_MODULE takes another CUDA module than the one
        beside libtrireme.so."""
        settings = {"TRIREME_CUDA_MODULE": str(self.module)} if self.module else {}
        if self.packages:
            settings["TRIREME_PYTHON_PACKAGES"] = self.packages
        defaults = ROOT / "launch/mpirun.env"
        if self.build and defaults.exists():
            lines = defaults.read_text().splitlines()
            settings |= dict(line.split("=", 1) for line in lines if re.match("[A-Z]", line))
        return settings | (extra or {})

    def command(self, program, *arguments, ranks=1, before=()):
        """Argument list that runs a program; on several ranks by mpirun, each started by the
        command `before`."""
        start = [] if self.build else [self.folder / "start"]
        path = self.build / "bin" / program if self.build else program
        launch = ["mpirun", "-np", ranks, *before] if ranks > 1 else list(before)
        return [str(part) for part in [*start, *launch, path, *arguments]]

    def inside(self, *command):
        """Argument list that runs a program of the system with these libraries."""
        return [str(part) for part in ([] if self.build else [self.folder / "start"]) + [*command]]

    def has(self, program):
        return (self.bin / program).exists()

    def identity(self):
        """Changes with the programs."""
        libraries = (self.build or self.folder) / "lib"
        module = self.module or libraries / "libtrireme_cuda.so"
        digest = hashlib.sha256()
        for file in (self.bin / "train_gpt", *sorted(self.bin.glob("gpu_*")),
                     libraries / "libtrireme_base.so", libraries / "libtrireme.so", module):
            digest.update(file.read_bytes() if file.exists() else b"none")
        return digest.hexdigest()[:16]


def newest_archive():
    if (ROOT / "MANIFEST").exists():
        return None  # this is one, unpacked
    found = sorted((ROOT / "build").glob("trireme-*.tar.xz"), key=lambda file: file.stat().st_mtime)
    return found[-1] if found else None


def from_archive(archive, output, module):
    """Unpacks the archive unless that was done."""
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()[:16]
    folder = output / "installation" / digest
    if not (folder / "unpacked").exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive) as tar:
            tar.extractall(folder, **({"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}))
        (folder / "unpacked").touch()
    return Installation(next(folder.glob("trireme-*/start")).parent, module=module)


def from_tree(work):
    """Builds this tree; a build that was cut off is continued."""
    build = ROOT / "build/release"
    configure = ["cmake", "--preset", "release", "-DTRIREME_CUDA=ON", "-S", ROOT]
    for command in (configure, ["cmake", "--build", build, "--parallel"]):
        try:
            work.run(command)
        except FileNotFoundError:
            raise Failed("there is no archive (--archive) and no cmake to build this tree "
                         "with") from None
    return build


def open_gpu(installation, work):
    """The model of the GPU, as gpu_kernels_tests names it. Where it cannot be opened: Failed with
    the reason, and the details have what the loader looked for."""
    if not installation.has("gpu_kernels_tests"):
        raise Failed(f"{installation.bin / 'gpu_kernels_tests'} is missing: the machine that built "
                     "it had no nvcc")
    nothing = installation.command("gpu_kernels_tests", "--gtest_filter=-*")
    try:
        output = work.run(nothing, installation.environment())
    except Failed:
        traced = 'LD_DEBUG=libs "$@" 2>&1 | tail -n 60'
        work.details["loader"] = work.attempt(
            installation.inside("bash", "-c", traced, "bash", *nothing[-2:]),
            installation.environment(), limit_s=60)
        raise
    return re.search(r"^# GPU \d+ (.*?), compute", output, re.M)[1]


def test_suites(installation):
    """Names of the suites of gpu_kernels_tests; [] where it does not say, and a line says why."""
    if not installation.has("gpu_kernels_tests"):
        return []
    command = installation.command("gpu_kernels_tests", "--gtest_list_tests")
    try:
        listed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True,
                                env={**os.environ, **installation.environment()})
    except (OSError, subprocess.SubprocessError) as error:
        print(f"# no suite of gpu_kernels_tests is known: {error}", flush=True)
        return []
    return re.findall(r"^(\w+)\.$", listed.stdout, re.M)
