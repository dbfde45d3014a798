"""Compares trireme's tokens with those of the package `tokenizers`, of four kinds trained here, on
random Unicode and on files of this machine; and of changes of these kinds (steps.py, families.py)
on a tenth as much random Unicode; and what tokens of families become as text. Exit status 0 only
when there is no difference, and as much text as asked for.

usage: parity.py PROGRAM RANDOM_MB TEXT_MB SEED    (tests/data/tokenizer/parity runs it)
"""
import array
import json
import os
import subprocess
import sys
import tempfile

import families
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
    """Tokens of each text, and the texts that they become."""
    documents, tokens = os.path.join(work, "documents"), os.path.join(work, "tokens")
    decoded = os.path.join(work, "decoded")
    with open(documents, "wb") as file:
        file.write("".join(text + "\0" for text in batch).encode())
    subprocess.run([program, tokenizer, documents, tokens, "1", decoded], check=True,
                   stdout=subprocess.DEVNULL)
    numbers = array.array("i")
    with open(tokens, "rb") as file:
        numbers.frombytes(file.read())
    rows, begin = [], 0
    for _ in batch:
        end = numbers.index(-1, begin)
        rows.append(numbers[begin:end].tolist())
        begin = end + 1
    with open(decoded, "rb") as file:
        return rows, file.read().decode(errors="replace").split("\0")[:-1]


def show(text, mine, theirs, theirs_tokenizer):
    at = next((i for i, (a, b) in enumerate(zip(mine, theirs)) if a != b),
              min(len(mine), len(theirs)))
    near = slice(max(0, at - 2), at + 3)
    names = [[theirs_tokenizer.id_to_token(t) for t in row[near]] for row in (mine, theirs)]
    print(f"  token {at} of {len(theirs)}: {names[0]}, tokenizers {names[1]}: {text[:60]!r}")


def compare(name, spec, sources, program, work, decodes=False):
    """Prints how many texts differ. `sources`: texts by what they are. `decodes`: compares what
    tokens become as text too. Returns that number, and the bytes of each source."""
    path = os.path.join(work, "tokenizer.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(spec, file)
    theirs = Tokenizer.from_file(path)
    wrong, sizes = 0, {}
    for what, source in sources.items():
        count = differ = size = 0
        for batch, batch_size in batches(source):
            encodings = theirs.encode_batch(batch, add_special_tokens=False)
            rows, decoded = ours(program, path, batch, work)
            for text, mine, right, back in zip(batch, rows, encodings, decoded):
                if mine != right.ids:
                    differ += 1
                    if differ <= 3:
                        show(text, mine, right.ids, theirs)
                elif decodes and theirs.decode(mine, skip_special_tokens=False) != back:
                    differ += 1
                    print(f"  decoded: {back[:60]!r}, of {text[:60]!r}")
            count, size = count + len(batch), size + batch_size
        print(f"{name}: {what}: {differ} of {count} texts differ ({size / 1e6:.1f} MB)", flush=True)
        wrong, sizes[what] = wrong + differ, size
    return wrong, sizes


def without_later_numerals(size, seed):
    return (text.translate(steps.LATER_NUMERALS) for text in texts.random_texts(size, seed))


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
            sources = {"random Unicode": without_later_numerals(random_mb * 10**5, seed),
                       "pieces": steps.texts(5_000, seed)}
            differ, _ = compare(name, steps.merge_patch(specs[kind], patch), sources, program, work)
            wrong += differ
        for name, kind, patch in families.variations(specs):
            sources = {"random Unicode": without_later_numerals(random_mb * 10**5, seed),
                       "lines": families.lines(10_000, seed)}
            differ, _ = compare(name, steps.merge_patch(specs[kind], patch), sources, program, work,
                                decodes=True)
            wrong += differ
    # Some bytes of the last file are left out (NUL).
    short = least < 0.99 * text_mb * 10**6
    if short:
        print(f"of {text_mb} MB of files that were asked for, this machine has {least / 1e6:.1f}; "
              "give fewer (TEXT_MB)")
    sys.exit(1 if wrong or short else 0)


main()
