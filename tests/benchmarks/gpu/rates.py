"""Rates that predict.py computes times with. All are estimates; no GPU has run trireme. Sources:
cards by their data sheets; products by llm.c's published 139 ms for 65,536 tokens on 8 H100 and
LLM.Q's implied 577 to 664 TFLOP/s; attention by the charts of arXiv 2407.08608 and cuDNN's
published H200 results, ours by counting the instructions that nvcc 13.0 makes for sm_90;
memory-bound kernels by their access."""
import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Card:
    name: str
    copy_tb_s: float  # bytes read and written by a device copy, 0.896 of the data sheet


CARDS = {"H200": Card("H200", 4.3), "H100": Card("H100", 3.0)}

PRODUCT_TFLOPS = {"gpt2-124m": 545, "gpt2-1558m": 590, "llama-1b": 620}  # by width: tails, power

# Share of a copy that a kernel reaches.
OF_COPY = {"map": 0.85, "norm backward": 0.70, "bias gradient": 0.62, "delta": 0.55,
           "cross-entropy": 0.78, "GELU beside a product": 0.90, "update": 0.90,
           "gradient norm": 0.77, "zero": 0.96}

SLABS_US = 4.0  # what a norm's backward adds up its partial sums in
GAP_US = 1.0    # between two kernels of a stream that both are queued

# {head dim: {sequence: TFLOP/s (forward, backward)}}, causal FLOPs, backward 2.5 x forward.
ATTENTION = {
    "trireme": {64: {1024: (200, 140), 2048: (230, 170), 8192: (265, 205)},
                128: {2048: (250, 165), 8192: (290, 190)}},
    "cudnn": {64: {1024: (285, 245), 2048: (334, 285), 8192: (375, 330)},
              128: {2048: (484, 370), 8192: (644, 541)}},
}


def attention_tflops(whose, head_dim, sequence, backward):
    """Between the lengths of the table, linear in the logarithm of the length; beyond them, the
    end's."""
    table = ATTENTION[whose][head_dim]
    lengths = sorted(table)
    low = max((t for t in lengths if t <= sequence), default=lengths[0])
    high = min((t for t in lengths if t >= sequence), default=lengths[-1])
    a, b = table[low][backward], table[high][backward]
    if low == high or sequence <= low or sequence >= high:
        return a if sequence <= low else b
    return a + (b - a) * math.log(sequence / low) / math.log(high / low)


# What follows is for this card.
ESTIMATED_ON = "H200"

# What is predicted of others, ms a step. torch.compile: the whole model, autocast over fp32
# weights, cuDNN's attention; llm.c: -ge 2, cuDNN, deterministic. By hand, launch by
# launch, with such rates.
PEERS_STEP_MS = {
    ("gpt2-124m", 32, 1024): {"torch.compile": 67.7, "llm.c": 63.6},
    ("gpt2-1558m", 8, 1024): {"torch.compile": 192.0, "llm.c": 180.0},
    ("llama-1b", 8, 1024): {"torch.compile": 136.0},
    ("llama-1b", 1, 8192): {"torch.compile": 174.0},
}
PEERS_LAYER_MS = {("gpt2-124m", 32, 1024): {"torch.compile": 4.11, "llm.c": 3.84}}

# trireme's own launches, counted by hand: what the count of the plan is held against.
BY_HAND_STEP_MS = {("gpt2-124m", 32, 1024): 70.2, ("gpt2-1558m", 8, 1024): 193.0,
                   ("llama-1b", 8, 1024): 137.0, ("llama-1b", 1, 8192): 195.0}
BY_HAND_LAYER_US = {("gpt2-124m", 32, 1024): {
    "products": 638 + 213 + 851 + 851, "GELU beside a product": 52 + 52, "attention forward": 258,
    "attention backward": 920, "delta": 43, "norms forward": 27 + 55, "norms backward": 134 + 8,
    "residual": 41, "bias gradients": 170}}
