#!/usr/bin/env python3
"""Training speed on one GPU in bf16: trireme beside PyTorch (eager and compiled, each with the attention that it picks), and beside the floor
of this GPU: every matrix product and attention alone, and the bytes of everything else at copy bandwidth, all in the same run.

Step times are medians after the first steps. Memory is what nvidia-smi sees of each program, at its peak. "host" is the time until a step is
launched: of PyTorch by the clock, of trireme by the step time of the same model with sequences of 64 tokens, which launching dominates; so is eager PyTorch's
beside it (to compile once more would take minutes). Where PyTorch fails, what is left is printed all the same, and why.

usage: tests/benchmarks/gpu/training.py [--model NAME]... [--build DIR | --installation DIR] [--python FILE | --without-pytorch] [--json FILE]
"""
import argparse
import array
import dataclasses
import json
import pathlib
import random
import statistics
import struct
import sys
import tempfile

from models import MICRO_BATCH, MODELS, peak_tflops
from programs import MemoryWatch, Programs, add_arguments, device_name, json_lines, run

HERE = pathlib.Path(__file__).resolve().parent
SHORT_SEQUENCE = 64
LM_HEAD_CHUNKS = 8  # all logits at once are the largest tensor of the small models


@dataclasses.dataclass
class Settings:
    name: str
    micro_batch: int
    micro_batches: int
    steps: int
    sequence: int
    layers: int
    device: str
    pytorch_device: str

    @property
    def model(self):
        return dataclasses.replace(MODELS[self.name], sequence=self.sequence, layers=self.layers)

    @property
    def tokens(self):
        return self.micro_batch * self.micro_batches * self.sequence


def write_tokens(prefix, vocab, count):
    """A token file (docs/data_formats.md) of one document; every token is as likely as any other, as PyTorch's are."""
    generator = random.Random(1)
    array.array("i", (generator.randrange(vocab) for _ in range(count))).tofile(open(f"{prefix}.bin", "wb"))
    with open(f"{prefix}.idx", "wb") as index:
        index.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, 1, 2) + struct.pack("<iqqq", count, 0, 0, 1))


def trireme(programs, s, folder, steps=None):
    """Step times in ms, from its metrics."""
    data, metrics = folder / s.name, folder / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    if not data.with_suffix(".idx").exists():
        write_tokens(data, s.model.vocab, 2**20)
    on_gpu = ["--bf16", "--gemm-cache", folder / "gemm"] if s.device == "cuda" else []
    programs.run("train_gpt", "--data-path", data, "--split", "1,0,0", "--model", s.name, "--num-layers", s.layers, "--seq-length", s.sequence,
                 "--micro-batch-size", s.micro_batch, "--global-batch-size", s.micro_batch * s.micro_batches, "--train-iters", steps or s.steps,
                 "--lm-head-chunks", LM_HEAD_CHUNKS, "--device", s.device, *on_gpu, "--log-interval", 1, "--metrics", metrics)
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    return [row["step_ms"] for row in rows], rows[-1]["loss"]


def measure_trireme(programs, s, folder):
    with MemoryWatch() as memory:
        times, loss = trireme(programs, s, folder)
    short, _ = trireme(programs, dataclasses.replace(s, sequence=min(s.sequence, SHORT_SEQUENCE), micro_batch=1), folder)
    median = lambda ms: statistics.median(ms[min(5, len(ms) // 2):])
    return {"step_ms": median(times), "short_step_ms": median(short), "loss": loss, "peak_mib": memory.peak_mib}


def measure_pytorch(python, s, compiled):
    def one(sequence, micro_batch):
        command = [python, HERE / "pytorch_model.py", s.name, "--micro-batch", micro_batch, "--micro-batches", s.micro_batches, "--steps", s.steps,
                   "--sequence", sequence, "--layers", s.layers, "--device", s.pytorch_device, *(["--compile"] if compiled else [])]
        return json_lines(run(command))[-1]

    with MemoryWatch() as memory:
        result = one(s.sequence, s.micro_batch)
    short = None if compiled else one(min(s.sequence, SHORT_SEQUENCE), 1)["step_ms"]
    return result | {"short_step_ms": short, "peak_mib": memory.peak_mib}


def measure_floor(programs, s, folder):
    """ms of a step if nothing but the unavoidable took time, by part. Products are the fastest of cuBLASLt's, as training takes them."""
    m = s.model
    jobs = m.product_jobs(s.micro_batch)
    lines = json_lines(programs.run("gpu_products_benchmark", folder / "gemm", text="\n".join([line for line, _ in jobs] + ["copy 536870912"])))
    ms = {line["job"]: line["ms"] for line in lines}
    bandwidth = lines[-1]["gb_per_s"] * 1e6  # bytes a ms
    parts = {what: s.micro_batches * sum(times * ms[line] for line, times in jobs if line.startswith(what)) for what in ("gemm", "attention")}
    parts["other kernels"] = s.micro_batches * m.micro_batch_bytes(s.micro_batch) / bandwidth
    parts["update"] = m.update_bytes() / bandwidth
    return {"step_ms": sum(parts.values()), "parts_ms": parts, "jobs": lines}


def measure(programs, python, s):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        results = {"floor": measure_floor(programs, s, folder), "trireme": measure_trireme(programs, s, folder)}
    for name, compiled in (("PyTorch", False), ("PyTorch compiled", True)):
        if python:
            try:
                results[name] = measure_pytorch(python, s, compiled)
            except SystemExit as failure:
                results[name] = {"failed": str(failure)}
    return results


def print_table(s, results, device):
    peak, flops = peak_tflops(device), s.model.flops_per_token()
    print(f"# {s.name}: {s.model.parameters() / 1e6:.1f} M parameters, {s.micro_batches} x {s.micro_batch} sequences of {s.sequence}, {device}")
    print(f"# FLOP a token, 'palm' (6 N + 12 layers width sequence): {flops['palm'] / 1e9:.3f} G; 'causal' (products, half of the scores): "
          f"{flops['causal'] / 1e9:.3f} G; peak: {peak or '?'} TFLOP/s")
    print(f"{'':18} {'tokens/s':>9} {'step ms':>9} {'of floor':>8} {'MFU palm':>9} {'causal':>7} {'MiB':>7} {'host ms':>8} {'64 tokens':>9}")
    floor = results["floor"]["step_ms"]
    for name, result in results.items():
        if "failed" in result:
            print(f"{name:18} failed: {result['failed'].splitlines()[-1]}")
            continue
        rate = s.tokens / result["step_ms"] * 1e3
        mfu = [f"{rate * flops[which] / peak / 1e12:.1%}" if peak else "-" for which in ("palm", "causal")]
        show = lambda key, form: format(result[key], form) if result.get(key) is not None else "-"
        print(f"{name:18} {rate:9.0f} {result['step_ms']:9.2f} {floor / result['step_ms']:8.1%} {mfu[0]:>9} {mfu[1]:>7} {show('peak_mib', 'd'):>7} "
              f"{show('host_ms', '.2f'):>8} {show('short_step_ms', '.2f'):>9}")
    print("# floor: " + ", ".join(f"{part} {ms:.2f} ms" for part, ms in results["floor"]["parts_ms"].items()))


def summary(results):
    """One line: against the best PyTorch and the floor."""
    ours = results["trireme"]["step_ms"]
    text = f"{results['floor']['step_ms'] / ours:.0%} of the floor"
    theirs = {name: result for name, result in results.items() if name.startswith("PyTorch")}
    times = [result["step_ms"] for result in theirs.values() if "failed" not in result]
    text += f", {min(times) / ours:.2f} x the best PyTorch" if times else ", no PyTorch beside it"
    return text + "".join(f"; {name} failed" for name, result in theirs.items() if "failed" in result)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(p)
    p.add_argument("--model", action="append", choices=MODELS, help="default: all")
    p.add_argument("--micro-batch", type=int, help="sequences (default: as much as fits in 80 GB with room)")
    p.add_argument("--micro-batches", type=int, default=1, help="a step")
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--sequence", type=int, default=1024)
    p.add_argument("--layers", type=int, help="fewer, for a trial")
    p.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: a trial without a GPU")
    p.add_argument("--pytorch-device", choices=("cuda", "cpu"), help="default: the same; cpu beside trireme on the emulated module")
    p.add_argument("--python", default=sys.executable, help="a Python that has PyTorch")
    p.add_argument("--without-pytorch", action="store_true")
    a = p.parse_args()
    if not a.without_pytorch:
        run([a.python, "-c", "import torch"])
    programs, device, all_results, lines = Programs(a), device_name(), {}, []
    for name in a.model or MODELS:
        s = Settings(name, a.micro_batch or MICRO_BATCH[name], a.micro_batches, a.steps, a.sequence, a.layers or MODELS[name].layers, a.device,
                     a.pytorch_device or a.device)
        all_results[name] = measure(programs, None if a.without_pytorch else a.python, s)
        print_table(s, all_results[name], device)
        lines.append(f"{name}: {summary(all_results[name])}")
        print(f"# {lines[-1]}", flush=True)
    if a.json:
        a.json.write_text(json.dumps({"summary": "; ".join(lines), "device": device, "models": all_results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
