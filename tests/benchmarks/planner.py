#!/usr/bin/env python3
"""Predicted against measured times of steps: all layouts of 2 ranks of two models, on CPUs.

Each model is calibrated in the same run (trireme plan --calibrate, with its shapes). Each layout
that is legal is predicted, then trained for a few steps, in rounds of alternating order; its time
is the median over the steps after the second, of the rounds that count. Of many layouts that are
about as fast, the one measured fastest is so by chance: therefore the three that are predicted
fastest and the three measured fastest are trained again, by turns, and only these jobs decide how
much slower a choice is. A reference product runs
on both cores before and after each job. A job counts only where both are within 3 % of what they
were at the calibration; it is repeated up to 5 times. A layout without a job that counts is not
judged, and then neither is the whole.

Demanded: median error 10 %, 90 % of errors below 20 %, Kendall's tau 0.8, the layout that is
predicted fastest at most 5 % slower than the one measured fastest, the best of the three predicted
fastest at most 2 %.

Exit code 0: judged, and kept; 1: not kept; 77: not judged, because the machine is not quiet.
--allow-busy: jobs count whatever the reference says; figures are printed, and 77 remains.

usage: tests/benchmarks/planner.py [--build build/release] [--rounds 2] [--finals 5] [--steps 8]
       [--allow-busy] [--models gpt,llama] [--json FILE]
       (needs bin/fma_peak, of target benchmarks)
"""
import argparse
import itertools
import json
import pathlib
import statistics
import subprocess
import tempfile

from runs import ROOT, corpus, peak, run

RANKS, BATCH, CLOSE, TRIES = 2, 8, 0.03, 5
NOT_JUDGED = 77
MODELS = {
    "gpt": {"num-layers": 6, "hidden-size": 256, "num-attention-heads": 8, "seq-length": 256,
            "vocab-size": 256},
    "llama": {"num-layers": 8, "hidden-size": 384, "ffn-hidden-size": 1024,
              "num-attention-heads": 6, "num-query-groups": 2, "seq-length": 256,
              "vocab-size": 256, "normalization": "RMSNorm", "activation": "swiglu",
              "position-embedding-type": "rope", "disable-bias-linear": True},
}
DEMANDS = {"median_error": 0.10, "p90_error": 0.20, "regret": 0.05, "regret_of_3": 0.02}
MPIRUN = "mpirun --allow-run-as-root --oversubscribe"


def toml(model, folder):
    path = pathlib.Path(folder) / "model.toml"
    path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in model.items()))
    return path


def all_pins():
    """Of every layout that may be legal; what is idle is left at its default."""
    for tp, pp in ((2, 1), (1, 2), (1, 1)):
        schedules = (("1f1b", 1), ("interleaved", 2)) if pp > 1 else (("1f1b", 1),)
        zeros = (0, 1) if tp * pp == 1 else (0,)
        sps = (0, 1) if tp > 1 else (0,)
        for (schedule, v), zero, sp, mb, recompute in itertools.product(
                schedules, zeros, sps, (1, 2, 4), ("none", "full")):
            yield [f"tp={tp}", f"pp={pp}", f"v={v}", f"mb={mb}", f"recompute={recompute}",
                   f"schedule={schedule}", f"zero={zero}", f"sp={sp}", "chunks=1"]


class Bench:
    def __init__(self, build, data, folder, steps, allow_busy):
        self.build, self.data, self.folder, self.steps = build, data, folder, steps
        self.allow_busy = allow_busy
        self.reference = 0

    def measure_reference(self):
        return peak(self.build, RANKS)

    def calibrate(self, model):
        """The file of the profile; the reference product is that around the calibration."""
        profile = pathlib.Path(self.folder) / "cpu.json"
        before = [self.measure_reference() for _ in range(3)]
        print(run([self.build / "bin/trireme", "plan", "--calibrate", profile, "--ranks",
                   str(RANKS), "--model-config", model, "--mpirun", MPIRUN]), end="", flush=True)
        self.reference = statistics.median(before + [self.measure_reference() for _ in range(3)])
        return profile

    def predict(self, model, profile, pins):
        """None: the layout is not legal."""
        words = [self.build / "bin/trireme", "plan", "--model-config", model, "--cluster",
                 f"{RANKS}x{profile}", "--global-batch-size", str(BATCH), "--json", "--pin", *pins]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
        if done.returncode == 64:
            return None
        answer = json.loads(done.stdout)
        command = answer["command"]
        return {"pins": " ".join(pins), "predicted_ms": 1e3 * answer["best"][0]["step_s"],
                "parts_s": answer["best"][0]["parts_s"],
                "words": command[command.index("train_gpt") + 1:], "times": [], "finals": []}

    def quiet(self):
        return abs(self.measure_reference() / self.reference - 1) <= CLOSE

    def train(self, words):
        metrics = pathlib.Path(self.folder) / "metrics.jsonl"
        metrics.unlink(missing_ok=True)
        run([*MPIRUN.split(), "-np", str(RANKS), self.build / "bin/train_gpt", *words,
             "--data-path", self.data, "--train-iters", str(self.steps), "--metrics", metrics])
        rows = [json.loads(line) for line in metrics.read_text().splitlines()]
        return statistics.median(row["step_ms"] for row in rows[2:])

    def measure(self, layout, times="times"):
        for _ in range(TRIES):
            before = self.quiet()
            took = self.train(layout["words"])
            if (before and self.quiet()) or self.allow_busy:
                layout[times].append(took)
                return


def tau(pairs):
    """Kendall's: of two layouts, how often both orders agree, less how often they do not."""
    signs = [(a[0] - b[0]) * (a[1] - b[1]) for a, b in itertools.combinations(pairs, 2)]
    return sum((s > 0) - (s < 0) for s in signs) / max(1, len(signs))


def predicted(one):
    return one["predicted_ms"]


def measured(one):
    return statistics.median(one["times"])


def judge(layouts):
    pairs = [(predicted(one), measured(one)) for one in layouts]
    errors = sorted(abs(expected / took - 1) for expected, took in pairs)
    finals = {one["pins"]: statistics.median(one["finals"]) for one in layouts if one["finals"]}
    chosen = [finals[one["pins"]] for one in sorted(layouts, key=predicted)[:3]]
    return {"layouts": len(pairs), "median_error": statistics.median(errors),
            "p90_error": errors[int(0.9 * (len(errors) - 1) + 0.5)], "tau": tau(pairs),
            "regret": chosen[0] / min(finals.values()) - 1,
            "regret_of_3": min(chosen) / min(finals.values()) - 1}


def one_model(bench, name, rounds, finals):
    model = toml(MODELS[name], bench.folder)
    profile = bench.calibrate(model)
    layouts = [one for pins in all_pins() if (one := bench.predict(model, profile, pins))]
    for number in range(rounds):
        for layout in layouts if number % 2 == 0 else reversed(layouts):
            bench.measure(layout)
        print(f"{name}: round {number + 1} of {rounds} is done", flush=True)
    judged = [one for one in layouts if one["times"]]
    first = sorted(judged, key=predicted)[:3] + sorted(judged, key=measured)[:3]
    finalists = [one for one in judged if one in first]
    for _ in range(finals):
        for layout in finalists:
            bench.measure(layout, "finals")
    print(f"\n{name}: {'layout':72} {'predicted':>10} {'measured':>10}  off")
    for one in layouts:
        if not one["times"]:
            print(f"{'':5} {one['pins']:72} {one['predicted_ms']:7.1f} ms  not judged")
            continue
        again = f"{statistics.median(one['finals']):9.1f} ms again" if one["finals"] else ""
        print(f"{'':5} {one['pins']:72} {one['predicted_ms']:7.1f} ms {measured(one):7.1f} ms"
              f" {100 * (predicted(one) / measured(one) - 1):+5.0f} %{again}")
    missing = len(layouts) - len(judged) + sum(not one["finals"] for one in finalists)
    result = judge(judged) if judged and not missing else {"layouts": len(judged)}
    result["not_judged"] = missing
    return {"model": name, "result": result, "table": layouts}


def kept(result):
    return result["tau"] >= 0.8 and all(result[key] <= most for key, most in DEMANDS.items())


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--finals", type=int, default=5)
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--models", default="gpt,llama")
    p.add_argument("--allow-busy", action="store_true")
    p.add_argument("--json", type=pathlib.Path)
    a = p.parse_args()
    if a.rounds < 1 or a.finals < 1:
        p.error(f"--rounds {a.rounds} --finals {a.finals}: both must be at least 1")
    with corpus(a.build) as data, tempfile.TemporaryDirectory() as folder:
        bench = Bench(a.build, data, folder, a.steps, a.allow_busy)
        found = [one_model(bench, name, a.rounds, a.finals) for name in a.models.split(",")]
    if a.json:
        a.json.write_text(json.dumps({"judged": not a.allow_busy, "planner": found}, indent=1)
                          + "\n")
    for one in found:
        result = one["result"]
        print(f"{one['model']}: {json.dumps(result)}")
    if a.allow_busy or any(one["result"]["not_judged"] for one in found):
        print("not judged" + (" (--allow-busy)" if a.allow_busy else ": the machine is not quiet"))
        raise SystemExit(NOT_JUDGED)
    raise SystemExit(0 if all(kept(one["result"]) for one in found) else 1)


if __name__ == "__main__":
    main()
