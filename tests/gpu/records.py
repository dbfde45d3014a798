"""Stages of an acceptance run, and their records. A record counts only for the programs and the
model of GPU that made it; a stage that has passed is not run again."""
import dataclasses
import datetime
import json
import threading
import time
import traceback
from typing import Callable

from work import Failed, OutOfTime, Stopped, Work

ALWAYS = ("install", "probe", "gpu")  # every command runs these: where and on what


@dataclasses.dataclass
class Stage:
    name: str                      # "ranks.2.tensor": the part before the first point is its group
    planned_s: int                 # on an H100, estimated; it is not started with less time left
    run: Callable[[Work], dict]    # returns details for the record; raises Failed
    uses: tuple = ()               # programs, tools and scripts without which it is left out
    needs: str = ""                # a stage: where that one has not passed, this one is left out

    @property
    def group(self):
        return self.name.split(".")[0]

    @property
    def limit_s(self):
        """Of the stage, and so of each program that it runs: a hang costs this, no more."""
        return 2 * self.planned_s + 30


class Records:
    """All records, {stage: the latest}. They begin with those of earlier commands: of the summaries
    `files`. logs: the folder that each stage has its log in."""

    def __init__(self, logs, *files):
        self.logs = logs
        logs.mkdir(parents=True, exist_ok=True)
        self._records, self._lock = {}, threading.Lock()
        self._running = None  # (record, Work) of the stage that runs
        for file in files:
            self._load(file)

    def _load(self, file):
        try:
            for record in json.loads(file.read_text()):
                known = self._records.get(record["stage"])
                if known is None or known["started"] < record["started"]:
                    self._records[record["stage"]] = record
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise Failed(f"{file} is no summary.json of an earlier command: {error!r}") from None

    def read(self, stage):
        with self._lock:
            return self._records.get(stage)

    def write(self, record):
        with self._lock:
            self._records[record["stage"]] = record
            self._running = None

    def running(self):
        """The stage that runs; None where none does."""
        with self._lock:
            return self._running and self._running[0]["stage"]

    def has_any(self):
        """Of stages that not every command runs."""
        return any(record["stage"] not in ALWAYS for record in self.ended())

    def forget(self, stages):
        with self._lock:
            for stage in stages:
                self._records.pop(stage, None)

    def begin(self, record, work):
        with self._lock:
            self._running = (record, work)

    def ended(self):
        """In the order in which they began."""
        with self._lock:
            return sorted(self._records.values(), key=lambda record: record["started"])

    def all(self):
        """The same, and the stage that runs, as it would be if it were cut off now."""
        with self._lock:
            running = self._running
        if not running:
            return self.ended()
        record, work = running
        now = record | {"status": "not finished", "details": work.found()}
        return [known for known in self.ended() if known["stage"] != record["stage"]] + [now]

    def passed(self, stage, identity):
        record = self.read(stage)
        return record is not None and (record["status"], record["identity"]) == ("passed", identity)

    def log(self, stage):
        return self.logs / f"{stage}.log"


@dataclasses.dataclass
class Command:
    """What all stages of one command share."""
    records: Records
    cut_at: float                              # of time.monotonic()
    patience: int = 1                          # times the limit of each stage: emulations are slow
    identity: str = ""                         # of the programs and the GPU
    status: dict = dataclasses.field(default_factory=dict)  # {stage name: what became of it}
    after: Callable[[], None] = lambda: None   # called when a stage has ended

    def run(self, stages):
        """Runs what has not passed, in order."""
        for stage in stages:
            if stage.name not in ALWAYS and self.records.passed(stage.name, self.identity):
                self.status[stage.name] = "passed before"
            elif stage.needs and not self._may_need(stage.needs):
                self.status[stage.name] = "left out"
                print(f"# {stage.name} is left out: {stage.needs} {self.status[stage.needs]}")
            else:
                self.status[stage.name] = self.run_stage(stage)
            self.after()

    def _may_need(self, name):
        return self.status.get(name, "passed").startswith("passed")

    def run_stage(self, stage):
        """Runs it and writes its record. Returns "passed", "failed" or "not finished"."""
        if self.cut_at - time.monotonic() < stage.planned_s:
            return "not finished"
        print(f"# {stage.name} ...", flush=True)
        begin, log = time.monotonic(), self.records.log(stage.name)
        log.unlink(missing_ok=True)
        now = datetime.datetime.now(datetime.timezone.utc)
        record = {"stage": stage.name, "started": now.isoformat(timespec="milliseconds"),
                  "identity": self.identity}
        work = Work(log, stage.limit_s * self.patience, self.cut_at)
        self.records.begin(record, work)
        verdict, stopped = self._verdict(stage, work)
        record |= verdict | {"details": work.found(), "seconds": round(time.monotonic() - begin, 1)}
        self.records.write(record)
        print(f"# {stage.name} {record['status']}, {record['seconds']} s: {what(record)}",
              flush=True)
        if stopped:
            self.status[stage.name] = record["status"]
            raise stopped
        return record["status"]

    @staticmethod
    def _verdict(stage, work):
        """(status and reason, what ended the command)"""
        try:
            work.details |= stage.run(work) or {}
            return {"status": "passed"}, None
        except OutOfTime:
            return {"status": "not finished", "reason": "the command's time was over"}, None
        except Stopped as stopped:
            return {"status": "not finished", "reason": f"the command got {stopped}"}, stopped
        except Failed as failure:
            return {"status": "failed", "reason": str(failure)}, None
        except Exception as error:  # a mistake here, or output of another form: others can run
            work.note(traceback.format_exc())
            return {"status": "failed", "reason": f"{type(error).__name__}: {error}"}, None


def what(record):
    """What a record says, in one line: also of one that failed, what it had measured by then."""
    texts = [record.get("reason", ""), record.get("details", {}).get("summary", "")]
    return "; ".join(text.splitlines()[0] for text in texts if text)
