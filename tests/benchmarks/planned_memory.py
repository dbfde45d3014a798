#!/usr/bin/env python3
"""Planned memory against the memory that ranks have, on CPUs.

For each layout `trireme plan` says how many bytes each rank needs. train_gpt must plan the same
bytes (--check-layout) and, trained so for a few steps, have them: what all its ranks together have
at most, beyond what idle ranks have, is compared with the plan. Idle ranks are those of a job of a
tiny model on the same mesh, without what that job plans. Memory is private and shared pages
(Pss_Anon and Pss_Shmem of smaps_rollup), looked at every 20 ms; libraries and their code, which are
files, are not counted.

Exit code 1 where bytes differ, or a layout with 500 MiB a rank or more is more than 3 % off.

usage: tests/benchmarks/planned_memory.py [--build build/release] [--layouts 20] [--steps 3]
       [--profile FILE] [--json FILE]
"""
import argparse
import json
import pathlib
import re
import subprocess
import tempfile
import time

from runs import ROOT, corpus, run

MIB = 1 << 20
LIBRARIES = 32 * MIB  # MemoryNeed::libraries: an estimate, in whose place idle ranks are measured
BOUND, LEAST = 0.03, 500 * MIB

GPT = {"num-layers": 12, "hidden-size": 768, "num-attention-heads": 12, "seq-length": 128,
       "vocab-size": 256}
LLAMA = {"num-layers": 12, "hidden-size": 768, "ffn-hidden-size": 2048, "num-attention-heads": 12,
         "num-query-groups": 4, "seq-length": 128, "vocab-size": 4096, "normalization": "RMSNorm",
         "activation": "swiglu", "position-embedding-type": "rope", "disable-bias-linear": True,
         "untie-embeddings-and-output-weights": True}
# Ranks, model, changes of the model, samples of a step, words of the layout. What is not named is
# as plain as can be.
LAYOUTS = [
    (1, GPT, {"num-layers": 5}, 2, "mb=1"),
    (2, GPT, {"num-layers": 10}, 4, "tp=2 mb=2"),
    (4, LLAMA, {"num-layers": 20}, 4, "tp=2 pp=2 mb=1 sp=1"),
    (1, LLAMA, {"num-layers": 5}, 4, "mb=4"),
    (1, GPT, {"num-layers": 4, "seq-length": 512}, 4, "mb=4"),
    (1, GPT, {"num-layers": 6}, 4, "mb=2 recompute=full"),
    (1, GPT, {"num-layers": 5, "bf16": True}, 2, "mb=2"),
    (1, LLAMA, {"num-layers": 4, "vocab-size": 32000}, 2, "mb=1 chunks=8"),
    (2, GPT, {"num-layers": 10}, 4, "pp=2 mb=1"),
    (2, LLAMA, {"num-layers": 12}, 4, "pp=2 v=2 mb=1"),
    (2, GPT, {"num-layers": 5}, 4, "dp=2 mb=1"),
    (2, GPT, {"num-layers": 7}, 4, "dp=2 mb=2 zero=1"),
    (2, LLAMA, {"num-layers": 6, "bf16": True}, 4, "dp=2 mb=1 zero=1"),
    (2, LLAMA, {"num-layers": 12, "seq-length": 256}, 4, "tp=2 mb=4 sp=1"),
    (2, GPT, {"num-layers": 10}, 4, "tp=2 mb=2 recompute=selective"),
    (4, GPT, {"num-layers": 20}, 8, "pp=4 mb=1"),
    (4, GPT, {"num-layers": 14}, 4, "tp=2 dp=2 mb=1 zero=1"),
    (4, GPT, {"num-layers": 10}, 8, "pp=2 dp=2 mb=1"),
    (4, LLAMA, {"num-layers": 24}, 4, "tp=4 mb=2 sp=1"),
    (4, LLAMA, {"num-layers": 24}, 8, "tp=2 pp=2 v=2 mb=2"),
]


def toml(model, folder):
    def value(x):
        return str(x).lower() if isinstance(x, bool) else json.dumps(x)
    path = pathlib.Path(folder) / "model.toml"
    path.write_text("".join(f"{key} = {value(x)}\n" for key, x in model.items()))
    return path


def pins(ranks, words):
    given = dict(word.split("=") for word in words.split())
    plain = {"tp": 1, "pp": 1, "v": 1, "zero": 0, "sp": 0, "chunks": 1, "recompute": "none"}
    schedule = "interleaved" if int(given.get("v", 1)) > 1 else "1f1b"
    return [f"{key}={x}" for key, x in {**plain, "schedule": schedule, **given}.items()]


class Jobs:
    def __init__(self, build, data, profile, steps):
        self.build, self.data, self.profile, self.steps = build, data, profile, steps
        self.idle = {}

    def plan(self, ranks, config, batch, words):
        """Bytes of each rank, the largest of them, and the words of train_gpt."""
        answer = json.loads(run(
            [self.build / "bin/trireme", "plan", "--model-config", config, "--cluster",
             f"{ranks}x{self.profile}", "--global-batch-size", str(batch), "--json",
             "--pin", *pins(ranks, words)]))
        layout = answer["best"][0]["layout"]
        planned = {}  # by (stage, tensor, data), each 0 or the last
        mesh = (layout["pp"], layout["dp"], layout["tp"])
        for rank in answer["best"][0]["ranks"]:
            stage, rest = divmod(rank["rank"], mesh[1] * mesh[2])
            planned[stage, *divmod(rest, mesh[2])] = rank["device_bytes"] + rank["host_bytes"]
        all_ranks = [planned.get((stage, data, tensor), planned[stage, 0, 0])
                     for stage in range(mesh[0]) for data in range(mesh[1])
                     for tensor in range(mesh[2])]
        command = answer["command"]
        return {"ranks": all_ranks, "most": answer["best"][0]["device_bytes"],
                "words": command[command.index("train_gpt") + 1:]}

    def train(self, ranks, words):
        """What the job printed, and the most memory that all its ranks together had."""
        with tempfile.TemporaryFile("w+") as output:
            job = subprocess.Popen(
                ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks),
                 self.build / "bin/train_gpt", *words, "--data-path", self.data, "--train-iters",
                 str(self.steps), "--log-interval", "1"], stdout=output, stderr=subprocess.STDOUT)
            most, members = 0, []
            while job.poll() is None:
                if len(members) < ranks:
                    members = programs_below(job.pid)
                most = max(most, sum(map(memory_of, members)))
                time.sleep(0.02)
            output.seek(0)
            printed = output.read()
        if job.returncode != 0:
            raise SystemExit(f"train_gpt {' '.join(words)} ended with {job.returncode}:\n{printed}")
        return printed, most

    def idle_bytes(self, ranks, layout):
        """Of all ranks of a mesh, beyond what is planned."""
        if (ranks, layout) not in self.idle:
            with tempfile.TemporaryDirectory() as folder:
                tiny = {"num-layers": 8, "hidden-size": 64, "num-attention-heads": 4,
                        "seq-length": 64, "vocab-size": 256}
                planned = self.plan(ranks, toml(tiny, folder), 8, layout)
                _, had = self.train(ranks, planned["words"])
            self.idle[ranks, layout] = had - sum(planned["ranks"]) + ranks * LIBRARIES
        return self.idle[ranks, layout]


def programs_below(pid):
    """The train_gpt that mpirun has started, directly or not."""
    found = []
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return found
    for child in children:
        try:
            name = pathlib.Path(f"/proc/{child}/comm").read_text().strip()
        except OSError:
            continue
        found += [int(child)] if name == "train_gpt" else programs_below(child)
    return found


def memory_of(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0  # it has ended
    return 1024 * sum(int(kib) for kib in re.findall(r"^Pss_(?:Anon|Shmem): +(\d+)", text, re.M))


def check(jobs, ranks, model, batch, words):
    with tempfile.TemporaryDirectory() as folder:
        planned = jobs.plan(ranks, toml(model, folder), batch, words)
        said = json.loads(run([jobs.build / "bin/train_gpt", *planned["words"], "--train-iters",
                               str(jobs.steps), "--data-path", jobs.data,
                               f"--check-layout={ranks}"]).splitlines()[-1])
        mesh = " ".join(word for word in words.split() if word[:2] in ("tp", "pp", "dp", "v="))
        idle = jobs.idle_bytes(ranks, (mesh + " mb=1").strip())
        _, had = jobs.train(ranks, planned["words"])
    bytes_planned = sum(planned["ranks"]) - ranks * LIBRARIES
    return {"ranks": ranks, "layout": words, "same_bytes": said["rank_bytes"] == planned["most"],
            "planned_mib": bytes_planned / ranks / MIB, "idle_mib": idle / ranks / MIB,
            "had_mib": had / ranks / MIB, "off": had / (bytes_planned + idle) - 1,
            "judged": bytes_planned + idle >= ranks * LEAST}


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    p.add_argument("--layouts", type=int, default=len(LAYOUTS))
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--profile", type=pathlib.Path, help="of a CPU; default: one is measured")
    p.add_argument("--json", type=pathlib.Path)
    a = p.parse_args()
    rows = []
    with corpus(a.build) as data, tempfile.TemporaryDirectory() as folder:
        profile = a.profile or pathlib.Path(folder) / "cpu.json"
        if not a.profile:
            run([a.build / "bin/trireme", "plan", "--calibrate", profile, "--ranks", "2",
                 "--mpirun", "mpirun --allow-run-as-root --oversubscribe",
                 "--", "--device", "cpu", "--seconds", "2"])  # times do not matter here
        jobs = Jobs(a.build, data, profile, a.steps)
        print(f"{'ranks':>5}  {'layout':30} {'bytes':>6} {'planned':>9} {'idle':>7} {'had':>9}"
              f" {'off':>7}    MiB a rank")
        for ranks, model, changes, batch, words in LAYOUTS[:a.layouts]:
            row = check(jobs, ranks, {**model, **changes}, batch, words)
            rows.append(row)
            print(f"{ranks:5}  {words:30} {'same' if row['same_bytes'] else 'DIFFER':>6}"
                  f" {row['planned_mib']:9.1f} {row['idle_mib']:7.1f} {row['had_mib']:9.1f}"
                  f" {100 * row['off']:+6.2f} %{'' if row['judged'] else '  less than 500 MiB'}",
                  flush=True)
    if a.json:
        a.json.write_text(json.dumps({"planned_memory": rows}, indent=1) + "\n")
    wrong = [r for r in rows if not r["same_bytes"] or (r["judged"] and abs(r["off"]) > BOUND)]
    worst = max((abs(r["off"]) for r in rows if r["judged"]), default=0)
    print(f"{len(rows)} layouts: the farthest is {100 * worst:.2f} % off; {len(wrong)} wrong")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
