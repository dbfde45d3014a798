#!/usr/bin/python3
"""The predicted step (tests/benchmarks/gpu/predict.py) against sums made by hand, and its
comparison with a profile. usage: tests/gpu/prediction_test.py [-v]"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pretend import Pretended, unittest  # its folder of benchmarks comes first in sys.path

import predict
import prediction
import rates
from models import MODELS

LAYERS, ROWS, WIDTH = 12, 32 * 1024, 768
HALVES = ROWS * WIDTH * 2  # bytes of one activation in bf16


def row(op, phase, calls, size=0.0, flops=0.0, ms=None, operations=None):
    return {"op": op, "phase": phase, "names": calls, "calls": calls, "ms": ms, "bytes": size,
            "flops": flops, "operations": operations}


def product(out, inner):
    return 2.0 * ROWS * out * inner


def gpt2(**more):
    """Counts of GPT-2 124M, 32 x 1024, as a plan has them, made by hand."""
    square, wide, scores = product(2304, 768) + product(768, 768), product(3072, 768), 51.5e9
    rows = [row("layer_norm", "forward", LAYERS + 1, (LAYERS + 1) * 2 * HALVES),
            row("add_layer_norm", "forward", LAYERS, LAYERS * 4 * HALVES),
            row("linear", "forward", 2 * LAYERS, 1.0, LAYERS * square),
            row("linear_gelu", "forward", LAYERS, 1.0, LAYERS * wide),
            row("gelu_linear", "forward", LAYERS, 1.0, LAYERS * wide),
            row("causal_attention", "forward", LAYERS, 1.0, LAYERS * scores),
            row("add", "forward", LAYERS, LAYERS * 3 * HALVES),
            row("linear", "backward", 2 * LAYERS, 1.0, 2 * LAYERS * square),
            row("linear_gelu", "backward", LAYERS, 1.0, 2 * LAYERS * wide),
            row("gelu_linear", "backward", LAYERS, 1.0, 2 * LAYERS * wide),
            row("causal_attention", "backward", LAYERS, 1.0, LAYERS * 2.5 * scores),
            row("layer_norm", "backward", LAYERS + 1, (LAYERS + 1) * 4 * HALVES),
            row("add_layer_norm", "backward", LAYERS, LAYERS * 4 * HALVES),
            row("linear_cross_entropy", "backward", 1, 1.0, 3 * product(50264, 768)),
            row("gradient_norm", "step", 1, 4 * 124439808),
            row("update", "step", 1, 30 * 124439808)]
    return {"device": "x", "model": "gpt2-124m", "micro_batch": 32, "sequence": 1024,
            "micro_batches": 1, "step": None, "rows": rows, **more}


class Prediction(unittest.TestCase):
    def setUp(self):
        case = prediction.case_of(gpt2(), "here")
        self.prediction = prediction.Prediction(case, rates.CARDS["H200"])

    def test_a_layer_is_what_was_counted_by_hand(self):
        layer = self.prediction.layer()
        by_hand = rates.BY_HAND_LAYER_US["gpt2-124m", 32, 1024]
        self.assertEqual(layer.keys(), by_hand.keys())
        for group, us in by_hand.items():
            self.assertAlmostEqual(layer[group] / us, 1, delta=0.02, msg=group)

    def test_a_step_is_what_was_counted_by_hand(self):
        self.assertAlmostEqual(sum(self.prediction.step().values()), 69.8, delta=0.1)

    def test_single_rows(self):
        def found(*numbers):
            parts = self.prediction.parts(row(*numbers))
            return [(part.group, round(part.ms, 6)) for part in parts]

        self.assertEqual(found("add", "forward", 1, 4.3e9 * 0.85), [("residual", 1.0)])
        self.assertEqual(found("rotary", "backward", 1, 4.3e9 * 0.85), [("rotary", 1.0)])
        self.assertEqual(found("zero_gradients", "step", 1, 4.3e9 * 0.96), [("zero", 1.0)])
        self.assertEqual(found("causal_attention", "forward", 1, 0, 200e9),
                         [("attention forward", 1.0)])
        self.assertEqual(found("rms_norm", "backward", 250, 4.3e9 * 0.7),
                         [("norms backward", 1.0)] * 2)
        self.assertEqual(found("linear", "forward", 1, 0, 545e9), [("products", 1.0)])
        delta = 12 * 2 * HALVES / (4.3e9 * 0.55)
        self.assertEqual(found("causal_attention", "backward", 1, 0, 140e9),
                         [("attention backward", 1.0), ("delta", round(delta, 6))])

    def test_with_cudnns_attention_only_that_changes(self):
        ours = self.prediction.step()
        theirs = predict.result_of(self.prediction)["with_cudnn_attention_ms"]
        flops = 12 * 51.5e9
        cudnn = flops / 285e9 + 2.5 * flops / 245e9
        self.assertAlmostEqual(theirs, sum(ours.values()) - ours["delta"] + cudnn
                               - ours["attention forward"] - ours["attention backward"])

    def test_fewer_layers_are_those_of_the_counts(self):
        rows = [row("causal_attention", "forward", 3), row("causal_attention", "backward", 3)]
        case = prediction.case_of(gpt2(rows=rows, micro_batches=3), "here")
        delta = prediction.Prediction(case, rates.CARDS["H200"]).step()["delta"]
        self.assertAlmostEqual(delta, 3 * 2 * HALVES / (4.3e9 * 0.55))

    def test_llama_has_no_bias_and_no_gelu(self):
        case = prediction.case_of(gpt2(model="llama-1b", micro_batch=1, sequence=8192), "here")
        groups = prediction.Prediction(case, rates.CARDS["H200"]).step()
        self.assertNotIn("bias gradients", groups)
        self.assertEqual(case.m.sequence, 8192)

    def test_gaps_are_those_of_the_operations(self):
        profile = prediction.case_of(gpt2(rows=[row("add", "forward", 2, operations=6),
                                             row("linear", "forward", 2, operations=None)]), "here")
        launches = prediction.operations_of(profile)
        self.assertEqual(launches, {("add", "forward"): 3.0})
        found = prediction.Prediction(self.prediction.case, rates.CARDS["H200"], launches)
        self.assertAlmostEqual(found.step()["gaps"], LAYERS * 3 * rates.GAP_US * 1e-3)

    def test_an_h100_copies_more_slowly_and_multiplies_as_fast(self):
        slow = prediction.Prediction(self.prediction.case, rates.CARDS["H100"]).step()
        fast = self.prediction.step()
        self.assertEqual(slow["products"], fast["products"])
        self.assertAlmostEqual(slow["update"] / fast["update"], 4.3 / 3.0)

    def test_attention_between_and_beyond_the_lengths_of_the_table(self):
        rate = lambda sequence, dim=64: rates.attention_tflops("trireme", dim, sequence, False)
        self.assertEqual([rate(64), rate(1024), rate(8192), rate(32768)], [200, 200, 265, 265])
        self.assertAlmostEqual(rate(4096), 247.5)
        self.assertEqual(rate(1024, 128), 250)

    def test_operations_that_ran_again_count_as_forward(self):
        again = self.prediction.parts(row("linear", "recompute", 1, 0, 545e9))
        self.assertEqual([(part.group, round(part.ms, 6)) for part in again], [("products", 1.0)])


class Program(Pretended):
    """predict.py as a whole."""

    def write(self, name, content):
        file = self.root / name
        file.write_text(json.dumps(content))
        return file

    def predict(self, *arguments):
        self.file.unlink(missing_ok=True)
        return self.run_script("predict.py", *arguments)

    def measured(self, ms_of):
        rows = [{**r, "ms": ms_of(r), "operations": r["calls"]} for r in gpt2()["rows"]]
        record = {"status": "measured", "machine": {"gpu": {"name": "NVIDIA H100 80GB HBM3"}},
                  "profile": gpt2(rows=rows)}
        return self.write("measured.json", {"measured": {
            "gpt2-124m/profile": record, "gpt2-124m/trireme": {"status": "failed"}}})

    def test_the_table_and_the_json(self):
        status, output = self.predict("--counts", self.write("counts.json", gpt2()))
        self.assertEqual(status, 0, output)
        self.assertIn("H200: predicted, not measured", output)
        self.assertRegex(output, r"\nproducts +30.64 +43.9% +2553 +2553\n")
        self.assertRegex(output, r"torch.compile \(estimated\) 67.7 ms, 0.97 x ours")
        case = self.content()["cases"][0]
        self.assertAlmostEqual(case["step_ms"], sum(case["step"].values()))
        self.assertAlmostEqual(case["tokens_per_s"], 32768 / case["step_ms"] * 1e3)

    def test_what_is_slower_than_predicted_is_the_next_gain(self):
        slow = self.measured(lambda r: 20.0 if r["op"] + r["phase"] == "causal_attentionbackward"
                             else 0.5)
        counts = self.write("counts.json", gpt2())
        status, output = self.predict("--counts", counts, "--measured", slow)
        self.assertEqual(status, 0, output)
        self.assertIn("sequences of 1024, H100: predicted", output)
        self.assertNotIn("by hand 70.2", output)  # that is of an H200
        self.assertIn("# measured on NVIDIA H100 80GB HBM3, beside the prediction", output)
        self.assertIn("# next gain: causal_attention backward, 8.23 ms more than predicted", output)
        first = self.content()["cases"][0]["measured"][0]
        self.assertEqual((first["op"], first["ms"]), ("causal_attention", 20.0))
        self.assertAlmostEqual(first["ratio"], 20 / first["predicted_ms"])
        status, output = self.predict("--counts", counts, "--measured", slow, "--card", "H200")
        self.assertIn("# next gain: causal_attention backward, 8.45 ms more than predicted", output)

    def test_a_profile_is_enough(self):
        measured = self.measured(lambda r: 1.0)
        status, output = self.predict("--measured", measured)
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"\nproducts +30.64 ")
        calls = sum(r["calls"] for r in gpt2()["rows"])
        self.assertAlmostEqual(self.content()["cases"][0]["step"]["gaps"], calls * 1e-3)
        self.assertIn("# measured on NVIDIA H100", output)
        self.assertEqual(self.calls(), [])

    def test_the_summary_of_an_acceptance_is_enough(self):
        def stage(started, ms, **details):
            measured = self.measured(lambda r: ms)
            return {"stage": "benchmarks.gpt2-124m.x", "started": started, "status": "passed",
                    "details": {**json.loads(measured.read_text()), "text": "a table", **details}}

        stages = [stage("12:05", 2.0), stage("12:01", 1.0), {"stage": "probe", "started": "12:00"},
                  {"stage": "benchmarks.nccl", "started": "12:06", "details": {"summary": "x"}}]
        status, output = self.predict("--measured", self.write("summary.json", stages))
        self.assertEqual(status, 0, output)
        self.assertIn("# measured on NVIDIA H100", output)
        rows = self.content()["cases"][0]["measured"]
        self.assertEqual({row["ms"] for row in rows}, {2.0}, "the latest counts")

    def test_a_case_that_was_not_measured_is_said(self):
        counts = self.write("counts.json", gpt2(micro_batch=16))
        measured = self.measured(lambda r: 1.0)
        _, output = self.predict("--counts", counts, "--measured", measured)
        self.assertIn(f"--measured {measured} has no profile of this case", output)

    def test_what_is_faster_has_no_next_gain(self):
        fast = self.measured(lambda r: 1e-6)
        _, output = self.predict("--counts", self.write("counts.json", gpt2()), "--measured", fast)
        self.assertIn("# next gain: none", output)

    def test_without_counts_the_program_counts(self):
        self.program("build/bin/gpu_step_counts", f"#!/bin/bash\necho \"$*\" >> @calls\n"
                     f"cat {self.write('counts.json', gpt2())}\n")
        status, output = self.predict()
        self.assertEqual(status, 0, output)
        calls = self.calls()
        self.assertEqual(len(calls), 4 + 2)
        self.assertIn("--model llama-1b --num-layers 2", calls[-1])
        gaps = self.content()["cases"][0]["step"]["gaps"]
        self.assertAlmostEqual(gaps, LAYERS * rates.GAP_US * 1e-3)

    def test_other_files_are_named(self):
        other = self.write("other.json", {"model": "gpt2-124m"})
        unknown = self.write("unknown.json", gpt2(model="mlp"))
        empty = self.write("empty.json", {"measured": {}})
        neither = self.write("neither.json", [{"stage": "benchmarks.x", "details": None}])
        counts = self.write("counts.json", gpt2())
        for arguments, message in ((("--counts", other), f"{other}: not the counts of a step"),
                                   (("--counts", unknown), f"{unknown}: model 'mlp' is not one of"),
                                   (("--counts", counts, "--measured", empty),
                                    f"{empty}: it has no profile"),
                                   (("--counts", counts, "--measured", neither),
                                    f"{neither}: neither results of training.py nor the summary"),
                                   (("--counts", counts, "--measured", self.write("no.json", [])),
                                    "no.json: it has no profile"),
                                   (("--launches", self.root / "no"),
                                    f"{self.root}/no: not the counts")):
            status, output = self.predict(*arguments)
            self.assertEqual(status, 1, output)
            self.assertIn(message, output)


if __name__ == "__main__":
    unittest.main()
