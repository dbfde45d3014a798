#!/usr/bin/env python3
"""Weak scaling of each axis alone, 1 -> 4 ranks, and memory against the plan.

Weak scaling: the global batch grows with the ranks, so each rank has the work of one. Efficiency =
tokens/s on n ranks / (n x tokens/s on one), times peak(1) x n / peak(n), both peaks measured in the
same round: what the clock loses under load is not the runtime's. Memory: proportional set size
(PSS) summed over ranks while training, against what the plan says plus the PSS of the same number
of ranks training the smallest model (program, libraries, MPI).

usage: tests/benchmarks/scaling.py [--build build/release] [--rounds 3] [--steps 10] [--ranks 2 4]
       [--json FILE]
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import time

from runs import BATCH, ROOT, command, corpus, peak, tokens_per_s

LAYERS, HEADS = 8, 8  # divide over 4 stages and 4 tensor ranks
AXES = {
    "data": ([], 8),
    "data, ZeRO-1": (["--use-distributed-optimizer"], 8),
    "tensor": (["--tp", "{n}"], 8),
    "tensor, sequence parallel": (["--tp", "{n}", "--sequence-parallel"], 8),
    "pipeline, 1f1b": (["--pp", "{n}"], 1),
    "pipeline, zero-bubble": (["--pp", "{n}", "--schedule", "zero-bubble"], 1),
    "pipeline, zero-bubble-v": (["--pp", "{n}", "--schedule", "zero-bubble-v"], 1),
    "pipeline, interleaved x 2": (["--pp", "{n}", "--schedule", "interleaved",
                                   "--num-virtual-stages-per-pipeline-rank", "2"], 1),
}


def options(axis, ranks):
    return [o.replace("{n}", str(ranks)) for o in AXES[axis][0]]


def family(pid):
    children = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True,
                              text=True).stdout.split()
    return [pid] + [p for c in children for p in family(int(c))]


def pss(pids):
    total = 0
    for pid in pids:
        try:
            if "train_gpt" in pathlib.Path(f"/proc/{pid}/comm").read_text():
                rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
                total += int(re.search(r"^Pss:\s+(\d+)", rollup, re.M)[1]) * 1024
        except (FileNotFoundError, ProcessLookupError, TypeError):
            pass
    return total


def memory(build, data, ranks, layers, **model):
    """(planned, largest PSS seen), bytes, summed over ranks."""
    job = subprocess.Popen(
        command(build, data, ranks, 8, layers, BATCH, max(1, BATCH // ranks), **model),
        stdout=subprocess.PIPE, text=True)
    most = 0
    while job.poll() is None:
        most = max(most, pss(family(job.pid)))
        time.sleep(0.2)
    size, unit = re.search(r"this node ([\d.]+) (\w+) of", job.stdout.read()).groups()
    return float(size) * {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[unit], most


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    p.add_argument("--json", type=pathlib.Path)
    a = p.parse_args()
    record = {"scaling": [], "memory": {}}
    with corpus(a.build) as data:
        for i in range(a.rounds):
            row = {f"peak {n}": peak(a.build, n) for n in (1, *a.ranks)}
            for micro_batch in {m for _, m in AXES.values()}:  # one rank is the same for every axis
                row[f"alone {micro_batch}"] = tokens_per_s(
                    a.build, data, 1, a.steps, LAYERS, BATCH, micro_batch, heads=HEADS)
            for axis, (_, micro_batch) in AXES.items():
                for n in a.ranks:
                    row[f"{axis} {n}"] = tokens_per_s(
                        a.build, data, n, a.steps, LAYERS, BATCH * n, micro_batch,
                        options(axis, n), heads=HEADS)
            record["scaling"].append(row)
            print(f"# round {i + 1} of {a.rounds} done", flush=True)
        print(f"{'axis':28} {'1 rank':>10} " +
              " ".join(f"{f'{n} ranks':>10} {'efficiency':>10}" for n in a.ranks))
        for axis, (_, micro_batch) in AXES.items():
            alone = statistics.median(r[f"alone {micro_batch}"] for r in record["scaling"])
            line = f"{axis:28} {alone:10.0f} "
            for n in a.ranks:
                rate = statistics.median(r[f"{axis} {n}"] for r in record["scaling"])
                share = statistics.median(
                    r[f"{axis} {n}"] / r[f"peak {n}"] * r["peak 1"] / r[f"alone {micro_batch}"]
                    for r in record["scaling"])
                line += f"{rate:10.0f} {share:10.1%} "
            print(line)
        print(f"{'memory':28} {'plan':>10} {'baseline':>10} {'PSS':>10} "
              f"{'PSS / (plan + baseline)':>24}")
        for ranks in (1, 4):
            small_plan, small_pss = memory(a.build, data, ranks, 1, width=6, sequence=2)
            baseline = small_pss - small_plan
            plan, seen = memory(a.build, data, ranks, 6)
            record["memory"][ranks] = {"plan": plan, "baseline": baseline, "pss": seen}
            print(f"{f'{ranks} ranks, data {ranks}':28} {plan / 2**20:7.1f}MiB "
                  f"{baseline / 2**20:7.1f}MiB {seen / 2**20:7.1f}MiB "
                  f"{seen / (plan + baseline):24.3f}")
    if a.json:
        a.json.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
