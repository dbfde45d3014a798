"""Stages of an acceptance run. Each ends within its limit and leaves one JSON record; one that has passed is not run again, so a
command that is cut off after ten minutes is simply given again. A record counts only for the programs and the GPU that made it."""
import dataclasses
import datetime
import json
import os
import signal
import subprocess
import time
from typing import Callable

LONGEST_STAGE_S = 480  # commands may be cut off after 10 minutes


class Failed(Exception):
    """The stage found something wrong; the message is for people."""


class OutOfTime(Exception):
    """The command's time is over before the stage's own limit: it is run again by the next command."""


@dataclasses.dataclass
class Stage:
    name: str                        # "ranks.2.tensor": the part before the first point is its group
    usual_s: int                     # it is not started with less time left
    run: Callable[["Work"], dict]    # returns details for the record; raises Failed


class Work:
    """What a stage runs its programs with: within its time, and with everything they print kept in one file."""

    def __init__(self, log, deadline, cut_at):
        self.log, self.deadline, self.cut_at = log, deadline, cut_at

    def run(self, command, environment=None):
        """The output of a program that must succeed. Raises Failed with the end of what it printed."""
        command = [str(part) for part in command]
        settings = "".join(f"{key}={value} " for key, value in (environment or {}).items())
        with open(self.log, "a") as log:
            log.write(f"$ {settings}{' '.join(command)}\n")
        left = max(min(self.deadline, self.cut_at) - time.monotonic(), 0.1)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
                              stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})}) as job:
            try:
                output = job.communicate(timeout=left)[0]
                over = False
            except subprocess.TimeoutExpired:
                over = True
                output = end(job)
        with open(self.log, "a") as log:
            log.write(output + f"# exit status {job.returncode}\n")
        if over and self.cut_at < self.deadline:
            raise OutOfTime
        if over:
            raise Failed(f"{command[0]} took longer than the stage may:\n{tail(output)}")
        if job.returncode != 0:
            raise Failed(f"{command[0]} ended with {job.returncode}:\n{tail(output)}")
        return output


def end(job):
    """Ends a program with what it started, ranks of mpirun (which end with it when it is asked) too; returns its output."""
    os.killpg(job.pid, signal.SIGTERM)
    try:
        return job.communicate(timeout=3)[0]
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        return job.communicate()[0]


def tail(text, lines=15):
    return "\n".join(text.rstrip().splitlines()[-lines:])


class Records:
    """The records in one folder: OUTPUT/records/STAGE.json. All of them together, of whatever command, are OUTPUT/summary.json, which
    alone is enough to go on elsewhere; it is whole after every stage."""

    def __init__(self, output):
        self.output = output
        self.folder = output / "records"
        self.folder.mkdir(parents=True, exist_ok=True)
        (output / "logs").mkdir(exist_ok=True)
        summary = output / "summary.json"
        if summary.exists():
            for record in json.loads(summary.read_text()):
                if not self._file(record["stage"]).exists():
                    self.write(record)

    def _file(self, stage):
        return self.folder / f"{stage}.json"

    def read(self, stage):
        file = self._file(stage)
        return json.loads(file.read_text()) if file.exists() else None

    def write(self, record):
        self._write(self._file(record["stage"]), record)

    @staticmethod
    def _write(file, content):
        part = file.with_suffix(".part")
        part.write_text(json.dumps(content, indent=1) + "\n")
        part.replace(file)

    def passed(self, stage, identity):
        record = self.read(stage)
        return record is not None and record["status"] == "passed" and record["identity"] == identity

    def write_summary(self):
        records = [json.loads(file.read_text()) for file in self.folder.glob("*.json")]
        self._write(self.output / "summary.json", sorted(records, key=lambda record: record["started"]))

    def log(self, stage):
        return self.output / "logs" / f"{stage}.log"


def run_stage(stage, records, identity, cut_at):
    """Runs it and writes its record. Returns "passed", "failed" or "not finished"."""
    if cut_at - time.monotonic() < stage.usual_s:
        return "not finished"
    print(f"# {stage.name} ...", flush=True)
    begin, log = time.monotonic(), records.log(stage.name)
    log.unlink(missing_ok=True)
    record = {"stage": stage.name, "started": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "identity": identity}
    try:
        details = stage.run(Work(log, begin + LONGEST_STAGE_S, cut_at))
        record |= {"status": "passed", "details": details}
    except OutOfTime:
        return "not finished"
    except Failed as failure:
        record |= {"status": "failed", "reason": str(failure)}
        print(f"# {stage.name} FAILED: {failure}", flush=True)
    record["seconds"] = round(time.monotonic() - begin, 1)
    records.write(record)
    return record["status"]


def run_stages(stages, records, identity, cut_at):
    """{stage name: status} of all of them, in order."""
    status = {}
    for stage in stages:
        if records.passed(stage.name, identity):
            status[stage.name] = "passed before"
        else:
            status[stage.name] = run_stage(stage, records, identity, cut_at)
        records.write_summary()
    return status


def table(stages, status, records):
    lines = [f"{'stage':34} {'result':14} {'seconds':>8}  what"]
    for stage in stages:
        record = records.read(stage.name) or {}
        known = status[stage.name] != "not finished"
        what = record.get("details", {}).get("summary", "") if status[stage.name].startswith("passed") else record.get("reason", "")
        lines.append(f"{stage.name:34} {status[stage.name]:14} {record.get('seconds', '') if known else '':>8}  {what.splitlines()[0] if known and what else ''}")
    return "\n".join(lines)
