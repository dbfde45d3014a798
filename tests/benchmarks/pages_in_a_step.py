#!/usr/bin/env python3
"""What status pages cost a training step of about 10 ms, in two ways.

Paired runs: train_gpt with pages and without, one after the other, in changing order. Of each run,
CPU time per step (user and system, all processes, less that of a run with few steps) and the median
wall time of a step. Printed is the median over pairs of with / without, with a bootstrap interval
of 95 %; beside it the same ratio of two runs without pages, which shows what the machine can
resolve. An interval wider than what is judged (0.2 %) judges nothing.

Counted: moves and operations that a rank writes in a step (page_counts, the difference of a long
and a short run, so exact), times the nanoseconds of each (status_page). Each operation is taken to
be waited for.

usage: tests/benchmarks/pages_in_a_step.py [--build build/release] [--ranks 1] [--layout=OPTIONS]
       [--pairs 30] [--steps 600] [--json FILE]
"""
import argparse
import json
import os
import pathlib
import random
import resource
import statistics
import tempfile

from runs import ROOT, command, corpus, run

JUDGED = 0.002  # of a step
SHORT = 20  # steps of a run that stands for start and end
WARM = 10  # steps that are not counted
MODEL = {"layers": 4, "batch": 4, "micro_batch": 2, "width": 128, "sequence": 64, "heads": 4}


def cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def one_run(a, data, steps, pages):
    """CPU seconds, and the median of the milliseconds of a step."""
    with tempfile.TemporaryDirectory() as folder:
        metrics = pathlib.Path(folder) / "metrics.jsonl"
        words = command(a.build, data, a.ranks, steps, extra=["--metrics", metrics, *a.layout],
                        **MODEL)
        if a.ranks == 1:  # pages are those of ranks that mpirun has started
            words = ["mpirun", "--allow-run-as-root", "-np", "1", *words]
        before = cpu_s()
        run(words, {"TRIREME_PAGES": pages})
        used = cpu_s() - before
        rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    return used, statistics.median(row["step_ms"] for row in rows[WARM:])


def counts(a, data, steps):
    """Of the busiest rank."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as pages:
        one_run(a, data, steps, pages)
        lines = run([a.build / "bin/page_counts", pages]).splitlines()
    ranks = [json.loads(line) for line in lines]
    return {key: max(rank[key] for rank in ranks) for key in ("moves", "operations")}


def ns_per_call(build):
    """CPU nanoseconds of each call with a page; the median of some repetitions."""
    answer = json.loads(run([build / "bin/status_page", "--benchmark_format=json",
                           "--benchmark_repetitions=5", "--benchmark_filter=page:1"]))
    times = {}
    for row in answer["benchmarks"]:
        if row["run_type"] == "iteration":
            name = row["name"].split("/")[0]
            times.setdefault(name, []).append(row["cpu_time"])
    return {name: statistics.median(all_of_it) for name, all_of_it in times.items()}


def counted(a, data):
    short, long = counts(a, data, SHORT), counts(a, data, 2 * SHORT)
    per_step = {key: (long[key] - short[key]) / SHORT for key in long}
    ns = ns_per_call(a.build)
    cost = (per_step["moves"] * ns["op_boundary"]
            + per_step["operations"] * (ns["operation"] + ns["wait"]))
    return {"per_step": per_step, "ns": ns, "us_per_step": cost / 1e3,
            "part_of_10_ms": cost / 1e7}


def one_round(a, data, pages, number):
    """Three runs: with pages, and twice without; which is first changes."""
    kinds = ["on", "off", "again"]
    kinds = kinds[number % 3:] + kinds[:number % 3]
    return {kind: one_run(a, data, a.steps, pages if kind == "on" else "") for kind in kinds}


def interval(ratios, draws=10000):
    """95 %, of the median, by the bootstrap."""
    generator = random.Random(1)
    medians = sorted(statistics.median(generator.choices(ratios, k=len(ratios)))
                     for _ in range(draws))
    return medians[int(0.025 * draws)], medians[int(0.975 * draws)]


def verdict(low, high):
    if high - low > JUDGED:
        return "not judged: the interval is wider than 0.2 %"
    return "at most 0.2 %" if high <= 1 + JUDGED else "more than 0.2 %" if low > 1 + JUDGED \
        else "not judged: 0.2 % lies in the interval"


def summary(rounds, start_s, steps):
    found = {}
    for name, index in (("cpu", 0), ("wall", 1)):
        for pair, (above, below) in {"on/off": ("on", "off"),
                                     "off/off": ("again", "off")}.items():
            def per_step(run_, kind):
                if index == 1:
                    return run_[1]
                return (run_[0] - start_s["on" if kind == "on" else "off"]) * 1e3 / (steps - SHORT)
            ratios = [per_step(r[above], above) / per_step(r[below], below) for r in rounds]
            low, high = interval(ratios)
            found[f"{name} {pair}"] = {
                "ms_per_step": statistics.median(per_step(r[below], below) for r in rounds),
                "ratio": statistics.median(ratios), "low": low, "high": high,
                "verdict": verdict(low, high)}
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    p.add_argument("--ranks", type=int, default=1)
    p.add_argument("--layout", type=str.split, default=[], metavar="OPTIONS",
                   help="of train_gpt, as --layout='--tp 2'")
    p.add_argument("--pairs", type=int, default=30)
    p.add_argument("--steps", type=int, default=600)
    p.add_argument("--json", type=pathlib.Path)
    a = p.parse_args()
    load = [os.getloadavg()[0]]
    with corpus(a.build) as data, tempfile.TemporaryDirectory(dir="/dev/shm") as pages:
        direct = counted(a, data)
        start_s = {kind: statistics.median(one_run(a, data, SHORT, path)[0] for _ in range(5))
                   for kind, path in (("on", pages), ("off", ""))}
        rounds = []
        for number in range(a.pairs):
            rounds.append(one_round(a, data, pages, number))
            load.append(os.getloadavg()[0])
            print(f"pair {number + 1} of {a.pairs}", end="\r", flush=True)
    found = summary(rounds, start_s, a.steps)
    print(f"{a.ranks} ranks, {a.pairs} pairs of {a.steps} steps; load of the machine "
          f"{min(load):.1f} to {max(load):.1f}")
    for name, r in found.items():
        print(f"{name:13} {r['ms_per_step']:7.3f} ms a step, ratio {r['ratio']:.4f} "
              f"({r['low']:.4f} to {r['high']:.4f})"
              + (f": {r['verdict']}" if name.endswith("on/off") else ""))
    c = direct["per_step"]
    print(f"counted: {c['moves']:.1f} moves and {c['operations']:.1f} operations a step = "
          f"{direct['us_per_step']:.2f} us, {100 * direct['part_of_10_ms']:.3f} % of 10 ms")
    if a.json:
        a.json.write_text(json.dumps({"ranks": a.ranks, "steps": a.steps, "load": load,
                                      "start_s": start_s, "counted": direct, "paired": found,
                                      "rounds": rounds}, indent=1) + "\n")


if __name__ == "__main__":
    main()
