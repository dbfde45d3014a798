#!/usr/bin/env python3
"""Training speed of the benchmark model (GPT: 6 layers, 6 heads, width 384, sequence 256, global
batch 8, bytes, AdamW) in fp32 and bf16, on one rank and on one a core, as a share of the FMA peak
measured in the same run, beside PyTorch where tests/benchmarks/peers/install was run. The peak is
that of fp32, also for bf16.

Each round runs every contestant once, one after the other, so that a noisy machine hits all alike;
figures are medians over rounds, ratios are medians of per-round ratios.

With --against another build directory takes the place of PyTorch: each round runs both, and every
second round the other one first. Prints the median ratio of both speeds with its interval of 95 %;
take 20 rounds or more.

usage: tests/benchmarks/training.py [--build build/release] [--peers build/peers] [--ranks N]
       [--against BUILD] [--rounds 3] [--steps 15] [--json FILE]
"""
import argparse
import dataclasses
import json
import os
import pathlib
import random
import statistics

from runs import BATCH, ROOT, corpus, flops_per_token, parameters, peak, run, tokens_per_s

LAYERS = 6


@dataclasses.dataclass(frozen=True)
class Contestant:
    ours: bool
    cores: int
    bf16: bool = False
    compiled: bool = False
    processes: int = 1  # of PyTorch, each with cores / processes threads

    @property
    def name(self):
        kind = "bf16" if self.bf16 else "fp32"
        if self.ours:
            return f"trireme {kind}, {self.cores} rank{'s' if self.cores > 1 else ''}"
        how = " compiled" if self.compiled else ""
        if self.processes > 1:
            return f"PyTorch{how} {kind}, DDP over gloo, {self.processes} processes"
        return f"PyTorch{how} {kind}, {self.cores} thread{'s' if self.cores > 1 else ''}"

    def tokens_per_s(self, a, data, build=None):
        if self.ours:
            return tokens_per_s(build or a.build, data, self.cores, a.steps,
                                micro_batch=min(a.micro_batch, BATCH // self.cores),
                                extra=["--bf16"] if self.bf16 else [])
        threads = self.cores // self.processes
        start = [a.peers / "bin/python"]
        if self.processes > 1:
            start = [a.peers / "bin/torchrun", "--nproc-per-node", self.processes]
        script = [ROOT / "tests/benchmarks/peers/train_gpt.py", "--threads", threads,
                  "--steps", a.steps]
        script += ["--bf16"] if self.bf16 else []
        script += ["--compile"] if self.compiled else []
        out = run(list(map(str, start + script)), {"OMP_NUM_THREADS": str(threads)})
        records = [line for line in out.splitlines() if line.startswith("{")]
        return json.loads(records[-1])["tokens_per_s"]


def contestants(cores, with_peers):
    all_of_them = []
    for n in sorted({1, cores}):
        for bf16 in (False, True):
            all_of_them.append(Contestant(True, n, bf16))
            if with_peers:
                all_of_them += [Contestant(False, n, bf16, compiled) for compiled in (False, True)]
                all_of_them += [Contestant(False, n, bf16, processes=n)] if n > 1 else []
    return all_of_them


def report(rounds, entrants):
    cores = sorted({c.cores for c in entrants})
    peaks = ", ".join(f"{n} core{'s' if n > 1 else ''}: "
                      f"{statistics.median(r[f'peak {n}'] for r in rounds) / 1e9:.0f}"
                      for n in cores)
    print(f"# {parameters(LAYERS)} parameters, {flops_per_token(LAYERS) / 1e6:.2f} MFLOP per "
          f"token; FMA peak in GFLOP/s, {peaks}")
    print(f"{'contestant':44} {'tokens/s':>10} {'of peak':>8}")
    for c in entrants:
        share = statistics.median(r[c.name] * flops_per_token(LAYERS) / r[f"peak {c.cores}"]
                                  for r in rounds)
        print(f"{c.name:44} {statistics.median(r[c.name] for r in rounds):10.0f} {share:8.1%}")
    for ours in (c for c in entrants if c.ours):
        theirs = [c.name for c in entrants
                  if not c.ours and (c.cores, c.bf16) == (ours.cores, ours.bf16)]
        if theirs:
            ratio = statistics.median(r[ours.name] / max(r[name] for name in theirs)
                                      for r in rounds)
            print(f"# {ours.name}: {ratio:.2f} x the best PyTorch of the same type and cores")


def interval_of_median(ratios, draws=10000):
    """Where the median lies with a confidence of 95 %, by bootstrap."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios)))
                     for _ in range(draws))
    return medians[draws * 25 // 1000], medians[draws * 975 // 1000]


def compare_builds(a, entrants, data):
    """The rounds: tokens/s of each contestant of --build, and of --against."""
    rounds = []
    for i in range(a.rounds):
        row = {c.name: {} for c in entrants}
        for c in entrants:
            for build in ("build", "against") if i % 2 == 0 else ("against", "build"):
                row[c.name][build] = c.tokens_per_s(a, data, getattr(a, build))
        rounds.append(row)
        print(f"# round {i + 1} of {a.rounds} done", flush=True)
    for c in entrants:
        ratios = [row[c.name]["build"] / row[c.name]["against"] for row in rounds]
        low, high = interval_of_median(ratios)
        print(f"{c.name:44} {statistics.median(ratios):6.4f} x the speed of {a.against}, "
              f"95 % in {low:.4f} to {high:.4f}")
    return rounds


def compare_programs(a, entrants, data):
    """The rounds: tokens/s of each contestant, and the peak of the machine."""
    rounds = []
    for i in range(a.rounds):
        row = {f"peak {n}": peak(a.build, n) for n in sorted({1, a.ranks})}
        row |= {c.name: c.tokens_per_s(a, data) for c in entrants}
        rounds.append(row)
        print(f"# round {i + 1} of {a.rounds} done", flush=True)
    report(rounds, entrants)
    return rounds


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    p.add_argument("--peers", type=pathlib.Path, default=ROOT / "build/peers")
    p.add_argument("--against", type=pathlib.Path, help="another build directory")
    p.add_argument("--ranks", type=int, default=min(len(os.sched_getaffinity(0)), BATCH),
                   help="besides one rank; at most 8")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=15)
    p.add_argument("--micro-batch", type=int, default=BATCH)
    p.add_argument("--json", type=pathlib.Path)
    a = p.parse_args()
    if not 1 <= a.ranks <= BATCH or BATCH % a.ranks != 0:
        p.error(f"--ranks {a.ranks}: 1, 2, 4 or 8, since they share a global batch of {BATCH}")
    entrants = contestants(a.ranks, not a.against and (a.peers / "bin/python").exists())
    with corpus(a.build) as data:
        rounds = (compare_builds if a.against else compare_programs)(a, entrants, data)
    if a.json:
        a.json.write_text(json.dumps(rounds, indent=1))


if __name__ == "__main__":
    main()
