#!/usr/bin/env python3
"""PyTorch's attention, each backend apart: forward and backward of causal
scaled_dot_product_attention in bf16 on queries, keys and values that lie packed side by side, as a
product with their weights leaves them. Reads one shape a line, writes one JSON line for each
backend and direction: {shape, backend, direction, ms, ms_min, ms_max, tflops, batches}, or {...,
reason} where the backend refuses the shape. Host clock over batches of launches, as
gpu_products_benchmark takes its times: a warm-up, then the median batch.

usage: attention.py [--device cuda|cpu] [--backend NAME]... < SHAPES
       a shape: BATCH SEQUENCE QUERY_HEADS KV_HEADS HEAD_DIM
"""
import argparse
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F

from sdpa import BACKENDS, backend_only

BATCH_S, BATCHES, MOST = 0.03, 5, 500


def packed(shape, device):
    """(q, k, v) as views (batch, heads, sequence, dim) of one leaf tensor, and that."""
    b, t, heads, kv_heads, dim = shape
    generator = torch.Generator(device).manual_seed(0)
    qkv = torch.randn(b, t, (heads + 2 * kv_heads) * dim, dtype=torch.bfloat16, device=device,
                      generator=generator).requires_grad_()
    parts = qkv.split([heads * dim, kv_heads * dim, kv_heads * dim], -1)
    return [part.view(b, t, -1, dim).transpose(1, 2) for part in parts], qkv


def seconds(launch, wait):
    """(median, least, most) of one launch, over BATCHES batches, after a warm-up of two
    launches."""
    def batch(count):
        wait()
        start = time.perf_counter()
        for _ in range(count):
            launch()
        wait()
        return (time.perf_counter() - start) / count

    batch(1)
    count = min(max(int(BATCH_S / max(batch(1), 1e-7)), 1), MOST)
    times = [batch(count) for _ in range(BATCHES)]
    return statistics.median(times), min(times), max(times)


def measure(shape, device):
    """{direction: (median, least, most)} with the backend that is chosen."""
    (q, k, v), _ = packed(shape, device)
    grouped = q.shape[1] != k.shape[1]
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    run = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
    with torch.no_grad():
        forward = seconds(run, wait)
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))  # the strides of the packed ones
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
    dy = torch.randn_like(y)
    backward = seconds(lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True), wait)
    return {"forward": forward, "backward": backward}


def flops(shape, direction):
    """Two products over half of the scores; backward has five."""
    b, t, heads, _, dim = shape
    return (1 if direction == "forward" else 2.5) * 2 * b * t * t * heads * dim


def rows(shape, backend, device):
    head = {"shape": " ".join(map(str, shape)), "backend": backend}
    try:
        with backend_only(backend):
            found = measure(shape, device)
    except RuntimeError as error:  # not for this shape, this GPU, this build; or no memory
        for direction in ("forward", "backward"):
            yield {**head, "direction": direction, "ms": None, "reason": str(error).splitlines()[0]}
        return
    for direction, (median, least, most) in found.items():
        yield {**head, "direction": direction, "ms": 1e3 * median, "ms_min": 1e3 * least,
               "ms_max": 1e3 * most, "batches": BATCHES,
               "tflops": flops(shape, direction) / median * 1e-12}


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    p.add_argument("--backend", action="append", choices=BACKENDS, help="default: all")
    a = p.parse_args()
    for line in filter(str.strip, sys.stdin):
        shape = tuple(map(int, line.split()))
        for backend in a.backend or BACKENDS:
            for row in rows(shape, backend, a.device):
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
