"""PyTorch saves the same number of bytes from the same number of ranks:
torch.distributed.checkpoint.async_save, and torch.save of each rank's share with fsync. Prints one
JSON object: medians over the saves after the first, the slowest rank's.

usage: python -m torch.distributed.run --nproc-per-node RANKS checkpoint.py --bytes N
       --directory DIR [--saves 4]
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp


def slowest(seconds):
    value = torch.tensor(seconds)
    dist.all_reduce(value, dist.ReduceOp.MAX)
    return value.item()


def dcp_async(state, path):
    start = time.perf_counter()
    saving = dcp.async_save(state, checkpoint_id=str(path))
    stall = time.perf_counter() - start
    saving.result()
    return stall, time.perf_counter() - start


def torch_save(state, path):
    path.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    with open(path / f"rank{dist.get_rank()}.pt", "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    took = time.perf_counter() - start
    return took, took


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--bytes", type=int, required=True)
    p.add_argument("--directory", type=pathlib.Path, required=True)
    p.add_argument("--saves", type=int, default=4)
    a = p.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size, tensors = dist.get_rank(), dist.get_world_size(), 48
    elements = a.bytes // size // tensors // 4
    state = {f"rank{rank}.tensor{i}": torch.rand(elements) for i in range(tensors)}
    record = {"torch": torch.__version__, "ranks": size, "bytes": elements * 4 * tensors * size}
    for name, save in (("async_save", dcp_async), ("torch.save", torch_save)):
        rows = []
        for i in range(a.saves):
            path = a.directory / name / str(i)
            dist.barrier()
            stall, durable = save(state, path)
            rows.append((slowest(stall), slowest(durable)))
            dist.barrier()
            if rank == 0:
                shutil.rmtree(path)
        rows = rows[1:] or rows
        record[name] = {"stall_s": statistics.median(r[0] for r in rows),
                        "durable_s": statistics.median(r[1] for r in rows)}
    if rank == 0:
        print(json.dumps(record))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
