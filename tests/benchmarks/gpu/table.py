"""The table of training.py, and its line for people."""
from models import peak_tflops
from peers import form_of

OTHERS = ("trireme", "trireme-no-cache", "llmc")  # rows that are not PyTorch's
SHORT = {"trireme": "trireme-short", "pytorch": "pytorch-short"}  # whose host time they give


def first_line(text):
    """The line of a reason that says the most: the last of a program's output."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def step_ms(measured, name):
    record = measured.get(name)
    return record["step_ms"] if record and record["status"] == "measured" else None


def show(number, form):
    return "-" if number is None else format(number, form)


def row(s, measured, name, floor_ms, peak):
    """One line of the table for what was measured."""
    record, flops = measured[name], s.model.flops_per_token()
    ms, steps = record["step_ms"], record["steps"]
    rate = s.tokens / ms * 1e3
    mfu = [rate * flops[which] / peak * 1e-12 if peak else None for which in ("palm", "causal")]
    return (f"{name:22} {rate:9.0f} {ms:9.2f} {steps['min']:9.2f} {steps['max']:9.2f} "
            f"{steps['iqr']:7.2f} {show(floor_ms and floor_ms / ms, '.1%'):>8} "
            f"{show(mfu[0], '.1%'):>7} {show(mfu[1], '.1%'):>7} "
            f"{show(record.get('peak_mib'), 'd'):>7} {show(record.get('host_ms'), '.2f'):>8} "
            f"{show(step_ms(measured, SHORT.get(name)), '.2f'):>9}")


def print_head(s, device, peak):
    flops = s.model.flops_per_token()
    print(f"# {s.name}: {s.model.parameters() / 1e6:.1f} M parameters, "
          f"{s.micro_batches} x {s.micro_batch} sequences of {s.sequence}, {device}")
    print(f"# FLOP a token, 'palm' (6 N + 12 layers width sequence): {flops['palm'] / 1e9:.3f} G; "
          f"'causal' (products, half of the scores): {flops['causal'] / 1e9:.3f} G; "
          f"peak: {peak or '?'} TFLOP/s")
    print(f"{'':22} {'tokens/s':>9} {'step ms':>9} {'least':>9} {'most':>9} {'iqr':>7} "
          f"{'of floor':>8} {'palm':>7} {'causal':>7} {'MiB':>7} {'host ms':>8} {'64 tokens':>9}")


def attention_line(name, record):
    ran = record["attention"]
    order = ", ".join(record["sdpa_order"]) if record["sdpa_order"] else "not known"
    backends = ", ".join(ran["backends"]) or "not known"
    if ran.get("reason"):
        backends += f", {first_line(ran['reason'])}"
    return (f"# {name}: {form_of(name)}; PyTorch {record['versions']['torch']}; attention ran: "
            f"{backends} (asked for: {record['sdpa']}; "
            f"order: {order}; kernels: {', '.join(ran['kernels']) or 'none seen'})")


def print_table(s, measured, floor, device):
    """`measured`: {name: record}; `floor`: of floor.py, None where it was not measured."""
    peak = peak_tflops(device)
    print_head(s, device, peak)
    for name, record in measured.items():
        if record["status"] == "measured":
            if name in OTHERS or form_of(name):
                print(row(s, measured, name, floor and floor["step_ms"], peak))
        else:
            print(f"{name:22} {record['status']}: {first_line(record.get('reason', ''))}")
    for name, record in measured.items():
        if form_of(name) and record["status"] == "measured":
            print(attention_line(name, record))
    steps = [record["steps"] for record in measured.values() if "steps" in record]
    counted = {(found["warm_up"], found["count"]) for found in steps}
    for warm_up, count in sorted(counted):
        print(f"# median of {count} steps after a warm-up of {warm_up}")
    if floor:
        parts = ", ".join(f"{part} {ms:.2f} ms" for part, ms in floor["parts_ms"].items())
        print(f"# floor {floor['step_ms']:.2f} ms: {parts}; attention: {floor['attention']}")


def summary(measured, floor):
    """One line: beside the floor, the best PyTorch and llm.c."""
    ours = step_ms(measured, "trireme")
    if ours is None:
        return "trireme was not measured"
    parts = [f"{floor['step_ms'] / ours:.0%} of the floor" if floor else "no floor"]
    times = {name: step_ms(measured, name) for name in measured if form_of(name)}
    times = {name: ms for name, ms in times.items() if ms is not None}
    if times:
        best = min(times, key=times.get)
        parts.append(f"{times[best] / ours:.2f} x the best PyTorch ({form_of(best)})")
    else:
        parts.append("no PyTorch beside it")
    if step_ms(measured, "llmc") is not None:
        parts.append(f"{step_ms(measured, 'llmc') / ours:.2f} x llm.c")
    failed = [name for name, record in measured.items()
              if record["status"] not in ("measured", "left out")]
    return ", ".join(parts) + "".join(f"; {name} failed" for name in failed)
