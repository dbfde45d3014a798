#!/usr/bin/env python3
"""Two data ranks, of which one runs at half speed: equal against proportional shares.

The slow rank is stopped and continued every 10 ms. Each round has three jobs of one global batch:
both ranks at full speed with equal shares; one of them slow with equal shares; the same with shares
2,1. The first two give the time of a micro-batch on a fast and on a slow rank. From these follows
what shares 2,1 promise: the longer of 2/3 of the micro-batches on the fast rank and 1/3 on the slow
one. Ratios are taken within a round; printed are their medians, least and most.

It needs a free core for each rank. Before and after each job as many processes as ranks compute for
a while; where they get less than 95 % of a core each, the round does not count and is repeated, 5
times at most in all. The end is "passed" (exit code 0) where 90 % of the promise is kept and equal
shares are slower, "failed" (1), or "not judged" (77) where fewer rounds counted than were asked
for.

usage: tests/benchmarks/unequal_shares.py [--build build/release] [--rounds 3] [--steps 8]
       [--json FILE]
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from runs import ROOT, command, corpus

LAYERS, MICRO_BATCHES = 4, 12
STOP_S = 0.01
RANKS, REPEATS = 2, 5
FREE_CORE, KEPT = 0.95, 0.9
NOT_JUDGED = 77
# Prints its share of a core over half a second.
COMPUTE = """
import time
wall, own = time.perf_counter(), time.process_time()
while time.perf_counter() < wall + 0.5: pass
print((time.process_time() - own) / (time.perf_counter() - wall))
"""


def process_of(job, rank):
    """A pidfd of the rank, once mpirun has started it; None: the job has ended."""
    wanted = f"OMPI_COMM_WORLD_RANK={rank}".encode()
    while job.poll() is None:
        children = subprocess.run(["pgrep", "-P", str(job.pid)], capture_output=True, text=True)
        for child in children.stdout.split():
            try:
                if wanted in pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
                    return os.pidfd_open(int(child))
            except (FileNotFoundError, ProcessLookupError):
                pass
        time.sleep(0.05)
    return None


def run_at_half_speed(job, rank):
    """Until the job ends. The rank runs as long as it was stopped, however long a sleep takes."""
    process = process_of(job, rank)
    if process is None:
        return
    try:
        while job.poll() is None:
            start = time.monotonic()
            signal.pidfd_send_signal(process, signal.SIGSTOP)
            time.sleep(STOP_S)
            signal.pidfd_send_signal(process, signal.SIGCONT)
            time.sleep(time.monotonic() - start)
    except ProcessLookupError:
        pass  # it has ended
    finally:
        os.close(process)


def free_cores():
    """The least share of a core that one of as many processes as ranks gets."""
    jobs = [subprocess.Popen([sys.executable, "-c", COMPUTE], stdout=subprocess.PIPE, text=True)
            for _ in range(RANKS)]
    return min(float(job.communicate()[0]) for job in jobs)


def step_ms(build, data, steps, slow, shares):
    """Median over the steps after the second."""
    with tempfile.TemporaryDirectory() as folder:
        metrics = pathlib.Path(folder) / "metrics.jsonl"
        job = subprocess.Popen(
            command(build, data, RANKS, steps, LAYERS, MICRO_BATCHES, 1,
                    ["--metrics", metrics, "--data-parallel-shares", shares]),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if slow:
            run_at_half_speed(job, 1)
        output, _ = job.communicate()
        if job.returncode != 0:
            raise SystemExit(f"ended with {job.returncode}:\n{output}")
        rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    return statistics.median(row["step_ms"] for row in rows[2:])


def one_round(build, data, steps):
    free = [free_cores()]
    if free[0] < FREE_CORE:
        return {"free_cores": free[0]}
    times = []
    for slow, shares in ((False, "1,1"), (True, "1,1"), (True, "2,1")):
        times.append(step_ms(build, data, steps, slow, shares))
        free.append(free_cores())
    full, equal, shared = times
    promised = max(full * 4 / 3, equal * 2 / 3)  # halves became 2/3 and 1/3
    return {"full_ms": full, "equal_ms": equal, "proportional_ms": shared,
            "slow_by": equal / full, "gain": equal / shared, "promised": equal / promised,
            "kept": promised / shared, "free_cores": min(free)}


def judge(rounds, wanted):
    """The word and the exit code."""
    if len(rounds) < wanted:
        return (f"not judged: of {wanted} rounds {len(rounds)} had a free core for each rank",
                NOT_JUDGED)
    kept = statistics.median(each["kept"] for each in rounds)
    gain = statistics.median(each["gain"] for each in rounds)
    good = kept >= KEPT and gain > 1
    return ("passed" if good else f"failed: expected {KEPT:.0%} of the promise, and a gain",
            0 if good else 1)


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--json", type=pathlib.Path)
    a = p.parse_args()
    rounds, left_out = [], []
    with corpus(a.build) as data:
        for _ in range(a.rounds + REPEATS):
            if len(rounds) < a.rounds:
                one = one_round(a.build, data, a.steps)
                (rounds if one["free_cores"] >= FREE_CORE else left_out).append(one)
                print("# " + ", ".join(f"{key} {value:.2f}" for key, value in one.items()),
                      flush=True)
    meanings = {"slow_by": "equal shares, slow / full speed", "gain": "equal / proportional shares",
                "promised": "what that promises", "kept": "share of the promise that was kept"}
    for key, meaning in meanings.items() if rounds else ():
        values = [each[key] for each in rounds]
        print(f"{meaning:36} {statistics.median(values):5.2f}  ({min(values):.2f} to "
              f"{max(values):.2f})")
    word, code = judge(rounds, a.rounds)
    print(word)
    if a.json:
        a.json.write_text(json.dumps({"unequal_shares": rounds, "left_out": left_out}, indent=1)
                          + "\n")
    sys.exit(code)


if __name__ == "__main__":
    main()
