"""Compares trireme's tokens with those of the package `tokenizers`, of four kinds trained here, on
random Unicode and on files of this machine; and of changes of these kinds (steps.py) on a tenth as
much random Unicode. Exit status 0 only when there is no difference, and as much text as asked for.

usage: parity.py PROGRAM RANDOM_MB TEXT_MB SEED    (tests/data/tokenizer/parity runs it)
"""
import array
import json
import os
import subprocess
import sys
import tempfile

import kinds
import steps
import texts
from tokenizers import Tokenizer

BATCH = 10_000_000  # bytes


def batches(documents):
    batch, size = [], 0
    for text in documents:
        text = text.replace("\0", "")
        batch.append(text)
        size += len(text.encode())
        if size >= BATCH:
            yield batch, size
            batch, size = [], 0
    if batch:
        yield batch, size


def ours(program, tokenizer, batch, work):
    """Tokens of each text."""
    documents, tokens = os.path.join(work, "documents"), os.path.join(work, "tokens")
    with open(documents, "wb") as file:
        file.write("".join(text + "\0" for text in batch).encode())
    subprocess.run([program, tokenizer, documents, tokens], check=True, stdout=subprocess.DEVNULL)
    numbers = array.array("i")
    with open(tokens, "rb") as file:
        numbers.frombytes(file.read())
    rows, begin = [], 0
    for _ in batch:
        end = numbers.index(-1, begin)
        rows.append(numbers[begin:end].tolist())
        begin = end + 1
    return rows


def show(text, mine, theirs, theirs_tokenizer):
    at = next((i for i, (a, b) in enumerate(zip(mine, theirs)) if a != b),
              min(len(mine), len(theirs)))
    near = slice(max(0, at - 2), at + 3)
    names = [[theirs_tokenizer.id_to_token(t) for t in row[near]] for row in (mine, theirs)]
    print(f"  token {at} of {len(theirs)}: {names[0]}, tokenizers {names[1]}: {text[:60]!r}")


def compare(name, spec, sources, program, work):
    """Prints how many texts differ. `sources`: texts by what they are. Returns that number, and the
    bytes of each source."""
    path = os.path.join(work, "tokenizer.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(spec, file)
    theirs = Tokenizer.from_file(path)
    wrong, sizes = 0, {}
    for what, source in sources.items():
        count = differ = size = 0
        for batch, batch_size in batches(source):
            encodings = theirs.encode_batch(batch, add_special_tokens=False)
            rows = ours(program, path, batch, work)
            for text, mine, right in zip(batch, rows, encodings):
                if mine != right.ids:
                    differ += 1
                    if differ <= 3:
                        show(text, mine, right.ids, theirs)
            count, size = count + len(batch), size + batch_size
        print(f"{name}: {what}: {differ} of {count} texts differ ({size / 1e6:.1f} MB)", flush=True)
        wrong, sizes[what] = wrong + differ, size
    return wrong, sizes


def main():
    program, random_mb, text_mb, seed = sys.argv[1], *map(int, sys.argv[2:])
    corpus = list(texts.some(4_000_000, seed=seed + 1))
    specs = {name: kinds.make(name, corpus, 16000) for name in kinds.NAMES}
    wrong, least = 0, text_mb * 10**6
    with tempfile.TemporaryDirectory() as work:
        for name, spec in specs.items():
            sources = {"random Unicode": texts.random_texts(random_mb * 10**6, seed),
                       "files": texts.some(text_mb * 10**6, seed)}
            differ, sizes = compare(name, spec, sources, program, work)
            wrong, least = wrong + differ, min(least, sizes["files"])
        for name, kind, patch in steps.variations(specs):
            random_texts = texts.random_texts(random_mb * 10**5, seed)
            sources = {"random Unicode": (text.translate(steps.LATER_NUMERALS)
                                          for text in random_texts),
                       "pieces": steps.texts(5_000, seed)}
            differ, _ = compare(name, steps.merge_patch(specs[kind], patch), sources, program, work)
            wrong += differ
    # Some bytes of the last file are left out (NUL).
    short = least < 0.99 * text_mb * 10**6
    if short:
        print(f"of {text_mb} MB of files that were asked for, this machine has {least / 1e6:.1f}; "
              "give fewer (TEXT_MB)")
    sys.exit(1 if wrong or short else 0)


main()
