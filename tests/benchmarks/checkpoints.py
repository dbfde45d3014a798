#!/usr/bin/env python3
"""Checkpoints: stall, write and read rates beside memcpy, fio and PyTorch, and what saving costs
training.

A state of at least --bytes (parameters and two moments, fp32) on 1 and 4 ranks, saved every
--interval steps and not at all, by turns; then loaded with verification. Steps beside a save whose
disk takes nothing, and before it. fio (O_DIRECT, the same size, a new file each time) runs in the
same minute where it is installed, PyTorch where tests/benchmarks/peers/install put it.

usage: tests/benchmarks/checkpoints.py [--build build/release] [--peers build/peers]
       [--directory DIR] [--rounds 3] [--json FILE]
"""
import argparse
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
import time

from runs import ROOT, corpus, run

WIDTH, VOCAB, SEQUENCE, BATCH = 768, 50257, 128, 4


def layers_for(state_bytes):
    """The fewest layers whose parameters and moments take `state_bytes`."""
    outside = VOCAB * WIDTH + SEQUENCE * WIDTH + 2 * WIDTH
    return -(-(state_bytes // 12 - outside) // (12 * WIDTH**2 + 13 * WIDTH))


def step_times(metrics):
    """Milliseconds of each step in a metrics file; none where there is no such file yet."""
    if not metrics.exists():
        return []
    return [json.loads(line)["step_ms"] for line in metrics.read_text().splitlines()]


def train(build, data, ranks, layers, steps, extra):
    """The output of one job, and the time of each step in ms."""
    with tempfile.TemporaryDirectory() as folder:
        metrics = pathlib.Path(folder) / "metrics.jsonl"
        mpirun = []
        if ranks > 1:
            mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", ranks]
        output = run(list(map(str, [
            *mpirun, build / "bin/train_gpt", "--data-path", data, "--model", "gpt2-124m",
            "--num-layers", layers, "--vocab-size", VOCAB, "--seq-length", SEQUENCE,
            "--max-position-embeddings", SEQUENCE, "--global-batch-size", BATCH,
            "--micro-batch-size", 1, "--use-distributed-optimizer", "--train-iters", steps,
            "--log-interval", steps, "--metrics", metrics, *extra])))
        return output, step_times(metrics)


def beside_a_save(build, data, folder, ranks, interval):
    """Median time of steps while a save waits for its disk / of those before it, in one job of
    small steps: what a save costs besides its copy."""
    hold, save, metrics = (pathlib.Path(folder) / name for name in ("hold", "held", "held.jsonl"))
    hold.touch()
    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", ranks] if ranks > 1 else []
    job = subprocess.Popen(list(map(str, [
        *mpirun, "env", f"TRIREME_SHIM_ROOT={save}", f"TRIREME_SHIM_FAULT=hold={hold}",
        f"LD_PRELOAD={build.resolve()}/lib/libio_shim.so", build / "bin/train_gpt",
        "--data-path", data, "--model", "tiny", "--global-batch-size", BATCH,
        "--train-iters", 2 * interval, "--save", save, "--save-interval", interval,
        "--metrics", metrics])), stdout=subprocess.DEVNULL)
    steps = []
    # The last save waits for the one that is held.
    while len(steps) < 2 * interval and job.poll() is None:
        time.sleep(0.1)
        steps = step_times(metrics)
    hold.unlink()
    if job.wait() != 0:
        raise SystemExit(f"a job with a held save ended with {job.returncode}")
    shutil.rmtree(save)
    metrics.unlink()
    before = statistics.median(steps[interval // 10:interval])
    return statistics.median(steps[interval + 1:]) / before


def fio(directory, state_bytes, ranks, mode):
    """MiB/s of `ranks` processes together, or None without fio."""
    if not shutil.which("fio"):
        return None
    each = state_bytes // ranks // 2**20
    done = run(["fio", "--name=trireme", f"--directory={directory}", f"--rw={mode}", "--bs=8M",
                "--direct=1", "--ioengine=libaio", "--iodepth=8", f"--size={each}M",
                f"--numjobs={ranks}", "--group_reporting", "--end_fsync=1",
                "--output-format=json"])
    return json.loads(done[done.index("{"):])["jobs"][0][mode]["bw_bytes"] / 2**20


def numbers(pattern, output):
    """The groups of every match, as numbers."""
    return [[float(x) for x in match] for match in re.findall(pattern, output)]


def snapshots(build, folder, state_bytes, ranks):
    """The store alone, without training: `ranks` processes of bin/snapshot at once, each with its
    share of the state."""
    jobs = []
    for rank in range(ranks):
        own = pathlib.Path(folder) / f"snapshot{rank}"
        own.mkdir(exist_ok=True)
        command = [build / "bin/snapshot", own, str(state_bytes // ranks // 2**20), "1", "5"]
        jobs.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    medians = [job.communicate()[0].split("# medians")[1].split()[:6] for job in jobs]
    rows = [[float(x) for x in row] for row in medians]
    memcpy, stall, ratio, _, write, read = zip(*rows)
    return {"memcpy ms": max(memcpy), "stall ms": max(stall), "stall / memcpy": max(ratio),
            "write MiB/s": sum(write), "read MiB/s": sum(read)}


def measure(a, folder, data, ranks, layers):
    """One round: everything once, close together in time."""
    row = {"ranks": ranks, "fio write MiB/s": fio(folder, a.bytes, ranks, "write"),
           "fio read MiB/s": fio(folder, a.bytes, ranks, "read")}
    for file in pathlib.Path(folder).glob("trireme*"):
        file.unlink()
    row["store alone"] = snapshots(a.build, folder, a.bytes, ranks)
    steps = 2 * a.interval + 5
    save = pathlib.Path(folder) / "checkpoints"
    output, with_saves = train(a.build, data, ranks, layers, steps,
                               ["--save", save, "--save-interval", a.interval, "--keep-last", 1])
    saved = numbers(r"saved step \d+: stall ([\d.]+) ms \(copy ([\d.]+) GB/s\), "
                    r"write ([\d.]+) GB/s, ([\d.]+) \w+ over \d+ ranks?, "
                    r"durable after ([\d.]+) s", output)
    _, without = train(a.build, data, ranks, layers, steps, [])
    output, _ = train(a.build, data, ranks, layers, steps, ["--load", save])
    loaded = numbers(r"read in ([\d.]+) ms, ([\d.]+) GB/s", output)
    shutil.rmtree(save)
    stalls = sum(s[0] for s in saved[:2])  # the two saves within the steps that are compared
    row["training"] = {
        "stall ms": statistics.median(s[0] for s in saved),
        "write GB/s": statistics.median(s[2] for s in saved),
        "durable after s": statistics.median(s[4] for s in saved),
        "load GB/s": loaded[-1][1] if loaded else None,
        "step ms": statistics.median(without),
        "steps with saves / without": (sum(with_saves[2:]) + stalls) / sum(without[2:])}
    row["steps beside a held save / before it"] = beside_a_save(a.build, data, folder, ranks, 200)
    if (a.peers / "bin/python").exists():
        peer = ROOT / "tests/benchmarks/peers/checkpoint.py"
        done = subprocess.run(
            [a.peers / "bin/python", "-m", "torch.distributed.run", "--nproc-per-node", str(ranks),
             peer, "--bytes", str(a.bytes), "--directory", folder],
            capture_output=True, text=True, check=True)
        row["PyTorch"] = json.loads(re.search(r"^\{.*\}$", done.stdout, re.M).group())
    return row


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    p.add_argument("--peers", type=pathlib.Path, default=ROOT / "build/peers")
    p.add_argument("--directory", type=pathlib.Path, default=ROOT / "build")
    p.add_argument("--bytes", type=int, default=3 * 2**29)
    p.add_argument("--interval", type=int, default=10)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--ranks", type=int, nargs="+", default=[1, 4])
    p.add_argument("--json", type=pathlib.Path)
    a = p.parse_args()
    layers = layers_for(a.bytes)
    rows = []
    with corpus(a.build) as data, tempfile.TemporaryDirectory(dir=a.directory) as folder:
        for ranks in a.ranks:
            for i in range(a.rounds):
                rows.append(measure(a, folder, data, ranks, layers))
                print(f"# {ranks} ranks, round {i + 1} of {a.rounds}:", json.dumps(rows[-1]),
                      flush=True)
    if a.json:
        a.json.write_text(json.dumps({"layers": layers, "rounds": rows}, indent=1))


if __name__ == "__main__":
    main()
