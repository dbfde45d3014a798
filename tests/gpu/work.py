"""What a stage runs its programs with: within its time, and with everything they print kept in one
file from the moment they print it."""
import json
import os
import pathlib
import shlex
import signal
import subprocess
import time


class Failed(Exception):
    """The stage found something wrong; the message is for people."""


class OutOfTime(Exception):
    """The command's time is over before the stage's own limit: the next command runs it again."""


class Stopped(BaseException):
    """The command was asked to end (SIGTERM, SIGINT)."""


class Work:
    """`details` is what the stage has found so far, for its record, whatever becomes of it."""

    def __init__(self, log, limit_s, cut_at):
        """log: file that is extended. limit_s: of the stage. cut_at: end of the command, of
        time.monotonic()."""
        self.log, self.cut_at = log, cut_at
        self.limit_s, self.deadline = limit_s, time.monotonic() + limit_s
        self.details = {}
        self._measurements = None

    def follow(self, file):
        """`file` holds a JSON object that a program replaces while it measures: a part of the
        details."""
        self._measurements = file

    def found(self):
        """The details so far, with what a program has measured so far."""
        if self._measurements is None:
            return dict(self.details)
        try:
            return {**json.loads(self._measurements.read_text()), **self.details}
        except (OSError, ValueError):  # not written yet, or just being written
            return dict(self.details)

    def run(self, command, environment=None, limit_s=None, text=""):
        """The output of a program that must succeed, with `text` as its input. `limit_s`: its own
        limit, within the stage's. Raises Failed with the end of what it printed, or OutOfTime."""
        command = [str(part) for part in command]
        now = time.monotonic()
        ends = min(self.deadline, self.cut_at, now + (limit_s or self.limit_s))
        settings = "".join(f"{key}={value} " for key, value in (environment or {}).items())
        with open(self.log, "a+b") as log:
            log.write(f"$ {settings}{shlex.join(command)}\n".encode())
            log.flush()
            begin = log.tell()
            over, status = self._run(command, environment, log, text, max(ends - now, 0.1))
            log.seek(begin)
            output = log.read().decode(errors="replace")
            log.write(f"# exit status {status}\n".encode())
        if over and ends == self.cut_at:
            raise OutOfTime
        name = pathlib.Path(command[0]).name
        if over:
            raise Failed(f"{name} took longer than {ends - now:.0f} s: {last_words(output)}\n"
                         f"{tail(output)}")
        if status != 0:
            raise Failed(f"{name} ended with {status}: {last_words(output)}\n{tail(output)}")
        return output

    def attempt(self, command, environment=None, limit_s=10):
        """The output of a program that may fail or be missing; then None, and the log says why."""
        try:
            return self.run(command, environment, limit_s)
        except (Failed, OSError) as error:
            self.note(f"# {command[0]}: {error}")
            return None

    def note(self, line):
        with open(self.log, "a") as log:
            log.write(line + "\n")

    @staticmethod
    def _run(command, environment, log, text, seconds):
        """(was it ended, exit status)"""
        with open(os.devnull) if not text else text_file(text) as stdin:
            job = subprocess.Popen(command, stdin=stdin, stdout=log, stderr=subprocess.STDOUT,
                                   start_new_session=True,
                                   env={**os.environ, **(environment or {})})
        try:
            return False, job.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return True, end(job)
        except BaseException:
            end(job)
            raise


def text_file(text):
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as file:  # a pipe holds 64 KiB, and jobs are a few lines
        file.write(text)
    return os.fdopen(reader)


def descendants(pid):
    """Processes that `pid` started, and what these started, in whatever session or group."""
    children = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):  # it has just ended
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found, todo = [], [pid]
    while todo:
        started = children.get(todo.pop(), [])
        found += started
        todo += started
    return found


def end(job):
    """Ends a program with what it started, ranks of mpirun (which are in groups of their own, and
    end with it when it is asked) too. Returns its exit status."""
    started = descendants(job.pid)
    signal_to(os.killpg, job.pid, signal.SIGTERM)
    try:
        job.wait(timeout=3)
    except subprocess.TimeoutExpired:
        started = sorted({*started, *descendants(job.pid)})
    signal_to(os.killpg, job.pid, signal.SIGKILL)
    for pid in started:
        signal_to(os.kill, pid, signal.SIGKILL)
    return job.wait()


def signal_to(kill, pid, number):
    try:
        kill(pid, number)
    except ProcessLookupError:
        pass


def tail(text, lines=15):
    return "\n".join(text.rstrip().splitlines()[-lines:])


def last_words(text):
    """The last line; of ranks not of what mpirun says behind them, between rules."""
    own, _, behind = ("\n" + text).partition("\n-----")
    lines = [line for line in (own if own.strip() else behind).splitlines()
             if any(character.isalnum() for character in line)]
    return lines[-1].strip() if lines else ""
