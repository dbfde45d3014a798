#!/usr/bin/env python3
"""Products and attention, each alone: every matrix product of the three models (forward, gradient
of the input, of the weight), and causal attention at 1024, 2048 and 8192 tokens with heads of 64
and 128, trireme's and, beside it, each backend of PyTorch. The rate of the device is that of a
product of 8192 x 8192 x 8192; shares are of the best product that was measured.

Times are medians of 5 batches of launches after a warm-up, by the host's clock. FILE is written
after every group: rate, each model, attention, attention-pytorch; what it has is not measured
again.

usage: tests/benchmarks/gpu/products.py [--build DIR | --installation DIR] [--json FILE]
       [--limit-s S] [--python FILE | --without-pytorch] [--gemm-cache DIR] [--small] [--again]
exit status: 0, or 1 where something of trireme's failed
"""
import argparse
import dataclasses
import pathlib
import sys
import tempfile

import peers
from machine import Machine, device_name
from models import MICRO_BATCH, MODELS
from programs import Programs, add_arguments, end_with_programs, json_lines
from results import Results

PYTORCH = "attention-pytorch"


def groups(small):
    """{name: jobs of gpu_products_benchmark}, in the order in which they run."""
    side, copied = (64, 65536) if small else (8192, 2**29)
    found = {"rate": [f"gemm forward {side} {side} {side}", f"copy {copied}"]}
    for name, m in MODELS.items():
        batch = 1 if small else MICRO_BATCH[name]
        if small:
            m = dataclasses.replace(m, width=64, heads=2, kv_heads=1 if m.llama else 2, ffn=128,
                                    vocab=256, sequence=32)
        found[name] = [line for line, _ in m.product_jobs(batch) if line.startswith("gemm")]
    found["attention"] = [f"attention {direction} {shape}" for shape in attention_shapes(small)
                          for direction in ("forward", "backward")]
    return found


def attention_shapes(small):
    """BATCH SEQUENCE QUERY_HEADS KV_HEADS HEAD_DIM: 16,384 tokens, 2048 channels, as published
    tables have it; then the shapes of the models."""
    if small:
        return ["1 32 2 2 64", "1 32 2 1 64", "1 32 1 1 128"]
    plain = [f"{16384 // sequence} {sequence} {2048 // dim} {2048 // dim} {dim}"
             for dim in (64, 128) for sequence in (1024, 2048, 8192)]
    return plain + ["32 1024 12 12 64", "8 1024 25 25 64", "8 1024 32 8 64", "1 8192 32 8 64"]


def measure(a, programs, results, cache):
    """Every group into the results; returns whether all of trireme's were measured."""
    whole = True
    for name, jobs in groups(a.small).items():
        def take(partial, jobs=jobs):
            rows = []

            def line(text):
                rows.extend(json_lines(text))
                partial({"rows": rows})

            programs.run("gpu_products_benchmark", cache, text="\n".join(jobs), on_line=line)
            return {"rows": rows}

        record = results.measure(name, {"small": a.small}, take)
        whole = whole and record["status"] == "measured"
    if not a.without_pytorch:
        results.measure(PYTORCH, {"small": a.small, "device": a.pytorch_device},
                        lambda partial: peers.attention(a.python, attention_shapes(a.small),
                                                        a.pytorch_device, a.limit_s, partial),
                        ours=False)
    return whole


def best_rate(measured):
    """TFLOP/s of the fastest product; None where none was measured."""
    return max((row["tflops"] for record in measured.values() for row in record.get("rows", [])
                if row.get("job", "").startswith("gemm")), default=None)


def line(what, row, best):
    if row["ms"] is None:
        return f"{what:58} {row['reason'][:60]}"
    rate = f"{row['tflops']:9.1f} {row['tflops'] / best if best else 0:7.1%}" if "tflops" in row \
        else f"{row['gb_per_s']:9.1f} GB/s"
    return f"{what:58} {row['ms']:10.4f} {row['ms_min']:10.4f} {row['ms_max']:10.4f} {rate}"


def print_table(measured, device):
    best = best_rate(measured)
    print(f"# {device}")
    print(f"{'':58} {'ms':>10} {'least':>10} {'most':>10} {'TFLOP/s':>9} {'of best':>7}")
    for name, record in measured.items():
        if record["status"] != "measured":
            print(f"# {name}: {record['status']}: {record.get('reason', '').strip()}")
        for row in record.get("rows", []):
            what = row.get("job") or f"attention {row['direction']} {row['shape']} {row['backend']}"
            print(line(f"{name + ':':18} {what}", row, best))


def attention_ratio(measured):
    """Median over shapes of trireme's rate, forward and backward, over that of PyTorch's best;
    None."""
    ours, theirs = {}, {}
    for row in measured.get("attention", {}).get("rows", []):
        _, direction, shape = row["job"].split(maxsplit=2)
        ours[direction, shape] = row["ms"]
    for row in measured.get(PYTORCH, {}).get("rows", []):
        key = row["direction"], row["shape"]
        if row["ms"] is not None:
            theirs[key] = min(theirs.get(key, row["ms"]), row["ms"])
    ratios = sorted(theirs[key] / ours[key] for key in ours.keys() & theirs.keys())
    return ratios[len(ratios) // 2] if ratios else None


def summary(measured):
    best, ratio = best_rate(measured), attention_ratio(measured)
    parts = [f"best product {best:.4g} TFLOP/s" if best else "no product measured"]
    parts.append(f"attention at {ratio:.2f} of PyTorch's best (median over shapes)" if ratio
                 else "no attention of PyTorch beside it")
    failed = [name for name, record in measured.items() if record["status"] != "measured"]
    return ", ".join(parts) + "".join(f"; {name} failed" for name in failed)


def parse():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(p)
    p.add_argument("--python", default=sys.executable, help="a Python that has PyTorch")
    p.add_argument("--without-pytorch", action="store_true", help="leave its attention out")
    p.add_argument("--pytorch-device", choices=("cuda", "cpu"), default="cuda")
    p.add_argument("--gemm-cache", type=pathlib.Path, metavar="DIR",
                   help="keep the choices of matrix products there for the next command")
    p.add_argument("--small", action="store_true", help="small shapes, for the host emulation")
    return p.parse_args()


def main():
    a = parse()
    end_with_programs()
    programs, device = Programs(a), device_name()
    results = Results(a.json, Machine(programs), a.again)
    with tempfile.TemporaryDirectory() as folder:
        cache = a.gemm_cache or pathlib.Path(folder)
        cache.mkdir(parents=True, exist_ok=True)
        whole = measure(a, programs, results, cache)
    measured = results.content["measured"]
    print_table(measured, device)
    results.content |= {"summary": summary(measured), "device": device}
    results.write()
    print(f"# {results.content['summary']}")
    return int(not whole)


if __name__ == "__main__":
    sys.exit(main())
