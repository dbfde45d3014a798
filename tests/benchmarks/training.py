#!/usr/bin/env python3
"""Training speed of the benchmark model (issue-sized GPT: 6 layers, 6 heads, width 384, sequence 256, global batch 8, bytes,
fp32, AdamW), as a share of the FMA peak measured in the same run, beside PyTorch where tests/benchmarks/peers/install was run.

Each round runs every contestant once, one after the other, so that a noisy machine hits all alike; figures are medians over
rounds, ratios are medians of per-round ratios.

usage: tests/benchmarks/training.py [--build build/release] [--peers build/peers] [--rounds 3] [--steps 15] [--json FILE]
"""
import argparse
import json
import pathlib
import statistics

from runs import BATCH, ROOT, corpus, flops_per_token, parameters, peak, run, tokens_per_s

LAYERS = 6


def pytorch(peers, ranks, threads, steps, compiled):
    script = [str(ROOT / "tests/benchmarks/peers/train_gpt.py"), "--threads", str(threads), "--steps", str(steps)]
    if compiled:
        script.append("--compile")
    start = [str(peers / "bin/python")]
    if ranks > 1:
        start = [str(peers / "bin/torchrun"), "--nproc-per-node", str(ranks)]
    out = run(start + script, {"OMP_NUM_THREADS": str(threads)})
    return json.loads([line for line in out.splitlines() if line.startswith("{")][-1])["tokens_per_s"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    p.add_argument("--peers", type=pathlib.Path, default=ROOT / "build/peers")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=15)
    p.add_argument("--micro-batch", type=int, default=BATCH)
    p.add_argument("--json", type=pathlib.Path)
    a = p.parse_args()
    with corpus(a.build) as data:
        contestants = {
            "trireme, 1 rank": (1, lambda: tokens_per_s(a.build, data, 1, a.steps, micro_batch=a.micro_batch)),
            "trireme, 4 ranks (data 4)": (4, lambda: tokens_per_s(a.build, data, 4, a.steps, micro_batch=min(a.micro_batch, BATCH // 4))),
        }
        if (a.peers / "bin/python").exists():
            contestants["PyTorch, 1 process, 1 thread"] = (1, lambda: pytorch(a.peers, 1, 1, a.steps, False))
            contestants["PyTorch compiled, 1 process, 1 thread"] = (1, lambda: pytorch(a.peers, 1, 1, a.steps, True))
            contestants["PyTorch, 1 process, 4 threads"] = (4, lambda: pytorch(a.peers, 1, 4, a.steps, False))
            contestants["PyTorch compiled, 1 process, 4 threads"] = (4, lambda: pytorch(a.peers, 1, 4, a.steps, True))
            contestants["PyTorch DDP over gloo, 4 processes"] = (4, lambda: pytorch(a.peers, 4, 1, a.steps, False))
        rounds = []
        for i in range(a.rounds):
            row = {"peak 1": peak(a.build, 1), "peak 4": peak(a.build, 4)}
            row |= {name: f() for name, (_, f) in contestants.items()}
            rounds.append(row)
            print(f"# round {i + 1} of {a.rounds} done", flush=True)
    print(f"# {parameters(LAYERS)} parameters, {flops_per_token(LAYERS) / 1e6:.2f} MFLOP per token; FMA peak, 1 core: "
          f"{statistics.median(r['peak 1'] for r in rounds) / 1e9:.0f}, 4 cores: {statistics.median(r['peak 4'] for r in rounds) / 1e9:.0f} GFLOP/s")
    print(f"{'contestant':40} {'tokens/s':>10} {'of peak':>8}")
    for name, (cores, _) in contestants.items():
        share = statistics.median(r[name] * flops_per_token(LAYERS) / r[f"peak {cores}"] for r in rounds)
        print(f"{name:40} {statistics.median(r[name] for r in rounds):10.0f} {share:8.1%}")
    for cores, ours in ((1, "trireme, 1 rank"), (4, "trireme, 4 ranks (data 4)")):
        theirs = [n for n, (c, _) in contestants.items() if c == cores and n.startswith("PyTorch")]
        if theirs:
            ratio = statistics.median(r[ours] / max(r[n] for n in theirs) for r in rounds)
            print(f"# {ours}: {ratio:.2f} x the best PyTorch on {cores} core{'s' if cores > 1 else ''}")
    if a.json:
        a.json.write_text(json.dumps(rounds, indent=1))


if __name__ == "__main__":
    main()
