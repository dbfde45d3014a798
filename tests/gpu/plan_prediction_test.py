#!/usr/bin/python3
"""The predicted step (tests/benchmarks/gpu/predict.py) from the plans that the planner makes:
within 5 % of what was counted by hand. TRIREME_CUDA_MODULE names the emulated module.
usage: tests/gpu/plan_prediction_test.py BUILD"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

BENCHMARKS = pathlib.Path(__file__).resolve().parents[1] / "benchmarks/gpu"
CLOSE = 0.05


class FromThePlan(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "predicted.json"
            subprocess.run([sys.executable, BENCHMARKS / "predict.py", "--build", BUILD, "--json",
                            file], check=True)
            cls.cases = json.loads(file.read_text())["cases"]

    def test_steps_are_those_counted_by_hand(self):
        self.assertEqual(len(self.cases), 4)
        for case in self.cases:
            with self.subTest(case["model"], sequence=case["sequence"]):
                self.assertAlmostEqual(case["step_ms"] / case["by_hand_ms"], 1, delta=CLOSE)

    def test_so_is_a_layer_part_by_part(self):
        layer, by_hand = (self.cases[0][key] for key in ("layer_us", "by_hand_layer_us"))
        self.assertEqual(layer.keys(), by_hand.keys())
        for group, us in by_hand.items():
            self.assertAlmostEqual(layer[group] / us, 1, delta=CLOSE, msg=group)

    def test_operations_are_counted(self):
        step = self.cases[0]["step"]
        self.assertAlmostEqual(step["gaps"], 0.4, delta=0.04)  # 12 x 27, the head and the ends


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main()
