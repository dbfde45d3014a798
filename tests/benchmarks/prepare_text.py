#!/usr/bin/env python3
"""trireme data prepare: megabytes of JSON lines a second with 1, 2, ... workers, in one run.

Documents are files of this machine. All numbers of workers convert them by turns, and must write
the same tokens.

usage: tests/benchmarks/prepare_text.py [--build build/release] [--mb 150] [--workers 1,2]
       [--kind llama3] [--rounds 3] [--json FILE]
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

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "data" / "tokenizer"))
import texts  # noqa: E402


def write_lines(path, size):
    """Returns: how many documents."""
    count = 0
    with open(path, "w", encoding="utf-8") as file:
        for count, text in enumerate(texts.some(size, seed=11), 1):
            file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
    return count


def seconds_of(options, folder, workers):
    """Returns: seconds of the whole command, and the tokens that it writes."""
    output = f"{folder}/workers-{workers}"
    begin = time.monotonic()
    subprocess.run(
        [options.build + "/bin/trireme", "data", "prepare", "--input", f"{folder}/documents.jsonl",
         "--tokenizer", str(TESTS / "data/tokenizer/fixture" / options.kind), "--append-eod",
         "--workers", str(workers), "--output", output], check=True, capture_output=True)
    seconds = time.monotonic() - begin
    written = pathlib.Path(output + ".bin").read_bytes()
    for file in pathlib.Path(folder).glob(f"workers-{workers}.*"):
        file.unlink()
    return seconds, written


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--mb", type=float, default=150)
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--kind", choices=["gpt2", "llama2", "llama3", "qwen"], default="llama3")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    options = parser.parse_args()
    numbers = [int(number) for number in options.workers.split(",")]
    seconds = {number: [] for number in numbers}
    with tempfile.TemporaryDirectory() as folder:
        documents = write_lines(f"{folder}/documents.jsonl", int(options.mb * 1e6))
        size = os.path.getsize(f"{folder}/documents.jsonl")
        first = None
        for _ in range(options.rounds):
            for number in numbers:
                taken, written = seconds_of(options, folder, number)
                seconds[number].append(round(taken, 2))
                first = first or written
                if written != first:
                    sys.exit(f"{number} workers write other tokens than {numbers[0]}")
    print(f"{size / 1e6:.0f} MB, {documents} documents, tokenizer of the kind {options.kind}")
    for number in numbers:
        ratio = statistics.median(a / b for a, b in zip(seconds[numbers[0]], seconds[number]))
        print(f"{number} workers: {statistics.median(seconds[number]):.2f} s, "
              f"{size / 1e6 / statistics.median(seconds[number]):.1f} MB/s, {ratio:.2f} times as "
              f"fast as {numbers[0]} (medians of {options.rounds})")
    if options.json:
        record = {"command": sys.argv, "date": time.strftime("%Y-%m-%d %H:%M"),
                  "processors": os.cpu_count(), "bytes": size, "documents": documents,
                  "seconds_by_workers": seconds}
        pathlib.Path(options.json).write_text(json.dumps(record, indent=1) + "\n")


main()
