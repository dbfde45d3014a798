"""The benchmark models: their shapes, FLOPs in both conventions, and the parts that the floor of a
step is added up from."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Model:
    layers: int
    width: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    # RMSNorm, SwiGLU, rotary positions, no bias; else LayerNorm, GELU, learned positions, bias.
    llama: bool
    sequence: int = 1024

    @property
    def head_dim(self):
        return self.width // self.heads

    @property
    def table_rows(self):
        """Of trireme's token table: padded so that tensor cores can read rows of logits."""
        return -(-self.vocab // 8) * 8

    @property
    def pytorch_table_rows(self):
        """Of PyTorch's and llm.c's: 50304, as everybody pads GPT-2's there."""
        return -(-self.vocab // 64) * 64

    def linears(self):
        """(out, in) of the products of one layer."""
        q, kv = self.width, self.kv_heads * self.head_dim
        up = self.ffn * (2 if self.llama else 1)
        return [(q + 2 * kv, self.width), (self.width, q), (up, self.width), (self.width, self.ffn)]

    def product_parameters(self):
        """Weights that every token is multiplied with; the output layer is the token table."""
        of_a_layer = sum(out * inner for out, inner in self.linears())
        return self.layers * of_a_layer + self.vocab * self.width

    def parameters(self):
        biases = 0 if self.llama else self.layers * sum(out for out, _ in self.linears())
        norms = (2 * self.layers + 1) * self.width * (1 if self.llama else 2)
        positions = 0 if self.llama else self.sequence * self.width
        return self.product_parameters() + biases + norms + positions

    def flops_per_token(self):
        """Forward and backward, in the two conventions that people print. `palm` (Chowdhery et al.
        2022, appendix B; also nanoGPT): 6 for each parameter, and attention as if it were not
        causal. `causal`: what the products must compute: 6 for each weight of a product, and half
        of the scores."""
        scores = self.layers * self.width * self.sequence
        return {"palm": 6 * self.parameters() + 12 * scores,
                "causal": 6 * self.product_parameters() + 6 * scores}

    def product_jobs(self, batch):
        """[(line for gpu_products_benchmark, times a micro-batch)]"""
        rows = batch * self.sequence
        linears = [(out, inner, self.layers) for out, inner in self.linears()]
        linears.append((self.table_rows, self.width, 1))
        jobs = [(f"gemm {kind} {rows} {out} {inner}", times)
                for out, inner, times in linears for kind in ("forward", "input", "weight")]
        shape = f"{batch} {self.sequence} {self.heads} {self.kv_heads} {self.head_dim}"
        return jobs + [(f"attention {kind} {shape}", self.layers)
                       for kind in ("forward", "backward")]

    def attention_flops(self, batch):
        """Of one layer: two products over half of the scores forward, five backward."""
        return 3.5 * 2 * batch * self.sequence**2 * self.width

    def micro_batch_bytes(self, batch):
        """The least that the memory-bound kernels read and write of bf16 activations in one
        micro-batch."""
        rows, bf16 = batch * self.sequence, 2
        # Forward with residual, backward with what arrives directly: 4 each.
        norm = 8 * self.width
        # Forward, gradient; GELU's ride on products, which write and read one array more.
        activation = (3 + 5 if self.llama else 1 + 1) * self.ffn
        rotary = 4 * (self.heads + self.kv_heads) * self.head_dim if self.llama else 0
        # Its gradient reads; forward is the product's epilogue.
        bias = 0 if self.llama else sum(out for out, _ in self.linears())
        layer = 2 * norm + activation + rotary + bias
        # Last norm, cross-entropy, embedding and its gradient.
        ends = norm + 3 * self.vocab + 2 * self.width * (1 if self.llama else 3)
        return rows * bf16 * (self.layers * layer + ends)

    def update_bytes(self):
        """AdamW of a step: fp32 master weight and moments read and written, fp32 gradient read and
        zeroed, bf16 weight written; and the norm reads the gradient once more."""
        return self.parameters() * (4 * 6 + 4 * 2 + 2 + 4)


MODELS = {
    "gpt2-124m": Model(12, 768, 12, 12, 3072, 50257, False),
    "gpt2-1558m": Model(48, 1600, 25, 25, 6400, 50257, False),
    "llama-1b": Model(16, 2048, 32, 8, 8192, 128256, True),
}
MICRO_BATCH = {"gpt2-124m": 32, "gpt2-1558m": 8, "llama-1b": 8}  # of 1024; they fit in 80 GB
# bf16, dense, NVIDIA's data sheets
PEAK_TFLOPS = {"H100 PCIe": 756, "H100": 989, "H200": 989, "A100": 312}


def peak_tflops(device):
    """Of the data sheet; None for a device that is not in the table."""
    return next((peak for name, peak in PEAK_TFLOPS.items() if name in device), None)
