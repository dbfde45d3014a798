#!/usr/bin/env python3
"""How long training stops after a fault: seconds from the fault until the first step that was not
done before, and until each phase on the way, with the real trainer (--model tiny, tensor 2 x
pipeline 2) under `trireme run` and, for comparison, under mpirun in a loop of the shell.

  detected   another process than the victim has ended: something has noticed
  reaped     no process of the attempt is left
  relaunched mpirun is started again
  mesh       the ranks have found each other
  loaded     the checkpoint is in memory
  step       the first step is done, which repeats one that was lost
  new step   the first step is done that no attempt had done; preempted: 75 is returned

Each fault hits a random rank, up to ten steps after the attempt has made a durable step; hang-all
hits all ranks, so that no single one is certain to be the reason, and the job ends at twice the
limit (it needs the target hang_ranks; where one is certain after all, the trial is repeated). With
trireme run, the cause in the ledger must be right.
Times are judged by the targets only when the machine was idle before and after; times on a machine
that other jobs share say little.

node-lost and node-of-rank-0-lost need root: nodes are simulated (tests/support/simulated_node).

usage: tests/benchmarks/recovery.py [--build build/release] [--trials 100] [--faults NAME,...]
       [--directory build] [--seed N] [--json FILE]
"""
import argparse
import dataclasses
import json
import os
import pathlib
import random
import signal
import statistics
import sys
import tempfile
import time

from recovery_run import HANG_LIMIT, PHASES, HangOfAll, LoopOfShell, Nodes, Supervised
from runs import ROOT, corpus


@dataclasses.dataclass(frozen=True)
class Fault:
    name: str
    cause: str  # in the ledger
    signal: int
    victim: str  # "rank", "mpirun", "supervisor"; "node 0", "node 1": of the hosts in use
    run: type = Supervised
    of_target: tuple = ()  # ("median" or "p95", seconds) of the last phase
    limits: int = 0  # how often the target leaves out the limit of a hang, as the verdict has it;
    # a save is left out as measured

    @property
    def preempts(self):
        return self.cause == "stopped"


FAULTS = [
    Fault("kill", "killed", signal.SIGKILL, "rank", of_target=(("median", 0.65), ("p95", 1.0))),
    Fault("segv", "crashed", signal.SIGSEGV, "rank"),
    Fault("mpirun", "launcher_killed", signal.SIGKILL, "mpirun"),
    Fault("supervisor", "supervisor_lost", signal.SIGKILL, "supervisor"),
    Fault("hang", "hang", signal.SIGSTOP, "rank", of_target=(("p95", 1.2),), limits=1),
    Fault("hang-all", "hang", 0, "rank", HangOfAll, (("p95", 1.2),), 2),
    Fault("node-lost", "node_lost", signal.SIGKILL, "node 1", Nodes, (("p95", 2.5),)),
    Fault("node-of-rank-0-lost", "node_lost", signal.SIGKILL, "node 0", Nodes, (("p95", 2.5),)),
    Fault("preempted-usr1", "stopped", signal.SIGUSR1, "supervisor", of_target=(("p95", 0.3),)),
    Fault("preempted-term", "stopped", signal.SIGTERM, "supervisor", of_target=(("p95", 0.3),)),
    Fault("kill, shell loop", "", signal.SIGKILL, "rank", LoopOfShell),
    Fault("segv, shell loop", "", signal.SIGSEGV, "rank", LoopOfShell),
    Fault("mpirun, shell loop", "", signal.SIGKILL, "mpirun", LoopOfShell),
]


def machine():
    """Cores, load, and the share of the processors that is idle in a second."""
    def times():
        fields = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:]
        return [int(field) for field in fields]
    before = times()
    time.sleep(1)
    passed = [now - then for now, then in zip(times(), before)]
    return {"cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0],
            "idle": passed[3] / max(1, sum(passed[:8]))}


def describe(seen):
    return f"{seen['cores']} cores, load {seen['load']:.1f}, {seen['idle']:.0%} idle"


def is_quiet(seen):
    return seen["idle"] >= 0.9


def percentile(values, share):
    """The smallest value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * share // 100) - 1)]


STATISTICS = {"median": statistics.median, "p95": lambda values: percentile(values, 95),
              "max": max}


def judged_times(fault, trials):
    """Of the last phase, less what the target leaves out."""
    return [t["seconds"]["new step"] - fault.limits * t.get("limit_s", HANG_LIMIT) -
            t.get("save_s", 0) for t in trials]


def verdict(fault, statistic, trials, quiet):
    targets = dict(fault.of_target)
    if statistic not in targets:
        return ""
    value = STATISTICS[statistic](judged_times(fault, trials))
    less = " after the limit" if fault.limits else " beside the save" if fault.preempts else ""
    met = ("met" if value <= targets[statistic] else "MISSED") if quiet else "not judged"
    return f"{value:.2f}{less}, target {targets[statistic]:.2f}: {met}"


def report(fault, trials, quiet):
    wrong = sum(t["cause"] != fault.cause for t in trials) if fault.cause else 0
    lost = [t["lost_steps"] for t in trials]
    for statistic, of in STATISTICS.items():
        row = f"{fault.name if statistic == 'median' else '':20} {statistic:6}"
        for phase in PHASES:
            values = [t["seconds"][phase] for t in trials if phase in t["seconds"]]
            row += f" {of(values):10.3f}" if values else f" {'':10}"
        print(f"{row}  {verdict(fault, statistic, trials, quiet)}".rstrip())
    steps = "" if fault.preempts else f", {statistics.mean(lost):.1f} steps done again (mean)"
    causes = f", {wrong} wrong causes" if fault.cause else ""
    repeated = sum(t.get("repeated", 0) for t in trials)
    again = f", {repeated} more in which one rank was certain" if repeated else ""
    longer = [t["limit_s"] for t in trials if t.get("limit_s", 0) > HANG_LIMIT]
    limits = f", the limit had grown to {max(longer):.1f} s in {len(longer)}" if longer else ""
    print(f"{'':20} n = {len(trials)}{steps}{causes}{again}{limits}", flush=True)


def measure(fault, a, data, chance):
    count = a.trials if fault.name == "kill" else max(1, a.trials // 5)
    before = machine()
    with tempfile.TemporaryDirectory(dir=a.directory, prefix="recovery-") as folder:
        run = fault.run(a.build, data, pathlib.Path(folder), chance,
                        hang_limit=HANG_LIMIT if fault.cause == "hang" else 0)
        with run:
            trials = [run.preempt(fault) if fault.preempts else run.strike(fault)
                      for _ in range(count)]
    return {"fault": fault.name, "trials": trials, "machine": [before, machine()]}


def choose(names, build):
    known = {fault.name: fault for fault in FAULTS}
    wanted = [name.strip() for name in names.split(",")] if names else list(known)
    for name in wanted:
        if name not in known and f"{name}, shell loop" not in known:
            raise SystemExit(f"--faults {name}: one of {', '.join(known)}")
    chosen = [known[name] for name in known if name in wanted or name.split(",")[0] in wanted]
    if os.geteuid() != 0:
        print("# not root: no nodes are simulated, so none is lost")
        chosen = [fault for fault in chosen if fault.run is not Nodes]
    if not (build / "bin/hang_ranks").exists():
        print("# the target hang_ranks is not built: hang-all is left out")
        chosen = [fault for fault in chosen if fault.run is not HangOfAll]
    return chosen


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    p.add_argument("--trials", type=int, default=100, help="of kill; a fifth of the others")
    p.add_argument("--faults", default="", help="names in the first column; default: all")
    p.add_argument("--directory", type=pathlib.Path, default=ROOT / "build")
    p.add_argument("--seed", type=int, default=random.randrange(2**31))
    p.add_argument("--json", type=pathlib.Path)
    a = p.parse_args()
    if a.trials < 1:
        p.error(f"--trials {a.trials}: at least 1")
    chance = random.Random(a.seed)
    faults = choose(a.faults, a.build)
    print(f"# 4 ranks, tensor 2 x pipeline 2; seed {a.seed}; {describe(machine())}")
    print(f"{'seconds until':27}" + "".join(f" {phase:>10}" for phase in PHASES), flush=True)
    measured = []
    with corpus(a.build) as data:
        for fault in faults:
            measured.append(measure(fault, a, data, chance))
            around = measured[-1]["machine"]
            quiet = all(map(is_quiet, around))
            report(fault, measured[-1]["trials"], quiet)
            if not quiet:
                busiest = min(around, key=lambda seen: seen["idle"])
                print(f"# the machine was busy ({describe(busiest)}): times are not judged")
    if a.json:
        a.json.write_text(json.dumps({"seed": a.seed, "faults": measured}, indent=1))
    wrong = [m["fault"] for m, fault in zip(measured, faults)
             if fault.cause and any(t["cause"] != fault.cause for t in m["trials"])]
    if wrong:
        sys.exit(f"wrong causes: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
