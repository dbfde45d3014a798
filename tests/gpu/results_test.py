#!/usr/bin/python3
"""What the acceptance leaves when a command, a stage or a program ends before its time: the folder
of results, and what the next command makes of it.
usage: tests/gpu/results_test.py [-v]"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import unittest.mock

from pretend_run import HERE, Pretended
import benchmark_stages
import results_folder
from installation import Installation
from records import Command, Records, Stage
from stages import Acceptance
from training_stages import NCCL, NCCL_CAREFUL, rank_stages
from work import Failed, last_words

KERNELS = ("--only", "kernels*")
# tests/gpu/run, whose folder is written all the time.
BUSY = """
import runpy, sys
sys.path.insert(0, {here!r})
import results_folder
results_folder.EVERY_S = 0.02
sys.argv = {arguments!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class Killed(Pretended):
    """A command that is ended from outside."""

    def start(self, *arguments, **environment):
        """Returns the driver when the program of the stage `kernels` hangs."""
        command = list(map(str, self.command(*arguments)[1:]))
        program = BUSY.format(here=str(HERE), arguments=command)
        job = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL,
                               env=self.environment(broken="hang", **environment))
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        for _ in range(6000):
            if "kernels" in self.stages() and "[ RUN " in self.kernels_log():
                return job
            time.sleep(0.02)
            self.assertIsNone(job.poll(), "the driver ended")
        self.fail("a stage that runs is not among the results")

    def kernels_log(self):
        log = self.output / "logs/kernels.log"
        return log.read_text() if log.exists() else ""

    def stages(self):
        return self.summary() if (self.results / "summary.json").exists() else {}

    def check_folder(self):
        """The folder is what comes back from the machine."""
        files = list(self.results.iterdir())
        self.assertLessEqual(len(files), 8)
        for file in files:
            self.assertRegex(file.name, r"^[A-Za-z0-9._-]+$")
        record = self.summary()["kernels"]
        self.assertEqual(record["status"], "not finished")
        table = (self.results / "table.txt").read_text()
        self.assertRegex(table, r"probe +passed")
        self.assertRegex(table, r"kernels +not finished( +[0-9.]+  .*)?\n")
        with tarfile.open(self.results / "logs.tar.gz") as tar:
            return {entry.name: tar.extractfile(entry).read().decode() for entry in tar}

    def test_a_kill_at_any_moment_leaves_a_folder_that_can_be_read(self):
        for moment in range(4):
            job = self.start(*KERNELS)
            time.sleep(0.05 + 0.013 * moment)
            job.kill()
            job.wait()
            logs = self.check_folder()
            self.assertIn("[ RUN      ] CudaNorm.ForwardAgrees", logs["logs/kernels.log"])
            for file in self.results.iterdir():
                file.unlink()

    def test_what_it_left_is_continued_on_another_machine(self):
        job = self.start("--only", "sanitizers.*", "--only", "kernels", "--call", "third",
                         "--resume", self.earlier("sanitizers.memcheck.CudaNorm"))
        job.kill()
        job.wait()
        carried = self.root / "carried.json"
        (self.results / "summary.json").rename(carried)
        self.output = self.root / "elsewhere"
        self.results = self.output / "results"
        more = ("--only", "sanitizers.memcheck.*", "--only", "kernels", "--resume", carried)
        done = self.accept(*more, broken="sanitizer", MEMORY="")
        self.assertRegex(done.stdout, r"\nkernels +passed ")
        self.assertRegex(done.stdout, r"sanitizers.memcheck.CudaNorm +passed before")
        self.assertRegex(done.stdout, r"sanitizers.memcheck.CudaGemm +failed")
        other = self.accept(*more, "--output", self.root / "third", MEMORY="of another model")
        self.assertRegex(other.stdout, r"sanitizers.memcheck.CudaNorm +passed  ")

    def earlier(self, stage):
        """The summary of a command that has run this stage."""
        self.accept("--only", stage)
        carried = self.root / "earlier.json"
        (self.results / "summary.json").rename(carried)
        return carried

    def test_a_command_that_is_asked_to_end_ends_its_programs(self):
        job = self.start(*KERNELS)
        job.send_signal(signal.SIGTERM)
        self.assertEqual(job.wait(), 75)
        self.assertIn("the command got SIGTERM", self.summary()["kernels"]["reason"])
        log = self.check_folder()["logs/kernels.log"]
        self.assertIn("[ RUN ", log)
        gone(lambda: self.running("gpu_kernels_tests"))

    def running(self, program):
        """Of this test's programs."""
        own = f"{self.root}/build/bin/{program}".encode()
        found = []
        for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                found += [file] if own in file.read_bytes() else []
            except OSError:  # it has just ended
                pass
        return found


class Stages(unittest.TestCase):
    """One stage at a time."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        self.records = Records(self.root / "logs")

    def run_stage(self, run, minutes=1.0, planned_s=0, patience=1.0):
        command = Command(self.records, time.monotonic() + 60 * minutes, patience)
        command.run([Stage("some", planned_s, run)])
        return command.status["some"]

    def test_at_the_end_of_the_command_a_stage_is_ended_with_all_that_it_started(self):
        # One child is in another session, as daemons are.
        script = "setsid sleep 3600 & echo $! > pid; sleep 3600 & sleep 3600"
        status = self.run_stage(lambda work: work.run(["bash", "-c", f"cd {self.root}; {script}"]),
                                minutes=0.02)
        self.assertEqual(status, "not finished")
        self.assertEqual(self.records.read("some")["status"], "not finished")
        child = int((self.root / "pid").read_text())
        gone(lambda: alive(child))

    def test_a_program_that_hangs_costs_its_limit_and_no_more(self):
        status = self.run_stage(lambda work: work.run(["sleep", "3600"], limit_s=0.2))
        self.assertEqual(status, "failed")
        self.assertIn("sleep took longer than 0 s", self.records.read("some")["reason"])

    def test_a_stage_that_hangs_costs_its_limit_and_the_next_one_runs(self):
        command = Command(self.records, time.monotonic() + 60, patience=0.01)
        command.run([Stage("some", 0, lambda work: work.run(["sleep", "3600"])),
                     Stage("next", 0, lambda work: {})])
        self.assertEqual(command.status, {"some": "failed", "next": "passed"})

    def test_no_stage_starts_that_cannot_end(self):
        self.assertEqual(self.run_stage(self.fail, minutes=0.1, planned_s=10), "not finished")
        self.assertIsNone(self.records.read("some"))

    def test_a_stage_with_a_mistake_does_not_take_the_others_with_it(self):
        self.assertEqual(self.run_stage(lambda work: {}["key"]), "failed")
        self.assertIn("KeyError: 'key'", self.records.read("some")["reason"])
        self.assertIn("Traceback", self.records.log("some").read_text())

    def test_a_program_that_fails_is_quoted(self):
        self.assertEqual(self.run_stage(lambda work: work.run(["bash", "-c", "echo why; exit 3"])),
                         "failed")
        self.assertIn("bash ended with 3: why\n", self.records.read("some")["reason"])

    def test_of_ranks_the_message_counts_and_not_what_mpirun_says_behind_it(self):
        rule = "-" * 74
        behind = f"{rule}\nPrimary job terminated\n{rule}\n"
        self.assertEqual(last_words(f"one\nrank 1: why\n{behind}"), "rank 1: why")
        self.assertEqual(last_words(f"{rule}\nno ssh\n{rule}\n"), "no ssh")
        self.assertEqual(last_words("one\n\n"), "one")
        self.assertEqual(last_words(""), "")

    def test_a_program_gets_its_input(self):
        def run(work):
            return {"summary": work.run(["cat"], text="jobs\n")}

        self.assertEqual(self.run_stage(run), "passed")
        self.assertEqual(self.records.read("some")["details"]["summary"], "jobs\n")

    def test_while_a_stage_runs_the_summary_has_what_it_measured_so_far(self):
        measured = self.root / "measured.json"

        def run(work):
            work.follow(measured)
            self.assertEqual(self.latest()["details"], {})
            measured.write_text('{"first": 1}')
            self.assertEqual(self.latest()["details"], {"first": 1})
            measured.write_text('{"first": 1, "seco')  # half of it
            self.assertEqual(self.latest()["status"], "not finished")
            measured.write_text('{"first": 1, "second": 2}')
            raise Failed("broken")

        self.assertEqual(self.run_stage(run), "failed")
        self.assertEqual(self.latest()["details"], {"first": 1, "second": 2})

    def latest(self):
        return json.loads(results_folder.summary_text(self.records))[-1]

    def test_a_long_log_is_packed_by_its_end(self):
        with open(self.records.log("long"), "wb") as log:
            log.write(b"a" * results_folder.LOG_BYTES + b"end")
        (self.root / "packed").write_bytes(results_folder.packed(self.records.logs))
        with tarfile.open(self.root / "packed") as tar:
            content = tar.extractfile("logs/long.log").read()
        self.assertEqual((len(content), content[-4:]), (results_folder.LOG_BYTES, b"aend"))


def gone(running):
    """What was killed needs a moment to end."""
    for _ in range(600):
        if not running():
            return
        time.sleep(0.1)
    raise AssertionError("a program that was started still runs")


def alive(pid):
    """A process that ended and was not waited for yet is not."""
    try:
        return " Z " not in pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


BENCHMARK = """
import json, pathlib, sys, time
file = pathlib.Path(sys.argv[sys.argv.index("--json") + 1])
found = json.loads(file.read_text()) if file.exists() else {"measured": {}}
for part in ("products", "trireme", "profile"):
    name = "gpt2-124m/" + part
    if name not in found["measured"] or "--again" in sys.argv:
        print("measuring", part)
        found["measured"][name] = {"status": "measured", "step_ms": 100}
        file.write_text(json.dumps(found))
    while part == "trireme" and pathlib.Path(sys.argv[0]).with_name("hangs").exists():
        time.sleep(0.05)
"""


class Benchmarks(Pretended):
    """Of benchmarks that are cut off, what they had measured."""

    def setUp(self):
        super().setUp()
        self.scripts = self.root / "scripts"
        self.program("scripts/training.py", BENCHMARK)
        self.addCleanup(setattr, benchmark_stages, "SCRIPTS", benchmark_stages.SCRIPTS)
        benchmark_stages.SCRIPTS = str(self.scripts)

    def run_stage(self, records, output, minutes, again=False):
        acceptance = Acceptance(Installation(None, self.root / "build"), output, records,
                                identity="me", again=again)
        name = "benchmarks.gpt2-124m.trireme"
        stage = next(stage for stage in benchmark_stages.benchmark_stages(acceptance)
                     if stage.name == name)
        stage.planned_s = 0
        command = Command(records, time.monotonic() + 60 * minutes, identity="me")
        command.run([stage])
        return command.status[name], records.read(name)

    def test_what_a_benchmark_measured_is_kept_and_continued_elsewhere(self):
        (self.scripts / "hangs").touch()
        first = Records(self.root / "a/logs")
        status, record = self.run_stage(first, self.root / "a", minutes=0.02)
        self.assertEqual((status, list(record["details"]["measured"])),
                         ("not finished", ["gpt2-124m/products", "gpt2-124m/trireme"]))
        (self.root / "carried.json").write_text(results_folder.summary_text(first))

        (self.scripts / "hangs").unlink()
        second = Records(self.root / "b/logs", self.root / "carried.json")
        status, record = self.run_stage(second, self.root / "b", minutes=1)
        self.assertEqual((status, len(record["details"]["measured"])), ("passed", 3))
        self.assertEqual(record["details"]["text"], "measuring profile")  # the others were there

    def test_again_measures_again(self):
        for again, measured in ((False, 3), (True, 3)):
            records = Records(self.root / "logs")
            status, record = self.run_stage(records, self.root, minutes=1, again=again)
            self.assertEqual(status, "passed", record)
            self.assertEqual(record["details"]["text"].count("measuring"), measured)

    def test_a_part_that_is_missing_is_named(self):
        self.program("scripts/training.py", BENCHMARK.replace('"profile"', ''))
        status, record = self.run_stage(Records(self.root / "logs"), self.root, minutes=1)
        self.assertEqual(status, "failed")
        self.assertIn("gpt2-124m.json has no gpt2-124m/profile", record["reason"])


class Nccl(Pretended):
    """A hang of NCCL ends the first attempt, not the trial."""

    def test_a_hang_is_tried_once_more_with_care(self):
        changed = unittest.mock.patch.dict(os.environ, self.environment(broken="nccl-hangs"))
        changed.start()
        self.addCleanup(changed.stop)
        records = Records(self.root / "logs")
        acceptance = Acceptance(Installation(None, self.root / "build"), self.root, records,
                                identity="me")
        trial = next(stage for stage in rank_stages(acceptance) if stage.name == NCCL)
        command = Command(records, time.monotonic() + 600, patience=0.2, identity="me")
        command.run([trial])
        self.assertEqual(command.status[NCCL], "passed", records.read(NCCL))
        self.assertIn("took longer than 5 s", records.read(NCCL)["details"]["nccl failed"])
        self.assertEqual(acceptance.nccl, NCCL_CAREFUL)


if __name__ == "__main__":
    unittest.main()
