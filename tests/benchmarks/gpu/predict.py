#!/usr/bin/env python3
"""What a step should take on an H200 or H100, op by op: counts of the plan (gpu_step_counts) at the
rates of rates.py. An estimate, for hardware to be held against; beside it what is estimated of
torch.compile and llm.c, and what was counted by hand. With --measured, the profile of training.py
is printed beside it, op by op, and the largest gap is named: the next gain.

usage: tests/benchmarks/gpu/predict.py [--build DIR | --installation DIR] [--card H200|H100]
       [--counts FILE]... [--launches FILE]... [--measured FILE] [--json FILE] [--limit-s S]
  --counts FILE    output of gpu_step_counts. Default: the counts of --measured; without it runs the
                   program for GPT-2 124M 32x1024, 1558M 8x1024, Llama 1B 8x1024 and 1x8192, and
                   train_gpt --profile-ops on two narrow layers for --launches. TRIREME_CUDA_MODULE
                   may name the emulated module for both
  --launches FILE  a profile of a few layers (train_gpt --profile-ops): operations by op, for the
                   gaps between kernels; one for each kind of model. With --counts alone no gaps
  --measured FILE  results of training.py --part profile, or the summary.json of tests/gpu/run
"""
import argparse
import dataclasses
import json
import pathlib
import tempfile

from models import MODELS
from peers import write_tokens
from prediction import Prediction, case_of, operations_of, read_case
from profiled import card_of, compare, measured_profiles, print_comparison
from programs import Failed, Programs, add_source, positive
from rates import (BY_HAND_LAYER_US, BY_HAND_STEP_MS, CARDS, ESTIMATED_ON, PEERS_LAYER_MS,
                   PEERS_STEP_MS)
from results import write_json

CASES = (("gpt2-124m", 32, 1024), ("gpt2-1558m", 8, 1024), ("llama-1b", 8, 1024),
         ("llama-1b", 1, 8192))  # model, micro-batch, sequence
NARROW = ("--num-layers", 2, "--hidden-size", 128, "--ffn-hidden-size", 256,
          "--num-attention-heads", 2, "--vocab-size", 256, "--seq-length", 32, "--train-iters", 2,
          "--profile-step", 2, "--global-batch-size", 1, "--micro-batch-size", 1, "--bf16",
          "--lm-head-chunks", 8, "--split", "1,0,0", "--device", "cuda")


def result_of(prediction):
    """The prediction of a case, as --json has it."""
    case, step = prediction.case, prediction.step()
    with_cudnn = dataclasses.replace(prediction, whose_attention="cudnn").step()
    key = case.key if prediction.card.name == ESTIMATED_ON else None
    ms, estimates = sum(step.values()), {
        "by_hand_ms": BY_HAND_STEP_MS.get(key), "peers_ms": PEERS_STEP_MS.get(key, {}),
        "by_hand_layer_us": BY_HAND_LAYER_US.get(key),
        "peers_layer_ms": PEERS_LAYER_MS.get(key, {})}
    return {"model": case.model, "micro_batch": case.micro_batch, "sequence": case.sequence,
            "micro_batches": case.micro_batches, "step_ms": ms,
            "tokens_per_s": case.tokens / ms * 1e3, "step": step, "layer_us": prediction.layer(),
            "with_cudnn_attention_ms": sum(with_cudnn.values()), **estimates}


def print_case(result, card):
    print(f"# {result['model']}, {result['micro_batches']} x {result['micro_batch']} sequences of "
          f"{result['sequence']}, {card.name}: predicted, not measured")
    by_hand = result["by_hand_layer_us"] or {}
    print(f"{'':24} {'step ms':>9} {'share':>7} {'layer us':>9} {'by hand':>9}")
    for group, ms in sorted(result["step"].items(), key=lambda item: -item[1]):
        layer = result["layer_us"].get(group)
        print(f"{group:24} {ms:9.2f} {ms / result['step_ms']:7.1%} {show(layer)} "
              f"{show(by_hand.get(group))}")
    whole = sum(result["layer_us"].values())
    print(f"{'sum':24} {result['step_ms']:9.2f} {'':7} {show(whole)} "
          f"{show(sum(by_hand.values()) or None)}")
    for name, ms in result["peers_layer_ms"].items():
        print(f"{name + ' (estimated)':24} {'':17} {ms * 1e3:9.0f}")
    print(f"# {result['tokens_per_s']:.0f} tokens/s; with cuDNN's attention "
          f"{result['with_cudnn_attention_ms']:.1f} ms" + beside(result))


def show(us):
    return f"{us:9.0f}" if us is not None else f"{'-':>9}"


def beside(result):
    """What is estimated of others for the same step."""
    texts = [f"; {name} (estimated) {ms:.1f} ms, {ms / result['step_ms']:.2f} x ours"
             for name, ms in result["peers_ms"].items()]
    if result["by_hand_ms"]:
        texts.append(f"; ours counted by hand {result['by_hand_ms']:.1f} ms")
    return "".join(texts)


def count_cases(programs):
    """Runs gpu_step_counts, as training.py trains."""
    for model, micro_batch, sequence in CASES:
        yield case_of(json.loads(programs.run(
            "gpu_step_counts", "--model", model, "--micro-batch-size", micro_batch,
            "--global-batch-size", micro_batch, "--seq-length", sequence, "--bf16",
            "--lm-head-chunks", 8)), "gpu_step_counts")


def profile_narrow(programs):
    """Profiles of two narrow layers of each kind of model: the operations of their ops."""
    with tempfile.TemporaryDirectory() as folder:
        data, profile = pathlib.Path(folder) / "tokens", pathlib.Path(folder) / "profile.json"
        write_tokens(data, 256, 4096)
        for model in ("gpt2-124m", "llama-1b"):
            groups = ["--num-query-groups", 1] if MODELS[model].llama else []
            programs.run("train_gpt", "--model", model, *NARROW, *groups, "--data-path", data,
                         "--profile-ops", profile, "--metrics", f"{data}.metrics")
            yield read_case(profile)


def launches_of(profiles):
    """{is it a Llama: {(op, phase): operations of a call}}"""
    return {profile.m.llama: operations_of(profile) for profile in profiles}


def parse():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    add_source(p)
    p.add_argument("--counts", type=pathlib.Path, action="append", metavar="FILE")
    p.add_argument("--launches", type=pathlib.Path, action="append", default=[], metavar="FILE")
    p.add_argument("--card", choices=CARDS, help="default: the one of --measured, else H200")
    p.add_argument("--measured", type=pathlib.Path, metavar="FILE",
                   help="results of training.py, or the summary.json of tests/gpu/run")
    p.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the prediction there")
    p.add_argument("--limit-s", type=positive, default=120.0, metavar="S",
                   help="for each program that is started (default 120)")
    return p.parse_args()


def main():
    a = parse()
    measured = measured_profiles(a.measured) if a.measured else {}
    card = CARDS[a.card or card_of([device for _, device in measured.values()])]
    profiles = [read_case(file) for file in a.launches]
    try:
        programs = Programs(a)
        if a.counts:
            cases = [read_case(file) for file in a.counts]
        elif measured:  # a profile has its counts
            cases = [profile for profile, _ in measured.values()]
            profiles = profiles or cases
        else:
            cases = list(count_cases(programs))
            profiles = profiles or profile_narrow(programs)
        launches = launches_of(profiles)
    except Failed as failure:
        raise SystemExit(f"predict.py: {failure}") from None
    results = []
    for case in cases:
        prediction = Prediction(case, card, launches.get(case.m.llama, {}))
        results.append(result_of(prediction))
        print_case(results[-1], card)
        if measured and case.key not in measured:
            print(f"# --measured {a.measured} has no profile of this case")
        elif measured:
            profile, device = measured[case.key]
            results[-1]["measured"] = compare(prediction, profile)
            print_comparison(results[-1]["measured"], device)
    if a.json:
        write_json(a.json, {"card": card.name, "gaps": bool(launches), "cases": results})


if __name__ == "__main__":
    main()
