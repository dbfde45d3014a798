#!/usr/bin/env python3
"""Tokens a second on one core, beside the package `tokenizers`, in one run.

Tokenizers of four kinds are trained on files of this machine, and encode others: by turns, each in
one thread, whose CPU time is taken, so that other jobs disturb little. Each round of trireme begins
with no word known (`first`), and goes over the texts again (`again`).

usage: tests/benchmarks/tokenizer.py [--build build/release] [--mb 20] [--vocabulary 32000]
       [--rounds 3] [--json FILE]
Needs `tokenizers` (pip install tokenizers), and the target benchmarks.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "data" / "tokenizer"))
os.environ["TOKENIZERS_PARALLELISM"] = "false"
import kinds  # noqa: E402
import texts  # noqa: E402
import tokenizers  # noqa: E402


def seconds_of_tokenizers(path, batch):
    """CPU seconds, and how many tokens."""
    tokenizer = tokenizers.Tokenizer.from_file(path)
    start = time.process_time()
    count = sum(len(tokenizer.encode(text, add_special_tokens=False).ids) for text in batch)
    return time.process_time() - start, count


def measure(options, name, corpus, batch, work):
    path = os.path.join(work, name + ".json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(kinds.make(name, corpus, options.vocabulary), file)
    size = os.path.getsize(os.path.join(work, "documents")) / 1e6
    first, again, theirs = [], [], []
    for _ in range(options.rounds):
        out = subprocess.run(
            [options.build + "/bin/tokenizer", path, work + "/documents", work + "/tokens", "2"],
            check=True, capture_output=True, text=True).stdout.split()
        first.append(size / float(out[0]))
        again.append(size / float(out[1]))
        seconds, count = seconds_of_tokenizers(path, batch)
        theirs.append(size / seconds)
    mine = os.path.getsize(work + "/tokens") // 4 - len(batch)
    ratio = statistics.median(first) / statistics.median(theirs)
    row = {"kind": name, "mb": round(size, 1), "tokens": mine, "tokens_of_tokenizers": count,
           "first_mb_s": [round(x, 1) for x in first], "again_mb_s": [round(x, 1) for x in again],
           "tokenizers_mb_s": [round(x, 2) for x in theirs], "ratio_of_medians": round(ratio, 1)}
    print(json.dumps(row), flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--mb", type=float, default=20)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    options = parser.parse_args()
    corpus = list(texts.some(6_000_000, seed=7))
    batch = list(texts.some(int(options.mb * 1e6), seed=11))
    with tempfile.TemporaryDirectory() as work:
        with open(work + "/documents", "w", encoding="utf-8") as file:
            file.write("".join(text + "\0" for text in batch))
        rows = [measure(options, name, corpus, batch, work) for name in kinds.NAMES]
    if options.json:
        record = {"command": sys.argv, "date": time.strftime("%Y-%m-%d %H:%M"),
                  "tokenizers": tokenizers.__version__, "rows": rows}
        pathlib.Path(options.json).write_text(json.dumps(record, indent=1) + "\n")


main()
