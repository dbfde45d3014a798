"""The one folder that comes back from the machine: three files, each whole at every moment, so that
it can be read after the command was killed."""
import io
import os
import json
import tarfile
import threading

from records import what

EVERY_S = 10
LOG_BYTES = 2**18  # the end of each log is kept


class ResultsFolder:
    """summary.json, all records; table.txt, what a person reads first; logs.tar.gz. As a context it
    also brings them up to date every 10 seconds."""

    def __init__(self, folder, records, table):
        """table: makes the text of table.txt."""
        self.folder, self.records, self.table = folder, records, table
        folder.mkdir(parents=True, exist_ok=True)
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._keep_up_to_date, daemon=True)

    @property
    def summary(self):
        return self.folder / "summary.json"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        self.write()

    def _keep_up_to_date(self):
        while not self._stop.wait(EVERY_S):
            self.write()

    def write(self):
        with self._lock:
            try:
                self._replace("summary.json", summary_text(self.records).encode())
                self._replace("table.txt", self.table().encode())
                self._replace("logs.tar.gz", packed(self.records.logs))
            except OSError as error:
                print(f"# the results are not up to date: {error}", flush=True)

    def _replace(self, name, content):
        part = self.folder / f"{name}.part"
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.folder / name)


def summary_text(records):
    return json.dumps(records.all(), indent=1) + "\n"


def packed(logs):
    """A tar.gz of the end of each log."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=5) as tar:
        for log in sorted(logs.iterdir()):
            with open(log, "rb") as file:
                file.seek(max(0, log.stat().st_size - LOG_BYTES))
                content = file.read()
            entry = tarfile.TarInfo(f"logs/{log.name}")
            entry.size, entry.mtime = len(content), int(log.stat().st_mtime)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def table(stages, status, records):
    """A row for each stage of this command, and for each that an earlier one left a record of."""
    latest = {record["stage"]: record for record in records.all()}
    names = [stage.name for stage in stages]
    names += [name for name in latest if name not in names]
    lines = [f"{'stage':38} {'result':14} {'seconds':>8}  what"]
    for name in names:
        record = latest.get(name, {})
        earlier = " *" if record and name != records.running() else ""
        result = status.get(name) or record.get("status", "-") + earlier
        if result in ("left out", "-"):
            record = {}
        seconds = record.get("seconds", "")
        lines.append(f"{name:38} {result:14} {seconds:>8}  {what(record)}".rstrip())
    return "\n".join(lines)


def texts(records):
    """Of the latest records: why a stage failed, and the tables that benchmarks print."""
    parts = []
    for record in records.all():
        text = record.get("details", {}).get("text", "")
        if not text and record["status"] == "failed":
            text = record["reason"]
        if text.strip():
            parts.append(f"\n== {record['stage']} ({record['status']})\n{text.strip()}")
    return "\n".join(parts)
