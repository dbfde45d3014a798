#!/usr/bin/python3
"""What two trainings are compared by (tests/gpu/parity.py) notices what it should.
usage: tests/gpu/parity_test.py [-v]"""
import array
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import parity
import training_stages
from work import Failed, Work

NAN = float("nan")


class Comparisons(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)

    def training(self, name, losses=(5.0, 4.0), values=(1.0, 2.0, 3.0)):
        folder = self.root / name
        folder.mkdir()
        for which in ("gradients", "parameters"):
            (folder / f"tensors.{which}.f32").write_bytes(array.array("f", values).tobytes())
            (folder / f"tensors.{which}.index").write_text("a 2 0\nb - 8\n")
        return parity.Training(list(losses), [1.0] * len(losses), list(map(str, losses)), folder)

    def test_equal_ones_are_equal(self):
        a, b = self.training("a"), self.training("b")
        parity.require_same_bits(a, b)
        found = parity.difference(a, b)
        found.require_below(parity.LAYOUTS_AGREE)
        self.assertEqual(str(found),
                         "loss 0.0e+00, norm 0.0e+00, gradients 0.0e+00, parameters 0.0e+00")

    def test_a_loss_that_differs_is_noticed(self):
        a, b = self.training("a"), self.training("b", losses=(5.0, 4.0001))
        self.assertAlmostEqual(parity.difference(b, a).loss, 2.5e-5)
        with self.assertRaisesRegex(Failed, "the loss differs by 2.50e-05, more than 2e-07"):
            parity.difference(b, a).require_below(parity.LAYOUTS_AGREE)
        with self.assertRaisesRegex(Failed, "differ from step 2 on"):
            parity.require_same_bits(a, b)

    def test_the_band_of_devices_is_wider_after_the_first_steps(self):
        def apart(name, step):
            losses = [4.0] * 20
            losses[step - 1] *= 1 + 5e-5
            return parity.difference(self.training(name, losses), self.exact)

        self.exact = self.training("exact", [4.0] * 20)
        apart("late", 6).require_below(parity.DEVICES_AGREE)
        with self.assertRaisesRegex(Failed, "the loss differs by 5.00e-05, more than 1e-05"):
            apart("early", 5).require_below(parity.DEVICES_AGREE)
        losses = [4.0] * 19 + [4.0 * (1 + 2e-4)]
        with self.assertRaisesRegex(Failed, "after step 5 the loss differs by 2.00e-04"):
            parity.difference(self.training("far", losses),
                              self.exact).require_below(parity.DEVICES_AGREE)

    def test_the_band_of_layouts_is_wider_on_a_gpu_for_losses_only(self):
        a, b = self.training("a"), self.training("b", losses=(5.0, 4.000004))
        found = parity.difference(b, a)
        found.require_below(parity.LAYOUTS_AGREE_ON_A_GPU)
        with self.assertRaisesRegex(Failed, "the loss differs by 1.00e-06, more than 2e-07"):
            found.require_below(parity.LAYOUTS_AGREE)
        both = [(limit.gradient, limit.grad_norm, limit.parameter)
                for limit in (parity.LAYOUTS_AGREE, parity.LAYOUTS_AGREE_ON_A_GPU)]
        self.assertEqual(both, [(1e-5, 1e-5, 3e-5)] * 2)

    def test_a_tensor_that_differs_is_named(self):
        a, b = self.training("a"), self.training("b", values=(1.0, 2.0, 3.3))
        found = parity.difference(b, a)
        self.assertEqual((found.gradient[1], found.parameter[1]), ("b", "b"))
        self.assertAlmostEqual(found.gradient[0], 0.1, places=6)
        self.assertAlmostEqual(found.parameter[0], 0.3, places=6)
        with self.assertRaisesRegex(Failed, "the gradient of b differs by 1.00e-01"):
            found.require_below(parity.LAYOUTS_AGREE)
        with self.assertRaisesRegex(Failed, "two runs have other gradients"):
            parity.require_same_bits(a, b)

    def test_what_was_measured_is_kept_before_it_is_judged(self):
        a, b = self.training("a"), self.training("b", losses=(5.0, 4.0001))
        work = Work(self.root / "log", 1, 1)
        with self.assertRaises(Failed):
            training_stages.compare(work, b, a, parity.LAYOUTS_AGREE)
        self.assertAlmostEqual(work.found()["difference"]["losses"][1], 2.5e-5)
        self.assertIn("loss 2.5e-05", work.found()["summary"])

    def test_bounds_hold_and_nan_is_above_each(self):
        parity.require_below("it", 1e-8, 1e-7)
        for value in (1e-6, NAN):
            with self.assertRaisesRegex(Failed, "it differs by"):
                parity.require_below("it", value, 1e-7)
        self.assertNotEqual(parity.largest([1.0, NAN, 2.0]), 2.0)


if __name__ == "__main__":
    unittest.main()
