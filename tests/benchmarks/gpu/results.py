"""Results that a cut-off does not lose: one JSON file, written whole after every sub-
measurement."""
import json
import statistics
import sys
import time

from machine import Watch, now
from programs import Failed

WARM_UP, LEAST_STEPS = 5, 5


def spread(times, warm_up=None):
    """Median, extremes and interquartile range of what is left after the warm-up; the values too.
    At least LEAST_STEPS count, so of few steps fewer than WARM_UP are left out."""
    warm_up = min(WARM_UP, len(times) - LEAST_STEPS) if warm_up is None else warm_up
    if warm_up < 0 or len(times) - warm_up < LEAST_STEPS:
        raise Failed(f"{len(times)} steps are too few: {LEAST_STEPS} must count")
    kept = times[warm_up:]
    low, _, high = statistics.quantiles(kept, n=4, method="inclusive")
    return {"median": statistics.median(kept), "min": min(kept), "max": max(kept),
            "iqr": high - low, "count": len(kept), "warm_up": warm_up,
            "all": [round(time, 4) for time in times]}


def write_json(file, content):
    """Never leaves half a file."""
    part = file.with_name(file.name + ".part")
    part.write_text(json.dumps(content, indent=1) + "\n")
    part.replace(file)


def read_json(file):
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise SystemExit(f"--json {file}: not a file of results: {error}") from None
    if not isinstance(found, dict):
        raise SystemExit(f"--json {file}: not a file of results: an object is expected")
    return found


class Results:
    """content: what the file holds. content["measured"] has the records by name, where those of
    training.py begin with the model."""

    def __init__(self, file, machine, again=False):
        self.file, self.machine, self.again = file, machine, again
        self.content = read_json(file) if file and file.exists() else {}
        self.content.setdefault("measured", {})

    def write(self):
        if self.file:
            write_json(self.file, self.content)

    def get(self, name):
        """The record if it was measured, else None."""
        record = self.content["measured"].get(name)
        return record if record and record["status"] == "measured" else None

    def counts(self, name, settings, ours):
        """Was it measured before, in the same way, on such a GPU, and if ours by this build?"""
        record = self.get(name)
        if record is None or record["settings"] != settings:
            return False
        machine = record["machine"]
        built = machine["trireme"]["digest"] == self.machine.trireme["digest"]
        return (machine["gpu"]["name"] or "emulated") == self.machine.name and (built or not ours)

    def leave_out(self, name, reason):
        """A line in the file, and nothing that was measured is lost."""
        if not self.get(name):
            self._keep(name, {"status": "left out", "reason": reason, "date": now()})

    def measure(self, name, settings, take, ours=True):
        """Keeps what take(partial) returns, a dict, as the record of `name`, or why it failed.
        partial(dict): keeps what there is so far. `ours`: another build of trireme measures it
        anew. Returns the record."""
        if not self.again and self.counts(name, settings, ours):
            return self.get(name)
        begin, so_far, watch = time.monotonic(), {}, Watch()

        def keep(status, **more):
            return self._keep(name, {
                "status": status, "settings": settings,
                "seconds": round(time.monotonic() - begin, 1),
                "machine": self.machine.record(watch), "peak_mib": watch.peak_mib,
                **so_far, **more})

        def partial(found):
            so_far.update(found)
            keep("under way")

        print(f"# {name} ...", file=sys.stderr, flush=True)
        try:
            with watch:
                found = take(partial)
        except Failed as failure:
            lines = {"lines": failure.lines} if failure.lines and not so_far else {}
            return keep("failed", reason=str(failure), **lines)
        except Exception as failure:  # such as a file that a program should have left
            return keep("failed", reason=repr(failure))
        except BaseException as end:
            keep("cut off", reason=repr(end))
            raise
        return keep("measured", **found)

    def _keep(self, name, record):
        self.content["measured"][name] = record
        self.write()
        return record
