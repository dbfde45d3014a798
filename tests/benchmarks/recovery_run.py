"""Runs that recovery.py disturbs: who keeps them going, what is seen of them from outside, when."""
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import time

from runs import ROOT, run as run_to_the_end

RANKS = 4
HANG_LIMIT = 3.0
SAVE_INTERVAL = 10
LONGEST_WAIT = 120
PHASES = ("detected", "reaped", "relaunched", "mesh", "loaded", "step", "new step")


def processes():
    """Of this system: {pid: (name, parent)}, without those that have ended."""
    found = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        name, rest = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:].split()
        if rest[0] not in "ZX":
            found[int(stat.parent.name)] = (name, int(rest[1]))
    return found


def descendants(root):
    """{pid: name} of what a process has started, directly or not."""
    everything, found, generation = processes(), {}, {root}
    while generation:
        generation = {pid for pid, (_, parent) in everything.items() if parent in generation}
        found |= {pid: everything[pid][0] for pid in generation}
    return found


class Metrics:
    """The last whole line of a metrics file."""

    def __init__(self, path):
        self.path, self.size, self.step = path, 0, 0

    def look(self):
        """Whether the file has become shorter; renews `step`."""
        try:
            with open(self.path, "rb") as file:
                size = file.seek(0, os.SEEK_END)
                if size == self.size:
                    return False
                file.seek(max(0, size - 4096))
                lines = file.read().split(b"\n")[:-1]
        except FileNotFoundError:
            return False
        shorter, self.size = size < self.size, size
        if lines:
            self.step = int(re.search(rb'"step":(\d+)', lines[-1]).group(1))
        return shorter


class Run:
    """A context: the job runs in it, and nothing of it runs afterwards."""

    def __init__(self, build, data, folder, chance, hang_limit=0):
        self.build, self.folder, self.chance, self.hang_limit = build, folder, chance, hang_limit
        self.directory = folder / "run"
        self.metrics = Metrics(self.directory / "metrics.jsonl")
        (folder / "tmp").mkdir()
        self.program = [
            build / "bin/train_gpt", "--data-path", data, "--model", "tiny", "--tp", 2, "--pp", 2,
            "--micro-batch-size", 2, "--global-batch-size", 8, "--train-iters", 10**6,
            "--log-interval", 1000, "--save", self.directory, "--load", self.directory,
            "--save-interval", SAVE_INTERVAL, "--keep-last", 3]
        self.keeper, self.attempt = None, 0

    def __enter__(self):
        self.start()
        return self

    def end(self):
        """Has the job end as a user would, where it can."""

    def __exit__(self, *_):
        self.end()
        self.keeper.kill()
        self.keeper.wait()
        for pid in processes():
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                if os.fsencode(self.directory) in words:
                    os.kill(pid, signal.SIGKILL)
            except OSError:
                pass

    def start(self):
        environment = {**os.environ, "TMPDIR": str(self.folder / "tmp"),
                       "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                       "OMPI_MCA_rmaps_base_oversubscribe": "1", **self.environment()}
        with open(self.folder / "keeper.log", "ab") as log:
            self.keeper = subprocess.Popen(
                list(map(str, self.command())), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=environment, start_new_session=True)

    def environment(self):
        return {}

    def until(self, done):
        end = time.monotonic() + LONGEST_WAIT
        while not done():
            if time.monotonic() > end:
                log = self.log_of(self.newest_attempt())
                raise SystemExit(f"no recovery in {LONGEST_WAIT} s:\n{log.read_text()[-4000:]}")
            time.sleep(0.002)

    def durable(self):
        steps = [int(path.name[5:]) for path in self.directory.glob("step-*")
                 if path.name[5:].isdigit()]
        return max(steps, default=0)

    def newest_attempt(self):
        """Its number, from 1; 0: none has begun."""
        while os.path.exists(self.log_of(self.attempt + 1)):
            self.attempt += 1
        return self.attempt

    def settle(self):
        """Until the attempt has made a durable step, and up to ten steps more."""
        self.until(lambda: self.newest_attempt() > 0)
        before = self.durable()
        self.until(lambda: self.durable() > before)
        self.metrics.look()
        last = self.metrics.step + self.chance.randrange(SAVE_INTERVAL)
        self.until(lambda: self.metrics.look() or self.metrics.step >= last)

    def victim(self, fault, family):
        named = {"rank": "train_gpt", "mpirun": "mpirun"}
        if fault.victim == "supervisor":
            return self.keeper.pid
        return self.chance.choice([p for p, name in family.items() if name == named[fault.victim]])

    def hit(self, victim, fault):
        os.kill(victim, fault.signal)

    def strike(self, fault):
        """Does the fault, and returns what was seen until a new step is done."""
        self.settle()
        before = self.newest_attempt()
        family = descendants(self.keeper.pid)
        victim = self.victim(fault, family)
        watched = [p for p, name in family.items() if name in ("mpirun", "train_gpt", "orted")]
        watch = Watch(self, before, victim, watched)
        watch.begin(fault)
        self.until(watch.look)
        return {"seconds": watch.seconds, "lost_steps": watch.lost_steps,
                "cause": self.cause_of(before), **self.limit_of(before)}

    def cause_of(self, attempt):
        return ""

    def limit_of(self, attempt):
        return {}


class Watch:
    """From a fault to the first new step."""

    def __init__(self, run, attempt, victim, others):
        self.run, self.attempt, self.victim = run, attempt, victim
        # The kernel ends all processes of a node with its first one.
        self.struck = {victim, *(descendants(victim) if isinstance(run, Nodes) else ())}
        self.alive = {os.pidfd_open(pid): pid for pid in {victim, *others}}
        self.poll = select.poll()
        for descriptor in self.alive:
            self.poll.register(descriptor, select.POLLIN)
        self.seconds, self.lost_steps = {}, 0
        self.last_step, self.loaded_step, self.shortened = None, None, False

    def begin(self, fault):
        self.began = time.monotonic()
        self.run.hit(self.victim, fault)

    def see(self, phase):
        self.seconds.setdefault(phase, time.monotonic() - self.began)

    def look(self):
        """Whether a new step is done."""
        self.look_at_processes()
        self.look_at_log()
        self.look_at_steps()
        return "new step" in self.seconds

    def look_at_processes(self):
        for descriptor, _ in self.poll.poll(0) if self.alive else ():
            pid = self.alive.pop(descriptor)
            self.poll.unregister(descriptor)
            os.close(descriptor)
            if pid not in self.struck:
                self.see("detected")
            if pid == self.run.keeper.pid:  # as a service manager would
                self.run.keeper.wait()
                self.run.start()
        if not self.alive and self.last_step is None:
            self.see("reaped")
            self.run.metrics.look()
            self.last_step = self.run.metrics.step

    def look_at_log(self):
        if "loaded" in self.seconds:
            return
        attempt = self.run.newest_attempt()
        if attempt == self.attempt:
            return
        self.see("relaunched")
        text = self.run.log_of(attempt).read_text()
        if re.search(r"^# \[[^]]*\] pipeline \d+ x data", text, re.M):
            self.see("mesh")
        loaded = re.search(r"^# \[[^]]*\] loaded step (\d+) ", text, re.M)
        if loaded:
            self.see("loaded")
            self.loaded_step = int(loaded.group(1))

    def look_at_steps(self):
        if self.last_step is None:
            return
        self.shortened = self.run.metrics.look() or self.shortened
        if self.loaded_step is None:
            return
        self.lost_steps = self.last_step - self.loaded_step
        step = self.run.metrics.step
        if step > self.last_step or (self.shortened and step > self.loaded_step):
            self.see("step")
        if step > self.last_step:
            self.see("new step")


class Supervised(Run):
    def own_options(self):
        limit = ["--hang-timeout", self.hang_limit] if self.hang_limit else []
        return ["-n", RANKS, *limit]

    def command(self):
        return [self.build / "bin/trireme", "run", "--quiet", "--max-restarts", 10**6,
                *self.own_options(), "--", *self.program]

    def end(self):  # what a killed supervisor leaves in memory stays until the run continues
        subprocess.run([str(self.build / "bin/trireme"), "stop", str(self.directory), "--now",
                        "--wait", "20"], stdout=subprocess.DEVNULL, check=False)

    def log_of(self, attempt):
        return self.directory / f"supervisor/attempt-{attempt:04}" / "output.log"

    def ledger(self):
        lines = (self.directory / "supervisor/attempts.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def cause_of(self, attempt):
        causes = [line["cause"] for line in self.ledger()
                  if line.get("attempt") == attempt and "cause" in line]
        return causes[0] if causes else "none"

    def verdict_of(self, attempt):
        path = self.log_of(attempt).parent / "verdict.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def limit_of(self, attempt):
        """Of a hang: at least --hang-timeout, more where ops of the attempt took long."""
        verdict = self.verdict_of(attempt)
        return {"limit_s": verdict["limit_s"]} if verdict.get("ended") else {}

    def preempt(self, fault):
        """Asks the run to stop, and starts it again."""
        self.settle()
        attempt, before, began = self.newest_attempt(), self.durable(), time.monotonic()
        self.keeper.send_signal(fault.signal)
        code = self.keeper.wait(LONGEST_WAIT)
        seconds = {"new step": time.monotonic() - began}
        saved = re.findall(r"^# \[[^]]*\] saved step \d+: .* durable after ([\d.]+) s",
                           self.log_of(attempt).read_text(), re.M)
        cause = self.cause_of(attempt) if code == 75 else f"exit code {code}"
        save_s = float(saved[-1]) if self.durable() > before else 0  # 0: it was saved already
        self.start()
        self.until(lambda: self.newest_attempt() > attempt)
        return {"seconds": seconds, "save_s": save_s, "lost_steps": 0, "cause": cause}


class HangOfAll(Supervised):
    """Ranks hang where they compute next. Where only one does, because the others already waited
    for it, that one is certain: such a trial is repeated, up to ten times."""

    OF_ONE = "hang of one rank"

    def own_options(self):
        return [*super().own_options(), "--allow-chaos"]

    def strike(self, fault):
        for repeated in range(11):
            seen = super().strike(fault)
            if seen["cause"] != self.OF_ONE:
                break
        return {**seen, "repeated": repeated}

    def hit(self, victim, fault):
        variables = pathlib.Path(f"/proc/{victim}/environ").read_text().split("\0")
        pages = next(v for v in variables if v.startswith("TRIREME_PAGES="))
        run_to_the_end([self.build / "bin/hang_ranks", pages.partition("=")[2]])

    def cause_of(self, attempt):
        certain = self.verdict_of(attempt).get("certain")
        return self.OF_ONE if certain else super().cause_of(attempt)


class Nodes(Supervised):
    """Two of three simulated nodes train; the third is a spare."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        (self.folder / "hosts").write_text("host0\nhost1\nhost2\n")

    def own_options(self):
        return ["-n", RANKS // 2, "--nodes", 2, "--spares", 1, "--hostfile",
                self.folder / "hosts", "--remote-shell", ROOT / "tests/support/simulated_node"]

    def environment(self):
        return {"OMPI_MCA_btl": "tcp,self,vader", "OMPI_MCA_btl_tcp_if_include": "lo",
                "OMPI_MCA_oob_tcp_if_include": "lo"}

    def victim(self, fault, family):
        """The first process of the node: all others of its namespace end with it."""
        hosts = [line["nodes"] for line in self.ledger() if "nodes" in line][-1]
        self.lost = hosts[int(fault.victim.split()[1])]
        for pid, name in family.items():
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            if name == "unshare" and f"hostname {self.lost}\n".encode() in words:
                children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
                return int(children[0])
        raise SystemExit(f"there is no node {self.lost}")

    def strike(self, fault):
        seen = super().strike(fault)
        # So that it is a spare again, and not in quarantine.
        run_to_the_end([self.build / "bin/trireme", "nodes", "release", self.directory, self.lost])
        return seen


class LoopOfShell(Run):
    """What people do without a supervisor."""

    def command(self):
        loop = 'while n=$((n + 1)); ! "$@" > "$LOGS/attempt-$n.log" 2>&1; do :; done'
        return ["env", f"LOGS={self.folder}", "bash", "-c", loop, "loop", "mpirun", "-np", RANKS,
                *self.program]

    def log_of(self, attempt):
        return self.folder / f"attempt-{attempt}.log"
