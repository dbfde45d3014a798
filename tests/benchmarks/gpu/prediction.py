"""The time of a step from the counts of its plan: a Case is what gpu_step_counts or a profile says,
a Prediction turns its rows into times at the rates of rates.py."""
import dataclasses
import json

from models import MODELS
from rates import GAP_US, OF_COPY, PRODUCT_TFLOPS, SLABS_US, Card, attention_tflops

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
        """The model, with as many layers as have attention here."""
        calls = sum(row["calls"] for row in self.rows
                    if (row["op"], row["phase"]) == ("causal_attention", "forward"))
        return dataclasses.replace(MODELS[self.model], sequence=self.sequence,
                                   layers=calls // self.micro_batches or MODELS[self.model].layers)

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
        group = "norms forward" if op in NORMS else "residual" if op == "add" else op
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
        """Between the kernels of a row; 0 where they were not counted."""
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
