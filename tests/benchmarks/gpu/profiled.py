"""Profiles of a step (train_gpt --profile-ops) that training.py left in its results: their largest
rows, and what was predicted beside them."""
import json

from prediction import Prediction, case_of, operations_of
from rates import CARDS

LARGEST = 15  # rows that are printed; results have all


def measured_profiles(file):
    """{case key: (Case, name of the GPU)} of the profiles in a file of training.py, or in the
    summary.json of tests/gpu/run."""
    found = {}
    for name, record in records_of(file).items():
        if name.endswith("/profile") and record["status"] == "measured":
            case = case_of(record["profile"], f"--measured {file}: {name}")
            found[case.key] = case, device_of(record)
    if not found:
        raise SystemExit(f"--measured {file}: it has no profile: training.py --part profile")
    return found


def records_of(file):
    """{name: record} of all sub-measurements; of several stages the latest."""
    try:
        content = json.loads(file.read_text())
        if isinstance(content, dict):
            return content["measured"]
        stages = [stage for stage in content if stage["stage"].startswith("benchmarks.")]
        return {name: record for stage in sorted(stages, key=lambda stage: stage["started"])
                for name, record in stage.get("details", {}).get("measured", {}).items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SystemExit(f"--measured {file}: neither results of training.py nor the summary.json "
                         f"of tests/gpu/run: {error!r}") from None


def device_of(record):
    return record["machine"]["gpu"]["name"] or "emulated"


def card_of(devices):
    """Name of the first card that one of the devices is; of the first card where none is."""
    return next((name for name in CARDS if any(name in device for device in devices)),
                next(iter(CARDS)))


def compare(prediction, measured):
    """Rows of a measured profile beside the prediction, the largest gap first; without a time
    none."""
    times = {(row["op"], row["phase"]): row["ms"] for row in measured.rows if row["ms"] is not None}
    found = []
    for row in prediction.case.rows:
        predicted, ms = prediction.row_ms(row), times.get((row["op"], row["phase"]))
        if ms is not None:
            found.append({"op": row["op"], "phase": row["phase"], "predicted_ms": predicted,
                          "ms": ms, "ratio": ms / predicted if predicted else None,
                          "gap_ms": ms - predicted})
    return sorted(found, key=lambda row: -row["gap_ms"])


def print_comparison(rows, device, most=None):
    """`rows`: of compare(); of them `most` at most."""
    print(f"# measured on {device}, beside the prediction")
    print(f"{'op':24} {'phase':9} {'predicted':>10} {'measured':>10} {'ratio':>7} {'gap ms':>9}")
    for row in rows[:most]:
        ratio = f"{row['ratio']:7.2f}" if row["ratio"] else f"{'-':>7}"
        print(f"{row['op']:24} {row['phase']:9} {row['predicted_ms']:10.3f} {row['ms']:10.3f} "
              f"{ratio} {row['gap_ms']:9.3f}")
    if rows and rows[0]["gap_ms"] > 0:
        worst = rows[0]
        print(f"# next gain: {worst['op']} {worst['phase']}, {worst['gap_ms']:.2f} ms more than "
              "predicted")
    else:
        print("# next gain: none; nothing takes longer than predicted")


def print_rows(rows):
    """The largest rows of a profile, as train_gpt's own table has them."""
    timed = sorted((row for row in rows if row["ms"]), key=lambda row: -row["ms"])
    whole = sum(row["ms"] for row in timed)
    print(f"# profile of a step, {whole:.2f} ms in {len(timed)} rows; the largest:")
    print(f"{'op':24} {'phase':9} {'calls':>5} {'ms':>9} {'share':>6} {'GB/s':>8} {'TFLOP/s':>8} "
          f"{'of limit':>8}")
    for row in timed[:LARGEST]:
        ms, limit = row["ms"], row.get("limit_ms")
        of_limit = f"{limit / ms:8.1%}" if limit else f"{'-':>8}"
        print(f"{row['op']:24} {row['phase']:9} {row['calls']:5} {ms:9.3f} {ms / whole:6.1%} "
              f"{row['bytes'] / ms * 1e-6:8.1f} {row['flops'] / ms * 1e-9:8.1f} {of_limit}")


def print_profile(record, source):
    """Of a record of training.py: its largest rows, and where they exceed the prediction the
    most. `source` is for errors."""
    case, device = case_of(record["profile"], source), device_of(record)
    card = CARDS[card_of([device])]
    print_rows(case.rows)
    print(f"# predicted for {card.name}: predict.py")
    prediction = Prediction(case, card, operations_of(case))
    print_comparison(compare(prediction, case), device, LARGEST)
