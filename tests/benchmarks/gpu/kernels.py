#!/usr/bin/env python3
"""Bandwidth of each memory-bound kernel as a share of a device copy, for working sets that no cache holds.

usage: tests/benchmarks/gpu/kernels.py [--build DIR | --installation DIR] [--working-set-mb 512] [--json FILE]
"""
import argparse
import json

from programs import Programs, add_arguments, device_name, json_lines

AIM, NOT_AIMED_AT = 0.9, ("copy", "embedding_backward")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(p)
    p.add_argument("--working-set-mb", type=int, default=512)
    a = p.parse_args()
    rows = json_lines(Programs(a).run("gpu_kernels_benchmark", a.working_set_mb))
    print(f"# {device_name()}, working sets of {a.working_set_mb} MB")
    print(f"{'kernel':24} {'type':5} {'ms':>9} {'GB/s':>8} {'of copy':>8}")
    for row in rows:
        mark = " <" if row["of_copy"] < AIM and row["kernel"] not in NOT_AIMED_AT else ""
        print(f"{row['kernel']:24} {row['dtype']:5} {row['ms']:9.4f} {row['gb_per_s']:8.1f} {row['of_copy']:8.1%}{mark}")
    aimed = [row for row in rows if row["kernel"] not in NOT_AIMED_AT]
    reached = sum(row["of_copy"] >= AIM for row in aimed)
    summary = f"{reached} of {len(aimed)} kernels at {AIM:.0%} of copy bandwidth or more, {rows[0]['gb_per_s']:.0f} GB/s"
    print(f"# {summary}")
    if a.json:
        a.json.write_text(json.dumps({"summary": summary, "device": device_name(), "kernels": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
