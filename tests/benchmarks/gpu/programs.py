"""Starting what the GPU benchmarks measure: programs of a build or of the archive of launch/bundle,
and PyTorch; each within a limit of time, and ended with all that it started when this program
is."""
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[3]
HERE = pathlib.Path(__file__).resolve().parent
END_S = 3  # a program that is asked to end has this long


class Failed(Exception):
    """A program failed or took too long; the message is for people. `lines`: JSON that it printed
    before."""

    def __init__(self, message, lines=()):
        super().__init__(message)
        self.lines = list(lines)


def add_source(parser):
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--build", type=pathlib.Path,
                        help="a build of this tree (default: build/release)")
    source.add_argument("--installation", type=pathlib.Path,
                        help="the archive of launch/bundle, unpacked")


def add_arguments(parser):
    add_source(parser)
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE",
                        help="keep the results there; what FILE has is not measured again")
    parser.add_argument("--again", action="store_true", help="measure also what FILE has")
    parser.add_argument("--limit-s", type=positive, default=480.0, metavar="S",
                        help="for each program that is started (default 480)")


def positive(text):
    """Type of an option: a number above 0."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError(text)
    return number


def end_with_programs():
    """Lets SIGTERM end this program as an interrupt does, so that what it started ends too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


class Programs:
    def __init__(self, arguments):
        self.build, self.installation = arguments.build, arguments.installation
        self.limit_s = arguments.limit_s
        if not self.build and not self.installation:
            self.build = ROOT / "build/release"

    @property
    def folder(self):
        return self.installation or self.build

    def command(self, program, *arguments):
        path = self.folder / "bin" / program
        if not path.exists():
            raise Failed(f"there is no {path}: build it (a machine with nvcc does), or give "
                         "--build or --installation")
        start = [path] if self.build else [self.installation / "start", program]
        return list(map(str, [*start, *arguments]))

    def run(self, program, *arguments, text="", on_line=None):
        return run(self.command(program, *arguments), text, self.limit_s, on_line=on_line)

    def library_versions(self):
        """Of the CUDA libraries that these programs find; {} where that cannot be found out."""
        start = [] if self.build else [self.installation / "start"]
        try:
            return json.loads(run([*start, sys.executable, HERE / "machine.py", "--libraries"],
                                  limit_s=60))
        except (Failed, ValueError):
            return {}

    def version(self):
        """{version, commit, digest}: digest changes with the libraries and the CUDA module."""
        found = {"version": None, "commit": None, "digest": None}
        manifest, cache = self.folder / "MANIFEST", self.folder / "CMakeCache.txt"
        if manifest.exists():
            text = manifest.read_text()
            name = re.match(r"trireme-(\S+?)-linux", text)
            commit = re.search(r"^commit (.*)$", text, re.M)
            found |= {"version": name and name[1], "commit": commit and commit[1]}
        elif cache.exists():
            version = re.search(r"^CMAKE_PROJECT_VERSION:STATIC=(.*)$", cache.read_text(), re.M)
            found |= {"version": version and version[1], "commit": commit_of(self.folder)}
        module = os.environ.get("TRIREME_CUDA_MODULE", self.folder / "lib/libtrireme_cuda.so")
        digest = hashlib.sha256()
        libraries = [self.folder / "lib" / name for name in ("libtrireme_base.so", "libtrireme.so")]
        for file in (*libraries, pathlib.Path(module)):
            digest.update(file.read_bytes() if file.exists() else b"none")
        return found | {"digest": digest.hexdigest()[:16]}


def commit_of(folder):
    try:
        return run(["git", "-C", folder, "rev-parse", "HEAD"], limit_s=10).strip()
    except Failed:
        return None


def start(command, folder, environment):
    try:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder,
                                stderr=subprocess.PIPE, text=True, errors="replace",
                                start_new_session=True, env={**os.environ, **environment})
    except OSError as error:
        raise Failed(f"{command[0]} cannot be started: {error.strerror}") from None


def run(command, text="", limit_s=None, on_line=None, folder=None, environment=None):
    """The output of a program that must succeed within limit_s. on_line: called with each line as
    it comes. Raises Failed. Standard error counts only for the message."""
    command = list(map(str, command))
    with start(command, folder, environment or {}) as job:
        errors, lines, over = [], [], threading.Event()
        reader = threading.Thread(target=lambda: errors.append(job.stderr.read()))
        writer = threading.Thread(target=feed, args=(job, text))
        timer = threading.Timer(limit_s, lambda: (over.set(), end(job))) if limit_s else None
        for thread in filter(None, (reader, writer, timer)):
            thread.start()
        try:
            for line in job.stdout:
                lines.append(line)
                if on_line:
                    on_line(line)
            status = job.wait()
        finally:
            if timer:
                timer.cancel()
            end(job)
            reader.join()
            writer.join()
    output, name = "".join(lines), " ".join(command)
    if over.is_set():
        raise Failed(f"{name} took longer than {limit_s:g} s", json_lines(output))
    if status != 0:
        said = output[-4000:] + "".join(errors)[-4000:]
        raise Failed(f"{name} ended with {status}:\n{said}", json_lines(output))
    return output


def feed(job, text):
    try:
        with job.stdin:
            job.stdin.write(text)
    except BrokenPipeError:
        pass  # it ends without having read all; its status says why


def end(job):
    """Ends a program with all that it started: asks first."""
    for kind, patience_s in ((signal.SIGTERM, END_S), (signal.SIGKILL, None)):
        try:
            os.killpg(job.pid, kind)
            job.wait(patience_s)
        except ProcessLookupError:
            return  # nothing of it is left
        except subprocess.TimeoutExpired:
            pass


def json_lines(output):
    """The JSON objects among the lines; one that was cut off is none."""
    found = []
    for line in output.splitlines():
        if line.startswith("{"):
            try:
                found.append(json.loads(line))
            except ValueError:
                pass
    return found
