"""The benchmark models in PyTorch, as people write them: autocast to bf16 over fp32 weights (or
bf16 weights), scaled_dot_product_attention, fused AdamW, clipping; eager, or each block compiled,
and the head with its loss (all blocks as one take minutes and gain little). Prints one JSON line:
the time of each step, of its launch, memory, versions; and once more with the attention that ran,
which one step more shows. Started by training.py.

usage: pytorch_model.py MODEL --micro-batch N [--micro-batches N] [--steps N] [--compile]
       [--weights fp32|bf16] [--sdpa default|cudnn|flash|efficient|math] [--sequence N] [--layers N]
       [--vocab N]
"""
import argparse
import contextlib
import dataclasses
import json
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

from models import MODELS
from sdpa import BACKENDS, backend_only, not_known, order, what_ran


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Block(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m
        norm = nn.RMSNorm if m.llama else nn.LayerNorm
        qkv, out, up, down = (nn.Linear(inner, outer, bias=not m.llama)
                              for outer, inner in m.linears())
        self.qkv, self.out, self.up, self.down = qkv, out, up, down
        self.norm1, self.norm2 = norm(m.width, eps=1e-5), norm(m.width, eps=1e-5)

    def attention(self, x, rotary):
        m, (b, t, _) = self.m, x.shape
        q, k, v = self.qkv(x).split([m.width, m.kv_heads * m.head_dim, m.kv_heads * m.head_dim], -1)
        q, k, v = (y.view(b, t, -1, m.head_dim).transpose(1, 2) for y in (q, k, v))
        if rotary is not None:
            q, k = rotate(q, *rotary), rotate(k, *rotary)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                           enable_gqa=m.kv_heads != m.heads)
        return self.out(y.transpose(1, 2).reshape(b, t, m.width))

    def forward(self, x, rotary):
        x = x + self.attention(self.norm1(x), rotary)
        h = self.up(self.norm2(x))
        if self.m.llama:
            gate, up = h.chunk(2, -1)
            return x + self.down(F.silu(gate) * up)
        return x + self.down(F.gelu(h, approximate="tanh"))


class Head(nn.Module):
    """The last norm, the logits and their loss."""

    def __init__(self, m):
        super().__init__()
        self.norm = (nn.RMSNorm if m.llama else nn.LayerNorm)(m.width, eps=1e-5)

    def forward(self, x, table, targets):
        logits = F.linear(self.norm(x), table)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Transformer(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m
        self.tokens = nn.Embedding(m.pytorch_table_rows, m.width)
        self.positions = None if m.llama else nn.Embedding(m.sequence, m.width)
        self.blocks = nn.ModuleList(Block(m) for _ in range(m.layers))
        self.head = Head(m)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
        frequencies = 500000.0 ** (-torch.arange(0, m.head_dim, 2) / m.head_dim)
        angle = torch.outer(torch.arange(m.sequence), frequencies)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, tokens, targets):
        x = self.tokens(tokens)
        if self.positions is not None:
            x = x + self.positions.weight[: tokens.shape[1]]
        rotary = None
        if self.m.llama:
            rotary = (self.cos.to(torch.bfloat16), self.sin.to(torch.bfloat16))
        for block in self.blocks:
            x = block(x, rotary)
        return self.head(x, self.tokens.weight, targets)


def compiled_parts(model):
    """What is compiled, each alone: all but the embedding."""
    return [*model.blocks, model.head]


def one_step(model, optimizer, data, autocast):
    """Launches everything; waits for nothing."""
    for tokens in data:
        with autocast():
            loss = model(tokens[:, :-1], tokens[:, 1:]) / len(data)
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss


def make(a, m):
    """step(), which launches one step and returns its loss."""
    torch.manual_seed(0)
    with torch.device(a.device):  # a CPU takes minutes to draw the weights of the large ones
        model = Transformer(m)
    padding = (m.pytorch_table_rows - m.vocab) * m.width
    count = sum(q.numel() for q in model.parameters()) - padding
    assert count == m.parameters(), "models.py counts other parameters"
    bf16 = a.weights == "bf16"
    if bf16:
        model.to(torch.bfloat16)
    if a.compile:
        for part in compiled_parts(model):
            part.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1,
                                  fused=True)
    data = [torch.randint(0, m.vocab, (a.micro_batch, m.sequence + 1), device=a.device)
            for _ in range(a.micro_batches)]
    autocast = contextlib.nullcontext if bf16 else lambda: torch.autocast(a.device, torch.bfloat16)
    return lambda: one_step(model, optimizer, data, autocast)


def versions():
    cuda = torch.version.cuda is not None
    return {"torch": torch.__version__, "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version() if cuda else None,
            "nccl": list(torch.cuda.nccl.version()) if torch.cuda.is_available() else None}


def measure(a, step, wait):
    times, host = [], []
    for _ in range(a.steps):
        wait()
        start = time.perf_counter()
        loss = step()
        host.append(1e3 * (time.perf_counter() - start))
        wait()
        times.append(1e3 * (time.perf_counter() - start))
    return {"times_ms": times, "host_times_ms": host, "loss": float(loss.detach())}


def attention_of(step, wait):
    """What ran, of one step more; "reason" where a profiler cannot say it."""
    try:
        return what_ran(step, wait)
    except Exception as error:  # the steps are measured
        return not_known(f"{type(error).__name__}: {error}")


def show(result, attention):
    print(json.dumps(result | {"attention": attention}), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", choices=MODELS)
    p.add_argument("--micro-batch", type=int, required=True)
    p.add_argument("--micro-batches", type=int, default=1)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--sequence", type=int, default=1024)
    p.add_argument("--layers", type=int, help="fewer, to try this on a CPU")
    p.add_argument("--vocab", type=int, help="fewer tokens, for the same")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--weights", choices=("fp32", "bf16"), default="fp32")
    p.add_argument("--sdpa", choices=("default", *BACKENDS), default="default")
    p.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    a = p.parse_args()
    m = dataclasses.replace(MODELS[a.model], sequence=a.sequence,
                            layers=a.layers or MODELS[a.model].layers,
                            vocab=a.vocab or MODELS[a.model].vocab)
    wait = torch.cuda.synchronize if a.device == "cuda" else lambda: None
    step = make(a, m)
    with backend_only(a.sdpa):
        result = measure(a, step, wait) | {
            "versions": versions(), "sdpa": a.sdpa, "sdpa_order": order(), "weights": a.weights,
            "compiled": a.compile}
        if a.device == "cuda":
            result |= {"allocated_mib": torch.cuda.max_memory_allocated() / 2**20,
                       "reserved_mib": torch.cuda.max_memory_reserved() / 2**20}
        show(result, not_known("the program ended before"))
        show(result, attention_of(step, wait))


if __name__ == "__main__":
    main()
