"""The floor of a step: what it would take if nothing but the unavoidable took time. Every matrix
product alone, attention of the best backend that PyTorch has (never trireme's own), and the least
bytes of everything else at copy bandwidth; all measured in the same run."""

COPY = "copy 536870912"
SHARE_OF_PRODUCTS = 0.6  # of the best product's rate: attention where no backend was measured


def jobs_text(m, batch):
    """Jobs for gpu_products_benchmark: products, trireme's own attention (to compare with), a
    copy."""
    return "\n".join([line for line, _ in m.product_jobs(batch)] + [COPY])


def shape_of(m, batch):
    """As attention.py names it."""
    return f"{batch} {m.sequence} {m.heads} {m.kv_heads} {m.head_dim}"


def best_backend(rows, shape):
    """(name, ms of forward and backward) of the fastest that ran both for this shape; None: no
    such."""
    both = {}
    for row in rows:
        if row["shape"] == shape and row.get("ms") is not None:
            both.setdefault(row["backend"], {})[row["direction"]] = row["ms"]
    sums = {name: sum(ms.values()) for name, ms in both.items() if len(ms) == 2}
    best = min(sums, key=sums.get, default=None)
    return best and (best, sums[best])


def attention(m, batch, product_rows, attention_rows):
    """(ms of one layer, where that comes from)."""
    best = best_backend(attention_rows, shape_of(m, batch))
    if best:
        return best[1], f"PyTorch's {best[0]} attention, measured"
    rate = SHARE_OF_PRODUCTS * max(row["tflops"] for row in product_rows
                                   if row["job"].startswith("gemm"))
    return (m.attention_flops(batch) / rate * 1e-9,
            f"FLOPs at {SHARE_OF_PRODUCTS:g} of the best product's rate, {rate:.0f} TFLOP/s: no "
            "other attention was measured")


def floor(m, batch, micro_batches, product_rows, attention_rows=()):
    """{step_ms, parts_ms, attention: where its time is from}."""
    ms = {row["job"]: row["ms"] for row in product_rows}
    bytes_per_ms = 1e6 * next(row["gb_per_s"] for row in product_rows if row["job"] == COPY)
    layer_ms, source = attention(m, batch, product_rows, attention_rows)
    gemms = sum(times * ms[line] for line, times in m.product_jobs(batch)
                if line.startswith("gemm"))
    parts = {"products": micro_batches * gemms,
             "attention": micro_batches * m.layers * layer_ms,
             "other kernels": micro_batches * m.micro_batch_bytes(batch) / bytes_per_ms,
             "update": m.update_bytes() / bytes_per_ms}
    return {"step_ms": sum(parts.values()), "parts_ms": parts, "attention": source}
