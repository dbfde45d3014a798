"""The backends of PyTorch's scaled_dot_product_attention: by name, alone, and which one ran."""
import contextlib

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION,
            "efficient": SDPBackend.EFFICIENT_ATTENTION, "math": SDPBackend.MATH}
# The op that a backend is called by (a CPU has a flash attention of its own).
OPS = {"cudnn": "_scaled_dot_product_cudnn_attention",
       "flash": "_scaled_dot_product_flash_attention",
       "efficient": "_scaled_dot_product_efficient_attention",
       "math": "_scaled_dot_product_attention_math"}
KERNEL_WORDS = ("flash", "cudnn", "fmha", "attention", "sdpa", "softmax")


def backend_only(name):
    """Within it only that backend may run; "default": PyTorch chooses."""
    return contextlib.nullcontext() if name == "default" else sdpa_kernel(BACKENDS[name])


def order():
    """Names in the order in which PyTorch would take them, those that are switched off left out;
    None where this version does not report it."""
    try:
        ranks = torch._C._get_sdp_priority_order()
    except AttributeError:
        return None
    names = {int(backend.value if hasattr(backend, "value") else backend): name
             for name, backend in BACKENDS.items()}
    cuda = torch.backends.cuda
    enabled = {"cudnn": cuda.cudnn_sdp_enabled, "flash": cuda.flash_sdp_enabled,
               "efficient": cuda.mem_efficient_sdp_enabled, "math": cuda.math_sdp_enabled}
    known = [names[int(rank)] for rank in ranks if int(rank) in names]
    return [name for name in known if enabled[name]()]


def not_known(reason):
    """In place of what_ran()."""
    return {"backends": [], "kernels": [], "reason": reason}


def what_ran(step, wait):
    """{backends: by the ops of one step, kernels: names on the GPU that look like attention}"""
    activities = torch.profiler.ProfilerActivity
    wanted = [activities.CPU] + ([activities.CUDA] if torch.cuda.is_available() else [])
    with torch.profiler.profile(activities=wanted) as profile:
        step()
        wait()
    keys = {event.key for event in profile.key_averages()}
    ran = sorted(name for name, op in OPS.items() if any(op in key for key in keys))
    kernels = sorted({key[:80] for key in keys
                      if not key.startswith(("aten::", "torch::", "autograd"))
                      and any(word in key.lower() for word in KERNEL_WORDS)})
    return {"backends": ran, "kernels": kernels}
