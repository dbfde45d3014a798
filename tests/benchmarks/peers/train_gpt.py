"""The model of tests/benchmarks/training.py in PyTorch: the same shapes, fp32 or bf16 autocast,
AdamW, synthetic bytes; 1 process or DDP over gloo.

Prints one JSON line: tokens_per_s (median over steps, whole job), loss of the last step. Started by
tests/benchmarks/training.py; by hand: python train_gpt.py --threads 4 [--compile], or
torchrun --nproc-per-node 4 train_gpt.py --threads 1.
"""
import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocab, width, layers, heads, sequence):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Embedding(sequence, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.tokens.weight
        for p in self.parameters():
            nn.init.normal_(p, std=0.02) if p.dim() > 1 else None

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--layers", type=int, default=6)
    p.add_argument("--heads", type=int, default=6)
    p.add_argument("--width", type=int, default=384)
    p.add_argument("--sequence", type=int, default=256)
    p.add_argument("--global-batch", type=int, default=8)
    p.add_argument("--vocab", type=int, default=256)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--compile", action="store_true")
    p.add_argument("--bf16", action="store_true", help="autocast: fp32 weights, products in bf16")
    a = p.parse_args()
    world = int(os.environ.get("WORLD_SIZE", "1"))
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    model = Gpt(a.vocab, a.width, a.layers, a.heads, a.sequence)
    if world > 1:
        dist.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    run = torch.compile(model) if a.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=True)
    batch = a.global_batch // world
    times, loss = [], None
    for step in range(a.steps):
        tokens = torch.randint(0, a.vocab, (batch, a.sequence + 1))
        if world > 1:
            dist.barrier()
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=a.bf16):
            loss = run(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        if world > 1:
            dist.barrier()
        times.append(time.perf_counter() - start)
    if world == 1 or dist.get_rank() == 0:
        seconds = statistics.median(times[3:])
        print(json.dumps({"tokens_per_s": a.global_batch * a.sequence / seconds,
                          "loss": float(loss), "torch": torch.__version__}))
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
