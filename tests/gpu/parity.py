"""Short trainings and what must agree between them: losses, gradients of step 1, parameters at the
end."""
import array
import dataclasses
import json
import math
import pathlib

from work import Failed

MODELS = {
    "gpt2": ["--model", "gpt2-124m", "--vocab-size", 256],
    "llama": ["--model", "llama-1b", "--vocab-size", 256, "--num-query-groups", 2],
}


@dataclasses.dataclass
class Size:
    """Of the trainings: `whole` keeps a GPU busy for seconds, `small` is for the host emulation."""
    layers: int
    width: int
    heads: int
    sequence: int
    steps: int
    batch: int = 8
    micro_batch: int = 1

    def options(self):
        return ["--num-layers", self.layers, "--hidden-size", self.width,
                "--ffn-hidden-size", 4 * self.width, "--num-attention-heads", self.heads,
                "--seq-length", self.sequence, "--global-batch-size", self.batch,
                "--micro-batch-size", self.micro_batch, "--train-iters", self.steps,
                "--lr", "1e-3", "--lr-warmup-iters", 2, "--log-interval", 1]


SIZES = {"whole": Size(layers=4, width=256, heads=4, sequence=256, steps=20),
         "small": Size(layers=4, width=32, heads=4, sequence=16, steps=3)}


@dataclasses.dataclass
class Training:
    losses: list
    norms: list
    bits: list
    folder: pathlib.Path

    def tensors(self, which):
        """{name: values} of "gradients" (of step 1) or "parameters" (at the end)."""
        data = array.array("f", (self.folder / f"tensors.{which}.f32").read_bytes())
        found = {}
        for line in (self.folder / f"tensors.{which}.index").read_text().splitlines():
            name, dims, offset = line.split()
            begin = int(offset) // data.itemsize
            found[name] = data[begin:begin + math.prod(int(d) for d in dims.split("x") if d != "-")]
        return found


def prepare_corpus(installation, work, output):
    """A few hundred thousand bytes of text, always the same."""
    corpus = output / "corpus"
    if not corpus.with_suffix(".idx").exists():
        text = output / "corpus.txt"
        words = ("the oars pull together and ship moves against wind "
                 "with every stroke of three banks").split()
        state = 1
        with open(text, "w") as file:
            for _ in range(60000):
                state = (state * 1103515245 + 12345) % 2**31
                word = words[state >> 16 & 15 if state >> 16 & 15 < len(words) else 0]
                file.write(word + (".\n" if state >> 20 & 15 == 0 else " "))
        command = installation.command("trireme", "data", "prepare", "--input", text,
                                       "--output", corpus)
        work.run(command, installation.environment())
    return corpus


def train(installation, work, output, name, options, ranks=1, environment=None,
          limit_s=None):
    """Trains and reads what it left in OUTPUT/trainings/NAME."""
    folder = output / "trainings" / name
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    corpus = prepare_corpus(installation, work, output)
    command = installation.command("train_gpt", "--data-path", corpus, *options,
                                   "--metrics", folder / "metrics.jsonl",
                                   "--dump-tensors", folder / "tensors", ranks=ranks)
    work.run(command, installation.environment(environment), limit_s)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    if any(row["loss"] is None or row["skipped"] for row in rows):
        raise Failed(f"{name}: a loss is not finite")
    return Training(*([row[key] for row in rows] for key in ("loss", "grad_norm", "loss_bits")),
                    folder)


FIRST_STEPS = 5  # of a training on two devices: AdamW has not made steps out of noise yet


@dataclasses.dataclass
class Difference:
    """Of two trainings, measured as the tests of layouts do on CPUs (tests/support/training_run.h).
    Key biases are excepted: softmax does not see them, so their true gradient is zero, what is
    computed is noise, and AdamW turns noise into steps."""
    losses: list           # of each step, relative
    grad_norm: float       # largest of any step, relative
    gradient: tuple        # (largest distance over norm, tensor) of step 1
    parameter: tuple       # (largest absolute difference, tensor) at the end

    @property
    def loss(self):
        """Largest of the first steps."""
        return largest(self.losses[:FIRST_STEPS])

    @property
    def late_loss(self):
        """Largest of the steps behind them; 0 without any."""
        return largest(self.losses[FIRST_STEPS:])

    def __str__(self):
        late = f" and then {self.late_loss:.1e}" if len(self.losses) > FIRST_STEPS else ""
        return (f"loss {self.loss:.1e}{late}, norm {self.grad_norm:.1e}, "
                f"gradients {self.gradient[0]:.1e}, parameters {self.parameter[0]:.1e}")

    def require_below(self, limit):
        require_below("the loss", self.loss, limit.loss)
        require_below(f"after step {FIRST_STEPS} the loss", self.late_loss, limit.late_loss)
        require_below("the norm of all gradients", self.grad_norm, limit.grad_norm)
        require_below(f"in step 1 the gradient of {self.gradient[1]}", self.gradient[0],
                      limit.gradient)
        require_below(f"the parameter {self.parameter[1]}", self.parameter[0], limit.parameter)


@dataclasses.dataclass
class Limit:
    loss: float
    late_loss: float
    grad_norm: float
    gradient: float
    parameter: float


# Layouts on the emulation, whose sums are a CPU's: the bands of the tests of layouts.
LAYOUTS_AGREE = Limit(2e-7, 2e-7, grad_norm=1e-5, gradient=1e-5, parameter=3e-5)
# Layouts on a GPU: each has products of other sizes, for which cuBLASLt takes other kernels (split
# along k or not), so fp32 sums differ by some 1e-7 from step 1 on; AdamW then makes steps of that.
LAYOUTS_AGREE_ON_A_GPU = dataclasses.replace(LAYOUTS_AGREE, loss=2e-6, late_loss=2e-6)
# A GPU and the CPU: in AdamW's first steps an element moves by lr in the direction of its
# gradient's sign; where the gradient is noise, either way. That is seen in the loss after some
# steps, and in parameters at once (so they have no bound). Step 1's gradients do not depend on it.
DEVICES_AGREE = Limit(1e-5, late_loss=1e-4, grad_norm=1e-4, gradient=1e-5, parameter=math.inf)


def largest(values):
    """NaN where one is NaN."""
    return max(values, key=lambda x: math.inf if math.isnan(x) else x, default=0.0)


def relative(ours, theirs):
    """Of each step."""
    if len(ours) != len(theirs):
        raise Failed(f"{len(ours)} steps against {len(theirs)}")
    return [abs(x - y) / abs(y) for x, y in zip(ours, theirs)]


def norm(values):
    return math.sqrt(math.fsum(x * x for x in values))


def worst_tensor(a, b, which, measure):
    """(largest measure(difference, values), name)"""
    ours, theirs = a.tensors(which), b.tensors(which)
    if ours.keys() != theirs.keys():
        raise Failed(f"not the same {which}: {sorted(ours.keys() ^ theirs.keys())[:5]}")
    return max((measure([x - y for x, y in zip(ours[name], values)], values), name)
               for name, values in theirs.items() if not name.endswith("key.bias"))


def difference(a, b):
    return Difference(relative(a.losses, b.losses), largest(relative(a.norms, b.norms)),
                      worst_tensor(a, b, "gradients",
                                   lambda apart, values: norm(apart) / (norm(values) or 1.0)),
                      worst_tensor(a, b, "parameters", lambda apart, _: max(map(abs, apart))))


def require_same_bits(a, b):
    for step, (x, y) in enumerate(zip(a.bits, b.bits), 1):
        if x != y:
            raise Failed(f"two runs differ from step {step} on: loss {x} and {y}")
    for which in ("gradients", "parameters"):
        file = f"tensors.{which}.f32"
        if (a.folder / file).read_bytes() != (b.folder / file).read_bytes():
            raise Failed(f"two runs have other {which}: {difference(a, b)}")


def require_below(what, value, bound):
    if not value <= bound:  # NaN too
        raise Failed(f"{what} differs by {value:.2e}, more than {bound:.0e}")
