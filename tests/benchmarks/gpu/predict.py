#!/usr/bin/env python3
"""What a step should take on an H200 or H100, op by op: counts of the plan (gpu_step_counts) at the
rates of rates.py. An estimate, for hardware to be held against; beside it what is estimated of
torch.compile and llm.c, and what was counted by hand. With --measured, the profile of training.py
stands beside it, op by op, and the largest gap is named: the next gain.

usage: tests/benchmarks/gpu/predict.py [--counts FILE]... [--launches FILE]... [--card H200|H100]
       [--build DIR | --installation DIR] [--measured FILE] [--json FILE]
  --counts FILE    output of gpu_step_counts; default: runs it for GPT-2 124M 32x1024, 1558M 8x1024,
                   Llama 1B 8x1024 and 1x8192
  --launches FILE  a profile (train_gpt --profile-ops) on the host emulation, of few layers:
                   operations by op, for the gaps between kernels; one for each kind of model
"""
import argparse
import dataclasses
import json
import pathlib
import sys

from models import MODELS
from programs import Failed, Programs, add_source, positive
from rates import (BY_HAND_LAYER_US, BY_HAND_STEP_MS, CARDS, GAP_US, OF_COPY, PEERS_LAYER_MS,
                   PEERS_STEP_MS, PRODUCT_TFLOPS, SLABS_US, Card, attention_tflops)
from results import write_json

CASES = (("gpt2-124m", 32, 1024), ("gpt2-1558m", 8, 1024), ("llama-1b", 8, 1024),
         ("llama-1b", 1, 8192))  # model, micro-batch, sequence
PRODUCTS = ("linear", "linear_gelu", "gelu_linear")
NORMS = ("layer_norm", "rms_norm", "add_layer_norm", "add_rms_norm")
STEP_KERNELS = {"update": "update", "gradient_norm": "gradient norm", "zero": "zero",
                "zero_gradients": "zero"}
HALF = 2  # bytes of bf16


@dataclasses.dataclass
class Case:
    """A step of a model, as gpu_step_counts (or a profile) has it."""
    model: str
    micro_batch: int
    sequence: int
    micro_batches: int
    rows: list

    @property
    def key(self):
        return self.model, self.micro_batch, self.sequence

    @property
    def m(self):
        return dataclasses.replace(MODELS[self.model], sequence=self.sequence)

    @property
    def tokens(self):
        return self.micro_batch * self.sequence * self.micro_batches

    def activations(self, channels):
        """Bytes of as many channels of every token of the step, in bf16."""
        return self.tokens * channels * HALF


def case_of(found, source):
    """From the object of gpu_step_counts or of train_gpt --profile-ops; `source` is for errors."""
    try:
        case = Case(*(found[field.name] for field in dataclasses.fields(Case)))
    except (KeyError, TypeError) as error:
        raise SystemExit(f"{source}: not the counts of a step: {error!r}") from None
    if case.model not in MODELS:
        raise SystemExit(f"{source}: model '{case.model}' is not one of {', '.join(MODELS)}")
    return case


def read_case(file):
    try:
        return case_of(json.loads(file.read_text()), file)
    except (OSError, ValueError) as error:
        raise SystemExit(f"{file}: not the counts of a step: {error}") from None


@dataclasses.dataclass
class Part:
    """Of the time of a row: what takes it."""
    group: str
    ms: float


@dataclasses.dataclass
class Prediction:
    """Times of the rows of a case on a card."""
    case: Case
    card: Card
    launches: dict = dataclasses.field(default_factory=dict)  # {(op, phase): operations of a call}
    whose_attention: str = "trireme"                          # or "cudnn", which makes delta itself

    def at_copy(self, group, size, kernel):
        return Part(group, size / (self.card.copy_tb_s * OF_COPY[kernel]) * 1e-9)

    def at_rate(self, group, flops, tflops):
        return Part(group, flops / tflops * 1e-9)

    def parts(self, row):
        """What the time of a row is made of."""
        op, backward = row["op"], row["phase"] == "backward"
        if row["phase"] == "step":
            return [self.step_part(row)]
        if op in PRODUCTS:
            return self.products(row, backward)
        if op == "causal_attention":
            return self.attention(row, backward)
        if op == "linear_cross_entropy":
            return self.head(row)
        if op in NORMS and backward:
            slabs = Part("norms backward", row["calls"] * SLABS_US * 1e-3)
            return [self.at_copy("norms backward", row["bytes"], "norm backward"), slabs]
        group = "norms forward" if op in NORMS else "residual" if op == "add" else "other ops"
        return [self.at_copy(group, row["bytes"], "map")]

    def products(self, row, backward):
        m, layers = self.case.m, self.case.m.layers
        parts = [self.at_rate("products", row["flops"], PRODUCT_TFLOPS[self.case.model])]
        if row["op"] == ("gelu_linear" if backward else "linear_gelu"):  # what GELU had, beside it
            size = layers * self.case.activations(m.ffn)
            parts.append(self.at_copy("GELU beside a product", size, "GELU beside a product"))
        if backward and not m.llama:  # a kernel of its own reads the gradient once more
            out = {"linear": m.linears()[0][0] + m.linears()[1][0], "linear_gelu": m.ffn,
                   "gelu_linear": m.width}[row["op"]]
            size = layers * self.case.activations(out)
            parts.append(self.at_copy("bias gradients", size, "bias gradient"))
        return parts

    def attention(self, row, backward):
        m = self.case.m
        rate = attention_tflops(self.whose_attention, m.head_dim, m.sequence, backward)
        product = self.at_rate(f"attention {row['phase']}", row["flops"], rate)
        if not backward or self.whose_attention != "trireme":
            return [product]
        delta = m.layers * self.case.activations(2 * m.width)  # reads the output and its gradient
        return [product, self.at_copy("delta", delta, "delta")]

    def head(self, row):
        """Logits are read twice and written once beside their products."""
        logits = self.case.activations(self.case.m.table_rows)
        return [self.at_rate("head products", row["flops"], PRODUCT_TFLOPS[self.case.model]),
                self.at_copy("cross-entropy", 3 * logits, "cross-entropy")]

    def step_part(self, row):
        kernel = STEP_KERNELS.get(row["op"])
        return self.at_copy(kernel or "other ops", row["bytes"], kernel or "map")

    def gap_ms(self, row):
        """Between the kernels of a row; 0 where nobody counted them."""
        return row["calls"] * self.launches.get((row["op"], row["phase"]), 0) * GAP_US * 1e-3

    def row_ms(self, row):
        return sum(part.ms for part in self.parts(row)) + self.gap_ms(row)

    def step(self):
        """{group: ms} of a step, the gaps too."""
        groups = {}
        for row in self.case.rows:
            for part in self.parts(row):
                groups[part.group] = groups.get(part.group, 0.0) + part.ms
        groups["gaps"] = sum(map(self.gap_ms, self.case.rows))
        return groups

    def layer(self):
        """{group: us} of one layer: of every op as many calls as each layer has."""
        layers, groups = self.case.m.layers * self.case.micro_batches, {}
        for row in self.case.rows:
            calls = row["calls"] // layers if row["phase"] != "step" else 0
            for part in self.parts(row) if calls else []:
                us = part.ms * 1e3 / row["calls"] * calls
                groups[part.group] = groups.get(part.group, 0.0) + us
        return groups


def operations_of(profile):
    """{(op, phase): operations of a call}"""
    return {(row["op"], row["phase"]): row["operations"] / row["calls"] for row in profile.rows
            if row.get("operations") is not None and row["calls"]}


def compare(prediction, measured):
    """Rows of a measured profile beside the prediction, the largest gap first; without a time
    none."""
    times = {(row["op"], row["phase"]): row["ms"] for row in measured.rows if row["ms"] is not None}
    found = []
    for row in prediction.case.rows:
        predicted, ms = prediction.row_ms(row), times.get((row["op"], row["phase"]))
        if ms is not None:
            found.append({"op": row["op"], "phase": row["phase"], "predicted_ms": predicted,
                          "ms": ms, "ratio": ms / predicted if predicted else None,
                          "gap_ms": ms - predicted})
    return sorted(found, key=lambda row: -row["gap_ms"])


def measured_profiles(file):
    """{case key: (Case, name of the GPU)} of the profiles in a file of training.py."""
    try:
        records = json.loads(file.read_text())["measured"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SystemExit(f"--measured {file}: not a file of training.py: {error}") from None
    found = {}
    for name, record in records.items():
        if name.endswith("/profile") and record["status"] == "measured":
            case = case_of(record["profile"], f"--measured {file}: {name}")
            found[case.key] = case, record["machine"]["gpu"]["name"] or "emulated"
    if not found:
        raise SystemExit(f"--measured {file}: it has no profile: training.py --part profile")
    return found


def card_of(measured):
    """Name of the card that was measured; the first where it is another one, or none."""
    devices = [device for _, device in measured.values()]
    return next((name for name in CARDS if any(name in device for device in devices)),
                next(iter(CARDS)))


def result_of(prediction):
    """The prediction of a case, as --json has it."""
    case, step = prediction.case, prediction.step()
    with_cudnn = dataclasses.replace(prediction, whose_attention="cudnn").step()
    ms, estimates = sum(step.values()), {
        "by_hand_ms": BY_HAND_STEP_MS.get(case.key), "peers_ms": PEERS_STEP_MS.get(case.key, {}),
        "by_hand_layer_us": BY_HAND_LAYER_US.get(case.key),
        "peers_layer_ms": PEERS_LAYER_MS.get(case.key, {})}
    return {"model": case.model, "micro_batch": case.micro_batch, "sequence": case.sequence,
            "micro_batches": case.micro_batches, "step_ms": ms,
            "tokens_per_s": case.tokens / ms * 1e3, "step": step, "layer_us": prediction.layer(),
            "with_cudnn_attention_ms": sum(with_cudnn.values()), **estimates}


def print_case(result, card):
    print(f"# {result['model']}, {result['micro_batches']} x {result['micro_batch']} sequences of "
          f"{result['sequence']}, {card.name}: predicted, not measured")
    by_hand = result["by_hand_layer_us"] or {}
    print(f"{'':24} {'step ms':>9} {'share':>7} {'layer us':>9} {'by hand':>9}")
    for group, ms in sorted(result["step"].items(), key=lambda item: -item[1]):
        layer = result["layer_us"].get(group)
        print(f"{group:24} {ms:9.2f} {ms / result['step_ms']:7.1%} {show(layer)} "
              f"{show(by_hand.get(group))}")
    whole = sum(result["layer_us"].values())
    print(f"{'sum':24} {result['step_ms']:9.2f} {'':7} {show(whole)} "
          f"{show(sum(by_hand.values()) or None)}")
    for name, ms in result["peers_layer_ms"].items():
        print(f"{name + ' (estimated)':24} {'':17} {ms * 1e3:9.0f}")
    print(f"# {result['tokens_per_s']:.0f} tokens/s; with cuDNN's attention "
          f"{result['with_cudnn_attention_ms']:.1f} ms" + beside(result))


def show(us):
    return f"{us:9.0f}" if us is not None else f"{'-':>9}"


def beside(result):
    """What is estimated of others for the same step, on an H200."""
    texts = [f"; {name} (estimated, H200) {ms:.1f} ms, {ms / result['step_ms']:.2f} x ours"
             for name, ms in result["peers_ms"].items()]
    if result["by_hand_ms"]:
        texts.append(f"; ours counted by hand (H200) {result['by_hand_ms']:.1f} ms")
    return "".join(texts)


def print_comparison(rows, device):
    print(f"# measured on {device}, beside the prediction")
    print(f"{'op':24} {'phase':9} {'predicted':>10} {'measured':>10} {'ratio':>7} {'gap ms':>9}")
    for row in rows:
        ratio = f"{row['ratio']:7.2f}" if row["ratio"] else f"{'-':>7}"
        print(f"{row['op']:24} {row['phase']:9} {row['predicted_ms']:10.3f} {row['ms']:10.3f} "
              f"{ratio} {row['gap_ms']:9.3f}")
    if rows and rows[0]["gap_ms"] > 0:
        worst = rows[0]
        print(f"# next gain: {worst['op']} {worst['phase']}, {worst['gap_ms']:.2f} ms more than "
              "predicted")
    else:
        print("# next gain: none; nothing takes longer than predicted")


def count_cases(a):
    """Runs gpu_step_counts, as training.py trains."""
    programs = Programs(a)
    for model, micro_batch, sequence in CASES:
        yield case_of(json.loads(programs.run(
            "gpu_step_counts", "--model", model, "--micro-batch-size", micro_batch,
            "--global-batch-size", micro_batch, "--seq-length", sequence, "--bf16",
            "--lm-head-chunks", 8)), "gpu_step_counts")


def launches_of(files):
    """{is it a Llama: {(op, phase): operations of a call}} of profiles on the emulation."""
    profiles = [read_case(file) for file in files]
    return {profile.m.llama: operations_of(profile) for profile in profiles}


def parse():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    add_source(p)
    p.add_argument("--counts", type=pathlib.Path, action="append", metavar="FILE")
    p.add_argument("--launches", type=pathlib.Path, action="append", default=[], metavar="FILE")
    p.add_argument("--card", choices=CARDS, help="default: the one of --measured, else H200")
    p.add_argument("--measured", type=pathlib.Path, metavar="FILE", help="results of training.py")
    p.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the prediction there")
    p.add_argument("--limit-s", type=positive, default=120.0, metavar="S",
                   help="for gpu_step_counts (default 120)")
    return p.parse_args()


def main():
    a = parse()
    launches = launches_of(a.launches)
    measured = measured_profiles(a.measured) if a.measured else {}
    card = CARDS[a.card or card_of(measured)]
    try:
        cases = [read_case(file) for file in a.counts] if a.counts else list(count_cases(a))
    except Failed as failure:
        raise SystemExit(f"predict.py: {failure}") from None
    results = []
    for case in cases:
        prediction = Prediction(case, card, launches.get(case.m.llama, {}))
        results.append(result_of(prediction))
        print_case(results[-1], card)
        if case.key in measured:
            profile, device = measured[case.key]
            results[-1]["measured"] = compare(prediction, profile)
            print_comparison(results[-1]["measured"], device)
    if a.json:
        write_json(a.json, {"card": card.name, "gaps": bool(launches), "cases": results})


if __name__ == "__main__":
    main()
