#!/usr/bin/env python3
"""--load-hf: rate and memory of loading a model beside `cat` of its files.

A Llama of --bytes in bf16 (random small numbers), in files of 512 MiB, is read by `cat` and by
`train_gpt --load-hf --train-iters 0`, by turns. Before each, its files leave the page cache; what
the disk then reads is recorded, in units of their size: 1 where each byte is read once. So are the
seconds between the plan of memory and the first byte, in which ranks take and clear the memory of
their parameters; the peak memory of the largest rank, beside the number of parameters, of which
each rank keeps its part in fp32; and the processor seconds of all ranks: the difference to a job
with one layer, so that what starting costs does not count. The number of processes that run before
each round is recorded too: ratios of a busy machine mean little.

Before each, another file fills the page cache, as on a machine that has run for long. A virtual
machine may get memory that lies free from its host only when it is written, and then reads 3 to 4
times as slowly, for `cat` as for trireme; which of them it meets would be chance. The file has
zeros alone, and no blocks on the disk.

usage: tests/benchmarks/load_hf.py [--build build/release] [--bytes 2e9] [--ranks 1,2]
       [--dtype BF16] [--rounds 3] [--directory DIR] [--json FILE]
"""
import argparse
import json
import os
import pathlib
import re
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import numpy

WIDTH, MLP, HEADS, GROUPS, VOCAB = 2048, 8192, 32, 8, 32000
FILE_BYTES = 512 << 20
BLOCK = 512  # bytes, of getrusage


def tensors(layers, vocabulary=VOCAB):
    """Names and shapes of a Llama."""
    kv = WIDTH // HEADS * GROUPS
    yield "model.embed_tokens.weight", (vocabulary, WIDTH)
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


def write_file(path, part, random, dtype):
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in part:
        count = int(numpy.prod(shape))
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + 2 * count]}
        end += 2 * count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, shape in part:
            values = random.standard_normal(int(numpy.prod(shape)), dtype=numpy.float32) * 0.02
            file.write(values.astype(numpy.float16).tobytes() if dtype == "F16" else
                       (values.view(numpy.uint32) >> 16).astype(numpy.uint16).tobytes())
        os.fsync(file.fileno())


def write_model(directory, size, dtype, vocabulary=VOCAB):
    """Returns: bytes of all files, and the number of parameters."""
    layer = 2 * sum(int(numpy.prod(shape)) for _, shape in tensors(1)) - 2 * (VOCAB + 1) * WIDTH
    layers = max(1, round((size - 2 * vocabulary * WIDTH) / layer))
    directory.joinpath("config.json").write_text(json.dumps({
        "model_type": "llama", "vocab_size": vocabulary, "hidden_size": WIDTH,
        "num_hidden_layers": layers, "num_attention_heads": HEADS, "num_key_value_heads": GROUPS,
        "intermediate_size": MLP, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0, "tie_word_embeddings": True}))
    parts, used = [[]], 0
    for name, shape in tensors(layers, vocabulary):
        more = 2 * int(numpy.prod(shape))
        if used + more > FILE_BYTES and parts[-1]:
            parts.append([])
            used = 0
        parts[-1].append((name, shape))
        used += more
    random, index = numpy.random.default_rng(1), {}
    for i, part in enumerate(parts):
        name = f"part-{i}.safetensors"
        write_file(directory / name, part, random, dtype)
        index.update({tensor: name for tensor, _ in part})
    directory.joinpath("model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": index}))
    count = sum(int(numpy.prod(shape)) for _, shape in tensors(layers, vocabulary))
    return sum(f.stat().st_size for f in directory.glob("*.safetensors")), count


def forget(directory):
    """Removes its files, and no others, from the page cache: they are on disk and not mapped."""
    for path in directory.glob("*.safetensors"):
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def make_filler(path):
    """A file of zeros without blocks, as large as the memory."""
    with open(path, "wb") as file:
        file.truncate(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def prepare(directory, filler):
    """Its files are cold then, and the page cache is full."""
    forget(directory)
    subprocess.run(["cat", filler], stdout=subprocess.DEVNULL, check=True)


def cat(directory):
    """Returns: seconds, processor seconds, and bytes that the disk has read."""
    begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run("cat " + str(directory) + "/*.safetensors > /dev/null", shell=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (time.monotonic() - begin,
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            (after.ru_inblock - before.ru_inblock) * BLOCK)


def load(build, directory, ranks):
    """Returns: seconds that the ranks read for, seconds before it in which they take memory, the
    largest peak memory of a rank in bytes, the processor seconds of all ranks, and bytes that the
    disk has read for them."""
    program = f"{build}/bin/train_gpt --load-hf {directory} --train-iters 0 --seq-length 128"
    # A parent of each rank prints what its only child has used.
    rank = f"{sys.executable} -c 'import resource, subprocess, sys; " \
           f"code = subprocess.call(sys.argv[1:]); " \
           f"used = resource.getrusage(resource.RUSAGE_CHILDREN); " \
           f"print(\"peak\", used.ru_maxrss, \"cpu\", used.ru_utime + used.ru_stime, " \
           f"\"blocks\", used.ru_inblock); sys.exit(code)' {program}"
    command = f"mpirun --oversubscribe -np {ranks} {rank} --tp {ranks}"
    out, planned, loaded = "", 0, 0
    with subprocess.Popen(command, shell=True, stdout=subprocess.PIPE, text=True) as job:
        for line in job.stdout:
            out += line
            if "memory planned: " in line:
                planned = time.monotonic()
            elif "loaded llama from " in line:
                loaded = time.monotonic()
    if job.returncode != 0:
        sys.exit(f"{command} ended with {job.returncode}")
    seconds = float(re.search(r"loaded llama from .* read in (\d+) ms", out).group(1)) / 1000
    return (seconds, loaded - planned - seconds,
            max(int(kib) for kib in re.findall(r"peak (\d+)", out)) * 1024,
            sum(float(seconds) for seconds in re.findall(r"cpu ([\d.]+)", out)),
            sum(int(blocks) for blocks in re.findall(r"blocks (\d+)", out)) * BLOCK)


def measure(build, directory, small, ranks, filler):
    """One round. `small`: the directory of the model with one layer. Returns: the record."""
    size, small_size = (sum(f.stat().st_size for f in each.glob("*.safetensors"))
                        for each in (directory, small))
    line = {"running": float(pathlib.Path("/proc/loadavg").read_text().split()[0])}
    for count in ranks:
        start = load(build, small, count)[3]
        prepare(directory, filler)
        (line[f"load_s_{count}"], line[f"take_memory_s_{count}"], line[f"peak_bytes_{count}"],
         cpu, disk) = load(build, directory, count)
        line[f"cpu_s_{count}"] = (cpu - start) * size / (size - small_size)
        line[f"disk_{count}"] = disk / size
        prepare(directory, filler)
        line[f"cat_s_{count}"], line[f"cat_cpu_s_{count}"], disk = cat(directory)
        line[f"cat_disk_{count}"] = disk / size
    return line


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--bytes", type=float, default=2e9)
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--dtype", choices=["BF16", "F16"], default="BF16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory")
    parser.add_argument("--json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        directory = pathlib.Path(folder)
        small = directory / "small"
        small.mkdir()
        write_model(small, 0, options.dtype, vocabulary=256)
        size, count = write_model(directory, options.bytes, options.dtype)
        print(f"{size / 1e9:.2f} GB in files, {count / 1e6:.0f} M parameters")
        filler = directory / "filler"
        make_filler(filler)
        record = {"file_bytes": size, "parameters": count, "dtype": options.dtype, "rounds": []}
        ranks = [int(number) for number in options.ranks.split(",")]
        for _ in range(options.rounds):
            record["rounds"].append(measure(options.build, directory, small, ranks, filler))
            print(json.dumps(record["rounds"][-1]), flush=True)

    def median(key):
        return statistics.median(line[key] for line in record["rounds"])
    print(f"{median('running'):.0f} running")
    for count in ranks:
        for name, seconds, cpu, disk in (("cat", "cat_s", "cat_cpu_s", "cat_disk"),
                                         (f"{count} ranks", "load_s", "cpu_s", "disk")):
            print(f"{name}: {size / median(f'{seconds}_{count}') / 1e9:.2f} GB/s, "
                  f"{median(f'{cpu}_{count}') / size * 1e9:.2f} processor s/GB, "
                  f"{median(f'{disk}_{count}'):.2f} of the files from disk")
        ratio = statistics.median(line[f"load_s_{count}"] / line[f"cat_s_{count}"]
                                  for line in record["rounds"])
        print(f"  {ratio:.2f} x cat (median of the rounds); "
              f"memory taken in {median(f'take_memory_s_{count}'):.1f} s, "
              f"{max(line[f'peak_bytes_{count}'] for line in record['rounds']) / 1e9:.2f} GB peak "
              f"of a rank")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
