#!/usr/bin/env python3
"""Training speed on one GPU in bf16: trireme beside PyTorch and llm.c, and beside the floor of this
GPU (floor.py).

Parts (default: all; --part chooses, separate commands with one FILE add up):
  products               each matrix product alone, trireme's attention, a copy: the floor's parts
  trireme                with --gemm-cache, without it, and with one sequence of 64 tokens
  profile                one step of trireme, op by op (train_gpt --profile-ops): the largest rows,
                         and what exceeds the prediction of predict.py the most
  attention              PyTorch's attention, each backend apart: the floor takes the best
  pytorch                eager, autocast over fp32 weights; and with one sequence of 64 tokens
  pytorch-compiled       each block compiled, and the head with its loss; autocast over fp32 weights
  pytorch-bf16           eager, bf16 weights
  pytorch-bf16-compiled  compiled in the same way, bf16 weights
  llmc                   llm.c, where --llmc gives its sources: builds a copy, for CUDA 13

Step times are the median of the steps after a warm-up of 5 (of at least 5), with the least, the
most and the interquartile range. Memory is what nvidia-smi sees of each program, at its peak.
"host" is the time until a step is launched: of PyTorch by the clock, of trireme by the step of 64
tokens, which launching dominates. A part that fails or exceeds --limit-s is recorded with its
reason, and the others are measured all the same.

usage: tests/benchmarks/gpu/training.py [--model NAME]... [--part PART]... [--json FILE]
       [--limit-s S] [--build DIR | --installation DIR] [--python FILE | --without-pytorch]
       [--llmc DIR] [--again]
exit status: 0, or 1 where something of trireme's failed
"""
import argparse
import dataclasses
import json
import pathlib
import sys
import tempfile

import llmc
import peers
from floor import floor, jobs_text, shape_of
from machine import Machine, device_name
from models import MICRO_BATCH, MODELS
from profiled import print_profile
from programs import Programs, add_arguments, end_with_programs, json_lines
from results import LEAST_STEPS, Results, spread
from table import print_table, summary

SHORT_SEQUENCE = 64
LM_HEAD_CHUNKS = 8  # all logits at once are the largest tensor of the small models
PARTS = ("products", "trireme", "profile", "attention", *peers.PYTORCH, "llmc")
OURS = ("products", "trireme", "profile")


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
    sdpa: str = "default"
    vocab: int | None = None  # None: the model's

    @property
    def model(self):
        return dataclasses.replace(MODELS[self.name], sequence=self.sequence, layers=self.layers,
                                   vocab=self.vocab or MODELS[self.name].vocab)

    @property
    def tokens(self):
        return self.micro_batch * self.micro_batches * self.sequence

    @property
    def short_sequence(self):
        return min(self.sequence, SHORT_SEQUENCE)

    @property
    def profiled_step(self):
        return min(10, self.steps)


class Training:
    """The parts of one model: each a method that adds records MODEL/NAME to the results."""

    def __init__(self, s, a, programs, results, folder):
        self.s, self.a, self.programs, self.results, self.folder = s, a, programs, results, folder

    def keep(self, name, take, **more):
        """Measures under this name. A record counts for the same settings only."""
        settings = dataclasses.asdict(self.s) | {"sdpa": None} | more
        return self.results.measure(f"{self.s.name}/{name}", settings, take, name.startswith(OURS))

    def run(self, part):
        if part in peers.PYTORCH:
            self.pytorch(part)
        else:
            getattr(self, part)()

    def products(self):
        rows = []

        def take(partial):
            def line(text):
                rows.extend(json_lines(text))
                partial({"rows": rows})

            self.programs.run("gpu_products_benchmark", *self.gemm_cache(),
                              text=jobs_text(self.s.model, self.s.micro_batch), on_line=line)
            return {"rows": rows}

        self.keep("products", take)

    def trireme(self):
        short = dataclasses.replace(self.s, sequence=self.s.short_sequence, micro_batch=1)
        self.keep("trireme", lambda _: self.train(self.s, cache=True))
        self.keep("trireme-no-cache", lambda _: self.train(self.s, cache=False))
        self.keep("trireme-short", lambda _: self.train(short, cache=True), sequence=short.sequence)

    def profile(self):
        file = self.folder / "profile.json"

        def take(_):
            file.unlink(missing_ok=True)
            found = self.train(self.s, True, "--profile-ops", file, "--profile-step",
                               self.s.profiled_step)
            return {"profile": json.loads(file.read_text()), "steps": found["steps"]}

        self.keep("profile", take)

    def attention(self):
        shapes = [shape_of(self.s.model, self.s.micro_batch)]
        self.keep("attention", lambda partial: peers.attention(
            self.a.python, shapes, self.s.pytorch_device, self.a.limit_s, partial))

    def pytorch(self, part):
        def measure(sequence=None):
            return peers.pytorch(self.a.python, self.s, part, self.a.limit_s, sequence)

        sdpa = self.s.sdpa
        if sdpa != "default":
            self.keep(f"{part}-{sdpa}", lambda _: measure(), sdpa=sdpa)
            return
        self.keep(part, lambda _: measure(), sdpa=sdpa)
        if part == "pytorch":
            short = self.s.short_sequence
            self.keep("pytorch-short", lambda _: measure(short), sdpa=sdpa, sequence=short)

    def llmc(self):
        if not self.a.llmc:
            self.results.leave_out(f"{self.s.name}/llmc",
                                   "not given: --llmc DIR, the sources of llm.c")
        else:
            self.keep("llmc", lambda _: llmc.measure(self.a.llmc, self.s, self.folder,
                                                     self.a.limit_s))

    def gemm_cache(self):
        folder = self.a.gemm_cache or self.folder / "gemm"
        folder.mkdir(parents=True, exist_ok=True)
        return [folder]

    def train(self, s, cache, *options):
        """Step times in ms, from the metrics of train_gpt."""
        data, metrics = self.folder / s.name, self.folder / "metrics.jsonl"
        metrics.unlink(missing_ok=True)
        if not data.with_suffix(".idx").exists():
            peers.write_tokens(data, s.model.vocab, 2**20)
        on_gpu = ["--bf16"] if s.device == "cuda" else []
        if cache and s.device == "cuda":
            on_gpu += ["--gemm-cache", *self.gemm_cache()]
        self.programs.run(
            "train_gpt", "--data-path", data, "--split", "1,0,0", "--model", s.name, "--num-layers",
            s.layers, "--seq-length", s.sequence, "--micro-batch-size", s.micro_batch,
            "--vocab-size", s.model.vocab,
            "--global-batch-size", s.micro_batch * s.micro_batches, "--train-iters", s.steps,
            "--lm-head-chunks", LM_HEAD_CHUNKS, "--device", s.device, *on_gpu, "--log-interval", 1,
            "--metrics", metrics, *options)
        rows = [json.loads(line) for line in metrics.read_text().splitlines()]
        times = spread([row["step_ms"] for row in rows])
        return {"step_ms": times["median"], "steps": times, "loss": rows[-1]["loss"]}


def measured_of(results, name):
    """{sub-measurement: record} of a model, in the order of the parts."""
    found = {key.split("/", 1)[1]: record for key, record in results.content["measured"].items()
             if key.startswith(f"{name}/")}
    place = lambda key: max(i for i, part in enumerate(PARTS) if key.startswith(part))
    return {key: found[key] for key in sorted(found, key=place)}


def conclude(results, s, device, parts):
    """Floor and summary of a model into the file, from what was measured; prints the table, and the
    profile if it is of `parts`."""
    measured = measured_of(results, s.name)
    products = results.get(f"{s.name}/products")
    if products:
        attention = measured.get("attention", {}).get("rows", [])  # those before a failure, too
        results.content.setdefault("floor", {})[s.name] = floor(
            s.model, s.micro_batch, s.micro_batches, products["rows"], attention)
    found = results.content.get("floor", {}).get(s.name)
    print_table(s, measured, found, device)
    results.content.setdefault("summaries", {})[s.name] = f"{s.name}: {summary(measured, found)}"
    together = "; ".join(results.content["summaries"].values())
    results.content |= {"summary": together, "device": device}
    results.write()
    profile = results.get(f"{s.name}/profile") if "profile" in parts else None
    if profile:
        print_profile(profile, f"{s.name}/profile")
    print(f"# {results.content['summaries'][s.name]}", flush=True)


def settings(a, name):
    return Settings(name, a.micro_batch or MICRO_BATCH[name], a.micro_batches, a.steps, a.sequence,
                    a.layers or MODELS[name].layers, a.device, a.pytorch_device or a.device, a.sdpa,
                    a.vocab)


def parse():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(p)
    p.add_argument("--model", action="append", choices=MODELS, help="default: all")
    p.add_argument("--part", action="append", choices=PARTS, help="default: all")
    p.add_argument("--micro-batch", type=int, help="sequences (default: what fits in 80 GB)")
    p.add_argument("--micro-batches", type=int, default=1, help="a step")
    p.add_argument("--steps", type=int, default=20, help="the first 5 are left out (default 20)")
    p.add_argument("--sequence", type=int, default=1024)
    p.add_argument("--layers", type=int, help="fewer, for a trial")
    p.add_argument("--vocab", type=int, help="fewer tokens, for a trial")
    p.add_argument("--device", choices=("cuda", "cpu"), default="cuda",
                   help="cpu: a trial without a GPU")
    p.add_argument("--pytorch-device", choices=("cuda", "cpu"),
                   help="default: the same; cpu beside trireme on the emulated module")
    p.add_argument("--python", default=sys.executable, help="a Python that has PyTorch")
    p.add_argument("--without-pytorch", action="store_true", help="leave its parts out")
    p.add_argument("--sdpa", choices=("default", "cudnn", "flash", "efficient", "math"),
                   default="default", help="the only attention that PyTorch may take")
    p.add_argument("--llmc", type=pathlib.Path, metavar="DIR", help="the sources of llm.c")
    p.add_argument("--gemm-cache", type=pathlib.Path, metavar="DIR",
                   help="keep the choices of matrix products there for the next command")
    a = p.parse_args()
    if a.steps <= LEAST_STEPS:
        p.error(f"--steps {a.steps}: at least {LEAST_STEPS + 1}, of which {LEAST_STEPS} count")
    if a.llmc and not a.llmc.is_dir():
        p.error(f"--llmc {a.llmc}: there is no such directory")
    return a


def main():
    a = parse()
    end_with_programs()
    without = {"attention", *peers.PYTORCH} if a.without_pytorch else set()
    parts = [part for part in PARTS if (not a.part or part in a.part) and part not in without]
    programs = Programs(a)
    results = Results(a.json, Machine(programs), a.again)
    device, names = device_name(), a.model or list(MODELS)
    for name in names:
        s = settings(a, name)
        with tempfile.TemporaryDirectory() as folder:
            training = Training(s, a, programs, results, pathlib.Path(folder))
            for part in parts:
                training.run(part)
        conclude(results, s, device, parts)
    ours = tuple(part for part in OURS if part in parts)  # not what an earlier command left
    records = [record for name in names for part, record in measured_of(results, name).items()
               if part.startswith(ours)]
    return int(any(record["status"] != "measured" for record in records))


if __name__ == "__main__":
    sys.exit(main())
