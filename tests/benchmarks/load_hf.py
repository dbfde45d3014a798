#!/usr/bin/env python3
"""--load-hf: rate and memory of loading a model beside `cat` of its files.

A Llama of --bytes in bf16 (random small numbers), in files of 512 MiB, is read by `cat` and by
`train_gpt --load-hf --train-iters 0`, by turns. The page cache is dropped before each where that is
allowed; the record says whether it was. The peak memory of the largest rank is recorded beside the
number of parameters, of which each rank keeps its part in fp32.

usage: tests/benchmarks/load_hf.py [--build build/release] [--bytes 2e9] [--ranks 1,2]
       [--rounds 3] [--directory DIR] [--json FILE]
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import numpy

WIDTH, MLP, HEADS, GROUPS, VOCAB = 2048, 8192, 32, 8, 32000
FILE_BYTES = 512 << 20


def tensors(layers):
    """Names and shapes of a Llama."""
    kv = WIDTH // HEADS * GROUPS
    yield "model.embed_tokens.weight", (VOCAB, WIDTH)
    for i in range(layers):
        layer = f"model.layers.{i}."
        yield layer + "input_layernorm.weight", (WIDTH,)
        yield layer + "post_attention_layernorm.weight", (WIDTH,)
        yield layer + "self_attn.q_proj.weight", (WIDTH, WIDTH)
        yield layer + "self_attn.k_proj.weight", (kv, WIDTH)
        yield layer + "self_attn.v_proj.weight", (kv, WIDTH)
        yield layer + "self_attn.o_proj.weight", (WIDTH, WIDTH)
        yield layer + "mlp.gate_proj.weight", (MLP, WIDTH)
        yield layer + "mlp.up_proj.weight", (MLP, WIDTH)
        yield layer + "mlp.down_proj.weight", (WIDTH, MLP)
    yield "model.norm.weight", (WIDTH,)


def write_file(path, part, random):
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in part:
        count = int(numpy.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + 2 * count]}
        end += 2 * count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, shape in part:
            values = random.standard_normal(int(numpy.prod(shape)), dtype=numpy.float32) * 0.02
            file.write((values.view(numpy.uint32) >> 16).astype(numpy.uint16).tobytes())
        os.fsync(file.fileno())


def write_model(directory, size):
    """Returns: bytes of all files, and the number of parameters."""
    layer = 2 * sum(int(numpy.prod(shape)) for _, shape in tensors(1)) - 2 * (VOCAB + 1) * WIDTH
    layers = max(1, round((size - 2 * VOCAB * WIDTH) / layer))
    directory.joinpath("config.json").write_text(json.dumps({
        "model_type": "llama", "vocab_size": VOCAB, "hidden_size": WIDTH,
        "num_hidden_layers": layers, "num_attention_heads": HEADS, "num_key_value_heads": GROUPS,
        "intermediate_size": MLP, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0, "tie_word_embeddings": True}))
    parts, used = [[]], 0
    for name, shape in tensors(layers):
        more = 2 * int(numpy.prod(shape))
        if used + more > FILE_BYTES and parts[-1]:
            parts.append([])
            used = 0
        parts[-1].append((name, shape))
        used += more
    random, index = numpy.random.default_rng(1), {}
    for i, part in enumerate(parts):
        name = f"part-{i}.safetensors"
        write_file(directory / name, part, random)
        index.update({tensor: name for tensor, _ in part})
    directory.joinpath("model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": index}))
    count = sum(int(numpy.prod(shape)) for _, shape in tensors(layers))
    return sum(f.stat().st_size for f in directory.glob("*.safetensors")), count


def drop_cache():
    """Returns: whether it was dropped."""
    os.sync()
    try:
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
        return True
    except OSError:
        return False


def seconds_of_cat(directory):
    begin = time.monotonic()
    subprocess.run("cat " + str(directory) + "/*.safetensors > /dev/null", shell=True, check=True)
    return time.monotonic() - begin


def load(build, directory, ranks):
    """Returns: seconds that the ranks read for, and the largest peak memory of a rank, bytes."""
    program = f"{build}/bin/train_gpt --load-hf {directory} --train-iters 0 --seq-length 128"
    # The shell of each rank prints the peak memory of its only child.
    rank = f"{sys.executable} -c 'import resource, subprocess, sys; " \
           f"code = subprocess.call(sys.argv[1:]); " \
           f"print(\"peak\", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)" \
           f"; sys.exit(code)' {program}"
    command = f"mpirun --oversubscribe -np {ranks} {rank} --tp {ranks}"
    out = subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout
    ms = float(re.search(r"loaded llama from .* read in (\d+) ms", out).group(1))
    return ms / 1000, max(int(kib) for kib in re.findall(r"peak (\d+)", out)) * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--bytes", type=float, default=2e9)
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory")
    parser.add_argument("--json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        directory = pathlib.Path(folder)
        size, count = write_model(directory, options.bytes)
        print(f"{size / 1e9:.2f} GB in files, {count / 1e6:.0f} M parameters")
        record = {"file_bytes": size, "parameters": count, "cold": drop_cache(), "rounds": []}
        for _ in range(options.rounds):
            drop_cache()
            line = {"cat_s": seconds_of_cat(directory)}
            for ranks in map(int, options.ranks.split(",")):
                drop_cache()
                line[f"load_s_{ranks}"], line[f"peak_bytes_{ranks}"] = load(
                    options.build, directory, ranks)
            record["rounds"].append(line)
            print(json.dumps(line))
    cat = statistics.median(line["cat_s"] for line in record["rounds"])
    for ranks in map(int, options.ranks.split(",")):
        seconds = statistics.median(line[f"load_s_{ranks}"] for line in record["rounds"])
        print(f"{ranks} ranks: {size / seconds / 1e9:.2f} GB/s, {seconds / cat:.2f} x cat, "
              f"{'cold' if record['cold'] else 'warm'} page cache")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
