#!/usr/bin/env python3
"""Compares the planner's times with published training runs (published_layouts.csv).

Each source is left out once: the hardware numbers are fitted to all others, with priors, and the
left-out runs are predicted. Prints a table: median error of each source, and for all groups of
layouts of one model, cluster, batch and program how much slower the layout that the planner chooses
was than the fastest one. --fit prints the numbers fitted to all sources.

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
            "overlaps": "DeepSpeed" not in row["framework"],
            # Both Megatrons do; with sequence parallelism any rank has a part only.
            "splits_messages": ("Megatron" in row["framework"]
                                and row["sequence_parallel"] != "1"),
            "gathers_beside_forward": "overlap-param-gather" in row["notes"],
            # nanotron (tp_recompute_allgather) and torchtitan's selective recomputation of ops do
            # not keep what sequence parallelism gathers.
            "gathers_again": (row["sequence_parallel"] == "1" and
                              ("nanotron" in row["framework"]
                               or row["recompute"] == "selective_op"))}


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


def numbers_at(place):
    """`place`: how far each number is from its prior, as a multiple of how far it may be."""
    return {name: prior * far ** at for (name, (prior, far)), at in zip(PRIORS.items(), place)}


def weights_of(rows, positions):
    """Sources weigh by the root of their size."""
    sizes = {}
    for i in positions:
        sizes[rows[i]["source"]] = sizes.get(rows[i]["source"], 0) + 1
    return [1 / math.sqrt(sizes[rows[i]["source"]]) for i in positions]


LARGE = 0.05  # an error above it counts less and less (soft L1): the row may be wrong


def loss(place, errors, weights):
    return sum(at ** 2 for at in place) + sum(
        2 * (math.sqrt(1 + (e / LARGE) ** 2) - 1) * w for e, w in zip(errors, weights))


def solve(matrix, right):
    """Gauss' elimination; the matrix is symmetric and positive."""
    rows = [line[:] + [value] for line, value in zip(matrix, right)]
    for i, pivot in enumerate(rows):
        for line in rows[i + 1:]:
            factor = line[i] / pivot[i]
            line[i:] = [a - factor * b for a, b in zip(line[i:], pivot[i:])]
    found = []
    for i in reversed(range(len(rows))):
        known = sum(a * b for a, b in zip(rows[i][i + 1:], found))
        found.insert(0, (rows[i][-1] - known) / rows[i][i])
    return found


def slopes_at(planner, positions, place, errors, moved):
    """Of each error by each number. `moved`: rows that a number moves, once they are known."""
    step, slopes = 0.05, []
    for k in range(len(place)):
        at = [p + step * (i == k) for i, p in enumerate(place)]
        of = moved.get(k, range(len(positions)))
        found = planner.errors(numbers_at(at), [positions[i] for i in of])
        slope = {i: (e - errors[i]) / step for i, e in zip(of, found)}
        moved[k] = [i for i in of if slope[i] != 0]
        slopes.append([slope.get(i, 0) for i in range(len(positions))])
    return slopes


def newton_step(place, errors, weights, slopes):
    curvature = [w / LARGE ** 2 / math.sqrt(1 + (e / LARGE) ** 2)
                 for e, w in zip(errors, weights)]
    matrix = [[(a is b) + sum(c * x * y for c, x, y in zip(curvature, a, b)) for b in slopes]
              for a in slopes]
    right = [-at - sum(c * x * e for c, x, e in zip(curvature, a, errors))
             for at, a in zip(place, slopes)]
    return solve(matrix, right)


def fit(planner, positions, rounds):
    """Gauss-Newton on the logarithms of the numbers, from their priors."""
    weights, place, moved = weights_of(planner.rows, positions), [0] * len(PRIORS), {}
    errors = planner.errors(numbers_at(place), positions)
    for _ in range(rounds):
        slopes = slopes_at(planner, positions, place, errors, moved)
        step = newton_step(place, errors, weights, slopes)
        for share in (1, 0.5, 0.25):
            tried = [at + share * s for at, s in zip(place, step)]
            found = planner.errors(numbers_at(tried), positions)
            if loss(tried, found, weights) < loss(place, errors, weights):
                place, errors = tried, found
                break
        else:
            break
    return numbers_at(place)


def median_error(values):
    return statistics.median(abs(math.expm1(-v)) for v in values)


LAYOUT = ("tp", "pp", "virtual_stages", "cp", "dp", "zero_stage", "micro_batch",
          "sequence_parallel", "recompute")
TASK = ("source", "model", "gpu", "gpus", "seq_length", "global_batch", "framework", "elementwise",
        "attention", "precision")


def groups(rows):
    """Different layouts of one task: a choice."""
    found = {}
    for i, row in enumerate(rows):
        found.setdefault(tuple(row[name] for name in TASK), []).append(i)
    return [of for of in found.values()
            if len({tuple(rows[i][name] for name in LAYOUT) for i in of}) > 1]


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


def print_choices(rows, planner, numbers_of):
    """`numbers_of`: by source, fitted to all others."""
    print("\n| source left out | model | GPUs | layouts | slower than the best |"
          "\n|---|---|---|---|---|")
    regrets = []
    for of in groups(rows):
        row = rows[of[0]]
        seconds = dict(zip(of, planner.seconds(numbers_of[row["source"]], of)))
        regrets.append(regret(rows, seconds, of))
        print(f"| {row['source']} | {row['model']} | {row['gpus']} {row['gpu']} | {len(of)} "
              f"| {regrets[-1]:.1%} |")
    good = sum(r <= 0.05 for r in regrets)
    print(f"| mean; {good} of {len(regrets)} within 5 % | | | | {statistics.mean(regrets):.1%} |")


def main():
    options = argparse.ArgumentParser(description=__doc__,
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    options.add_argument("--data", type=pathlib.Path, default=FOLDER / "published_layouts.csv")
    options.add_argument("--rounds", type=int, default=5, help="of Gauss-Newton")
    options.add_argument("--fit", action="store_true", help="print the numbers of all sources")
    options.add_argument("--priors", action="store_true", help="fit nothing")
    options.add_argument("--rows", action="store_true", help="print the error of each row")
    chosen = options.parse_args()
    rows = read_rows(chosen.data)
    planner = Planner(chosen.build, rows)

    def numbers_without(source):
        if chosen.priors:
            return {name: value for name, (value, _) in PRIORS.items()}
        others = [i for i, row in enumerate(rows) if row["source"] != source]
        return fit(planner, others, chosen.rounds)

    if chosen.fit:
        print_numbers(numbers_without(None))
    medians, numbers_of = [], {}
    print("| source left out | rows | median error | mean bias |\n|---|---|---|---|")
    for source in sorted({row["source"] for row in rows}):
        numbers = numbers_of[source] = numbers_without(source)
        positions = [i for i, row in enumerate(rows) if row["source"] == source]
        found = planner.errors(numbers, positions)
        medians.append(median_error(found))
        print(f"| {source} | {len(found)} | {medians[-1]:.1%} | {statistics.mean(found):+.1%} |",
              flush=True)
        if chosen.rows:
            print_rows(rows, positions, found)
    print(f"| mean of the medians | | {statistics.mean(medians):.1%} | |")
    print_choices(rows, planner, numbers_of)


if __name__ == "__main__":
    main()
