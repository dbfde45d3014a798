#!/usr/bin/env python3
"""Bandwidth of each memory-bound kernel as a share of a device copy, for working sets that no cache
holds. Times are medians of 5 batches of launches after a warm-up, by the host's clock. FILE is
written after every kernel.

usage: tests/benchmarks/gpu/kernels.py [--build DIR | --installation DIR] [--working-set-mb 512]
       [--json FILE] [--limit-s S] [--again]
"""
import argparse
import sys

from machine import Machine, device_name
from programs import Programs, add_arguments, end_with_programs, json_lines
from results import Results

AIM, NOT_AIMED_AT = 0.9, ("copy", "embedding_backward")


def measure(programs, results, working_set_mb):
    rows = []

    def take(partial):
        def line(text):
            rows.extend(json_lines(text))
            partial({"rows": rows})

        programs.run("gpu_kernels_benchmark", working_set_mb, on_line=line)
        return {"rows": rows}

    return results.measure("kernels", {"working_set_mb": working_set_mb}, take)


def print_rows(rows, head):
    print(f"# {head}")
    print(f"{'kernel':24} {'type':5} {'ms':>9} {'least':>9} {'most':>9} {'GB/s':>8} {'of copy':>8}")
    for row in rows:
        mark = " <" if row["of_copy"] < AIM and row["kernel"] not in NOT_AIMED_AT else ""
        print(f"{row['kernel']:24} {row['dtype']:5} {row['ms']:9.4f} {row['ms_min']:9.4f} "
              f"{row['ms_max']:9.4f} {row['gb_per_s']:8.1f} {row['of_copy']:8.1%}{mark}")


def summary(rows):
    aimed = [row for row in rows if row["kernel"] not in NOT_AIMED_AT]
    reached = sum(row["of_copy"] >= AIM for row in aimed)
    return (f"{reached} of {len(aimed)} kernels at {AIM:.0%} of copy bandwidth or more, "
            f"{rows[0]['gb_per_s']:.0f} GB/s")


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(p)
    p.add_argument("--working-set-mb", type=int, default=512)
    a = p.parse_args()
    end_with_programs()
    programs, device = Programs(a), device_name()
    results = Results(a.json, Machine(programs), a.again)
    record = measure(programs, results, a.working_set_mb)
    rows = record.get("rows", [])
    if rows:
        print_rows(rows, f"{device}, working sets of {a.working_set_mb} MB")
        results.content |= {"summary": summary(rows), "device": device}
        results.write()
        print(f"# {results.content['summary']}")
    if record["status"] != "measured":
        print(f"kernels.py: {record['reason']}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
