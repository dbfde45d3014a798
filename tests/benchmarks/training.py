#!/usr/bin/env python3
"""Training speed of the benchmark model (issue-sized GPT: 6 layers, 6 heads, width 384, sequence 256, global batch 8, bytes,
fp32, AdamW), as a share of the FMA peak measured in the same run, beside PyTorch where tests/benchmarks/peers/install was run.

Each round runs every contestant once, one after the other, so that a noisy machine hits all alike; figures are medians over
rounds, ratios are medians of per-round ratios.

usage: tests/benchmarks/training.py [--build build/release] [--peers build/peers] [--rounds 3] [--steps 15] [--json FILE]
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAYERS, HEADS, WIDTH, SEQUENCE, BATCH, VOCAB = 6, 6, 384, 256, 8, 256
PARAMETERS = VOCAB * WIDTH + SEQUENCE * WIDTH + LAYERS * (12 * WIDTH**2 + 13 * WIDTH) + 2 * WIDTH
FLOPS_PER_TOKEN = 6 * PARAMETERS + 12 * LAYERS * WIDTH * SEQUENCE
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]


def run(command, environment=None):
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(environment or {})})
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def peak(build, cores):
    """Sum over `cores` processes at once, in FLOP/s."""
    jobs = [subprocess.Popen([build / "bin/fma_peak"], stdout=subprocess.PIPE, text=True) for _ in range(cores)]
    return sum(json.loads(job.communicate()[0])["fma_peak_gflops"] for job in jobs) * 1e9


def trireme(build, data, ranks, steps, extra):
    with tempfile.TemporaryDirectory() as folder:
        metrics = pathlib.Path(folder) / "metrics.jsonl"
        program = [build / "bin/train_gpt", "--data-path", data, "--num-layers", LAYERS, "--num-attention-heads", HEADS,
                   "--hidden-size", WIDTH, "--seq-length", SEQUENCE, "--global-batch-size", BATCH, "--micro-batch-size",
                   str(max(1, BATCH // ranks)), "--train-iters", steps, "--log-interval", "1", "--metrics", metrics, *extra]
        run([*(MPIRUN + ["-np", str(ranks)] if ranks > 1 else []), *map(str, program)])
        rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    return BATCH * SEQUENCE * 1e3 / statistics.median(r["step_ms"] for r in rows[3:] if "step_ms" in r)


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
    p.add_argument("--json", type=pathlib.Path)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder) / "text.txt"
        text.write_bytes(b"".join(sorted(f.read_bytes() for f in pathlib.Path("/usr/share/common-licenses").iterdir() if f.is_file())))
        data = pathlib.Path(folder) / "corpus"
        run([a.build / "bin/trireme", "data", "prepare", "--input", text, "--output", data])
        contestants = {
            "trireme, 1 rank": (1, lambda: trireme(a.build, data, 1, a.steps, [])),
            "trireme, 4 ranks (data 4)": (4, lambda: trireme(a.build, data, 4, a.steps, [])),
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
    print(f"# {PARAMETERS} parameters, {FLOPS_PER_TOKEN / 1e6:.2f} MFLOP per token; FMA peak, 1 core: "
          f"{statistics.median(r['peak 1'] for r in rounds) / 1e9:.0f}, 4 cores: {statistics.median(r['peak 4'] for r in rounds) / 1e9:.0f} GFLOP/s")
    print(f"{'contestant':40} {'tokens/s':>10} {'of peak':>8}")
    for name, (cores, _) in contestants.items():
        share = statistics.median(r[name] * FLOPS_PER_TOKEN / r[f"peak {cores}"] for r in rounds)
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
