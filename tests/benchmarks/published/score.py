#!/usr/bin/env python3
"""Compares the planner's times with published training runs (published_layouts.csv).

Each source is left out once: the hardware numbers are fitted to all others, with priors, and the
left-out runs are predicted. Prints a table: median error of each source, and for the groups of
layouts of one model and cluster how much slower the layout that the planner chooses was than the
fastest one. --fit prints the numbers fitted to all sources.

The numbers are those of the hardware (rates of a GPU, latency and share of a link), of how a
framework runs memory-bound work (the column elementwise) and of its attention kernel. No framework
has a factor of its own.
"""
import argparse
import csv
import json
import math
import pathlib
import statistics
import subprocess

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parents[2]

# name: value before any fit, and how far a fit may reasonably move it (as a factor).
PRIORS = {
    "efficiency.H100": (0.70, 1.15),       # large products, share of the data sheet's peak
    "efficiency.A100": (0.84, 1.10),
    "power.500W": (0.85, 1.10),            # of the rate of an H100 of 700 W
    "half_k": (120, 2),                    # K at which a product reaches half of it
    "memory": (0.85, 1.15),                # of the data sheet's bandwidth
    "class.megatron": (1.6, 1.3),          # bytes of memory-bound work beside fused kernels
    "class.compiled": (1.7, 1.3),
    "class.eager, fused norms": (2.5, 1.5),
    "class.eager": (4, 1.5),
    "attention.cudnn": (0.52, 1.2),        # of the peak, forward; H100
    "attention.flash2.H100": (0.38, 1.2),
    "attention.flash2.A100": (0.57, 1.2),
    "attention.triton": (0.40, 1.3),
    "backward": (0.85, 1.2),               # rate of attention's backward beside its forward
    "passes": (8, 1.5),                    # of an unfused attention over its scores, forward
    "link": (0.75, 1.2),                   # of the nominal rate inside a node
    "port": (0.80, 1.2),                   # of the nominal rate between nodes
    "latency_us": (4, 2),                  # of a ring step
    "collective_us": (13, 2),              # of any collective
    "contention": (0.16, 1.5),             # added to work by a second of hidden traffic
    "hidden": (0.86, 1.1),                 # of a framework's window for traffic that it can use
    "host_us": (5, 2),                     # to queue a kernel
    "jitter": (0.011, 2),                  # for each doubling of nodes
}


def number(text, default=0):
    return float(text) if text else default


def read_rows(path):
    with open(path, newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["scored"] == "1"]


def usual_network(row):
    """Gbit/s a GPU, where it is not published: that of the nodes such GPUs are sold in."""
    return 400 if row["gpu"].startswith("H100") else 200


def to_json(row):
    """What the program needs to know of a row; 0 where it is not published."""
    whole = {name: int(number(row[name])) for name in (
        "layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "gpus", "gpus_per_node", "tp",
        "pp", "virtual_stages", "dp", "zero_stage", "seq_length", "micro_batch", "global_batch")}
    return {**whole, "id": row["id"], "gpu": row["gpu"], "mlp": row["mlp"],
            "tied": row["tied_embeddings"] != "0", "recompute": row["recompute"],
            "sequence_parallel": row["sequence_parallel"] == "1",
            "elementwise": row["elementwise"], "attention": row["attention"],
            "peak_tflops": number(row["peak_bf16_tflops"]),
            "network_gb_s": number(row["network_gbit_s_per_gpu"], usual_network(row)) / 8,
            # Megatron-DeepSpeed reduces gradients in fp16, after the last backward.
            "overlaps": "DeepSpeed" not in row["framework"]}


class Planner:
    """The program published_layouts: seconds of a step of each row, for a set of numbers."""

    def __init__(self, build, rows):
        self.rows = rows
        self.process = subprocess.Popen([build / "bin/published_layouts"], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.bytes = self.ask([to_json(row) for row in rows])

    def ask(self, what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"published_layouts ended with {self.process.wait()}")
        return json.loads(line)

    def seconds(self, numbers, positions):
        return self.ask({"numbers": numbers, "runs": positions})

    def errors(self, numbers, positions):
        """log(measured / predicted) of the time of a step: above 0 where we are too fast."""
        return [math.log(step_seconds(self.rows[i]) / s)
                for i, s in zip(positions, self.seconds(numbers, positions))]


def step_seconds(row):
    tokens = number(row["global_batch"]) * number(row["seq_length"])
    return tokens / (number(row["tokens_per_s_per_gpu"]) * number(row["gpus"]))


def loss(planner, positions, numbers):
    """Sources weigh by the root of their size; a wrong row counts little (soft L1)."""
    sizes = {}
    for i in positions:
        source = planner.rows[i]["source"]
        sizes[source] = sizes.get(source, 0) + 1
    total = sum((math.log(numbers[name] / prior) / math.log(far)) ** 2
                for name, (prior, far) in PRIORS.items())
    for i, error in zip(positions, planner.errors(numbers, positions)):
        total += 2 * (math.sqrt(1 + (error / 0.05) ** 2) - 1) / math.sqrt(
            sizes[planner.rows[i]["source"]])
    return total


def sample(rows, without, most):
    """At most so many rows of each source, evenly spaced: neighbours in a table are alike."""
    positions = []
    for source in sorted({row["source"] for row in rows} - {without}):
        of = [i for i, row in enumerate(rows) if row["source"] == source]
        positions += of[::-(-len(of) // most)]
    return positions


def fit(planner, positions, rounds):
    """Coordinate descent on the logarithms of the numbers, from their priors."""
    numbers = {name: value for name, (value, _) in PRIORS.items()}
    best = loss(planner, positions, numbers)
    steps = {name: math.log(far) / 2 for name, (_, far) in PRIORS.items()}
    for _ in range(rounds):
        for name in PRIORS:
            for sign in (1, -1):
                tried = {**numbers, name: numbers[name] * math.exp(sign * steps[name])}
                value = loss(planner, positions, tried)
                if value < best:
                    numbers, best = tried, value
                    break
            else:
                steps[name] /= 2
    return numbers


def median_error(values):
    return statistics.median(abs(math.expm1(-v)) for v in values)


def groups(rows):
    """Layouts of one model on one cluster with one batch: a choice."""
    found = {}
    for i, row in enumerate(rows):
        key = (row["source"], row["model"], row["gpus"], row["global_batch"])
        found.setdefault(key, []).append(i)
    return {key: of for key, of in found.items() if key[0] == "vtrain_multi" and len(of) > 2}


def regret(rows, seconds, of):
    speed = {i: number(rows[i]["tokens_per_s_per_gpu"]) for i in of}
    chosen = min(of, key=lambda i: seconds[i])
    return max(speed.values()) / speed[chosen] - 1


def print_numbers(numbers):
    for name, value in numbers.items():
        print(f"{name:28} {value:8.4g}   before {PRIORS[name][0]:g}")


def print_rows(rows, positions, found):
    for i, error in zip(positions, found):
        row = rows[i]
        print(f"    {row['id']} {row['model']} {row['gpu']} tp {row['tp']} pp {row['pp']} "
              f"dp {row['dp']} mb {row['micro_batch']}: {error:+.1%}")


def print_choices(rows, planner, numbers):
    print("\n| model, GPUs (vtrain_multi, left out) | layouts | regret of the choice |"
          "\n|---|---|---|")
    regrets = []
    for (_, model, gpus, _), of in groups(rows).items():
        seconds = dict(zip(of, planner.seconds(numbers, of)))
        regrets.append(regret(rows, seconds, of))
        print(f"| {model}, {gpus} | {len(of)} | {regrets[-1]:.1%} |")
    print(f"| mean | | {statistics.mean(regrets):.1%} |")


def main():
    options = argparse.ArgumentParser(description=__doc__,
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    options.add_argument("--data", type=pathlib.Path, default=FOLDER / "published_layouts.csv")
    options.add_argument("--rounds", type=int, default=5, help="of coordinate descent")
    options.add_argument("--most", type=int, default=24, help="rows of a source that a fit sees")
    options.add_argument("--fit", action="store_true", help="print the numbers of all sources")
    options.add_argument("--priors", action="store_true", help="fit nothing")
    options.add_argument("--rows", action="store_true", help="print the error of each row")
    chosen = options.parse_args()
    rows = read_rows(chosen.data)
    planner = Planner(chosen.build, rows)

    def numbers_without(source):
        if chosen.priors:
            return {name: value for name, (value, _) in PRIORS.items()}
        return fit(planner, sample(rows, source, chosen.most), chosen.rounds)

    if chosen.fit:
        print_numbers(numbers_without(None))
    medians = []
    print("| source left out | rows | median error | mean bias |\n|---|---|---|---|")
    for source in sorted({row["source"] for row in rows}):
        numbers = numbers_without(source)
        positions = [i for i, row in enumerate(rows) if row["source"] == source]
        found = planner.errors(numbers, positions)
        medians.append(median_error(found))
        print(f"| {source} | {len(found)} | {medians[-1]:.1%} | {statistics.mean(found):+.1%} |",
              flush=True)
        if source == "vtrain_multi":
            chooses_with = numbers
        if chosen.rows:
            print_rows(rows, positions, found)
    print(f"| mean of the medians | | {statistics.mean(medians):.1%} | |")
    print_choices(rows, planner, chooses_with)


if __name__ == "__main__":
    main()
