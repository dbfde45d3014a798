"""What the benchmark scripts share: the benchmark model, its corpus, and runs of trireme and of the
FMA peak."""
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADS, WIDTH, SEQUENCE, BATCH, VOCAB = 6, 384, 256, 8, 256


def parameters(layers):
    return VOCAB * WIDTH + SEQUENCE * WIDTH + layers * (12 * WIDTH**2 + 13 * WIDTH) + 2 * WIDTH


def flops_per_token(layers):
    """6 N + 12 layers width sequence: attention counted as if it were not causal."""
    return 6 * parameters(layers) + 12 * layers * WIDTH * SEQUENCE


def run(command, environment=None):
    done = subprocess.run(command, capture_output=True, text=True,
                          env={**os.environ, **(environment or {})})
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n"
                         f"{done.stdout}{done.stderr}")
    return done.stdout


def peak(build, cores):
    """Sum over `cores` processes at once, in FLOP/s."""
    jobs = [subprocess.Popen([build / "bin/fma_peak"], stdout=subprocess.PIPE, text=True)
            for _ in range(cores)]
    return sum(json.loads(job.communicate()[0])["fma_peak_gflops"] for job in jobs) * 1e9


@contextlib.contextmanager
def corpus(build):
    """The licence texts of this machine as a token file; gives its prefix."""
    with tempfile.TemporaryDirectory() as folder:
        licences = pathlib.Path("/usr/share/common-licenses")
        texts = sorted({f.resolve() for f in licences.iterdir() if f.is_file()})
        data = pathlib.Path(folder) / "corpus"
        run([build / "bin/trireme", "data", "prepare", "--input", *texts, "--output", data])
        yield data


def command(build, data, ranks, steps, layers, batch, micro_batch, extra=(), width=WIDTH,
            sequence=SEQUENCE, heads=HEADS):
    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", ranks] if ranks > 1 else []
    return list(map(str, [
        *mpirun, build / "bin/train_gpt", "--data-path", data, "--model", "gpt2-124m",
        "--num-layers", layers, "--num-attention-heads", heads, "--hidden-size", width,
        "--ffn-hidden-size", 4 * width, "--seq-length", sequence,
        "--max-position-embeddings", sequence, "--vocab-size", VOCAB,
        "--global-batch-size", batch, "--micro-batch-size", micro_batch,
        "--train-iters", steps, "--log-interval", 1, *extra]))


def tokens_per_s(build, data, ranks, steps, layers=6, batch=BATCH, micro_batch=BATCH, extra=(),
                 **model):
    """Median over the steps after the third."""
    with tempfile.TemporaryDirectory() as folder:
        metrics = pathlib.Path(folder) / "metrics.jsonl"
        run(command(build, data, ranks, steps, layers, batch, micro_batch,
                    [*extra, "--metrics", metrics], **model))
        rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    return batch * SEQUENCE * 1e3 / statistics.median(r["step_ms"] for r in rows[3:])
