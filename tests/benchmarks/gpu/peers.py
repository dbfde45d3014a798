"""PyTorch beside trireme, in its forms; and tokens for training."""
import array
import random
import struct

from programs import HERE, Failed, json_lines, run
from results import spread

# part: what pytorch_model.py is given. bf16 weights have no fp32 masters: faster, another result.
PYTORCH = {
    "pytorch": [],
    "pytorch-compiled": ["--compile"],
    "pytorch-bf16": ["--weights", "bf16"],
    "pytorch-bf16-compiled": ["--compile", "--weights", "bf16"],
}
COMPILED = "compiled by block, and the head with its loss"
FORM = {"pytorch": "eager, autocast", "pytorch-compiled": f"{COMPILED}, autocast",
        "pytorch-bf16": "eager, bf16 weights", "pytorch-bf16-compiled": f"{COMPILED}, bf16 weights"}


def form_of(name):
    """Of a record's name: a part, or PART-BACKEND where one attention was forced; else None."""
    if name in FORM:
        return FORM[name]
    part, _, backend = name.rpartition("-")
    return f"{FORM[part]}, {backend} attention" if part in FORM and backend != "short" else None


def pytorch(python, s, part, limit_s, sequence=None):
    """Step times of a form of PyTorch, and which attention it ran. `sequence`: of one short
    sequence."""
    short = ["--sequence", sequence, "--micro-batch", 1] if sequence else \
        ["--sequence", s.sequence, "--micro-batch", s.micro_batch]
    command = [python, HERE / "pytorch_model.py", s.name, *short, "--micro-batches",
               s.micro_batches, "--steps", s.steps, "--layers", s.layers, "--vocab",
               s.model.vocab, "--device", s.pytorch_device, "--sdpa", s.sdpa, *PYTORCH[part]]
    found = last_line(command, limit_s)
    host = spread(found.pop("host_times_ms"))["median"]
    times = spread(found.pop("times_ms"))
    return {"step_ms": times["median"], "steps": times, "host_ms": host, **found}


def last_line(command, limit_s):
    """The last result. A program that fails behind its first has measured all steps: then why it
    failed is why the attention is not known."""
    try:
        lines = json_lines(run(command, limit_s=limit_s))
    except Failed as failure:
        if not failure.lines:
            raise
        last = failure.lines[-1]
        return last | {"attention": last["attention"] | {"reason": str(failure)}}
    if not lines:
        raise Failed(f"{' '.join(map(str, command))} printed no result")
    return lines[-1]


def attention(python, shapes, device, limit_s, partial):
    """Rows of attention.py for shapes "BATCH SEQUENCE QUERY_HEADS KV_HEADS HEAD_DIM"."""
    rows = []

    def keep(line):
        rows.extend(json_lines(line))
        partial({"rows": rows})

    run([python, HERE / "attention.py", "--device", device], "\n".join(shapes), limit_s,
        on_line=keep)
    return {"rows": rows}


def write_tokens(prefix, vocab, count):
    """A token file (docs/reference/data_formats.md) of one document; every token is as likely as
    any other."""
    generator = random.Random(1)
    with open(f"{prefix}.bin", "wb") as out:
        array.array("i", (generator.randrange(vocab) for _ in range(count))).tofile(out)
    with open(f"{prefix}.idx", "wb") as index:
        index.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, 1, 2))
        index.write(struct.pack("<iqqq", count, 0, 0, 1))
