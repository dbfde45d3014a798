"""Reads the libraries of PyTorch before they are needed, at low priority: its first import would
otherwise wait for the disk within a measurement."""
import contextlib
import pathlib
import subprocess

LIBRARIES = ("torch/lib/*.so*", "nvidia/*/lib/*.so*", "triton/_C/*.so*")


@contextlib.contextmanager
def read_ahead(packages, log):
    """packages: the folder of Python's packages; None: nothing is read. log: a file for the command
    and its errors. What is not read at the end of the context is not read."""
    files = [file for pattern in LIBRARIES for file in sorted(pathlib.Path(packages).glob(pattern))
             ] if packages else []
    if not files:
        yield
        return
    command = ["nice", "-n", "19", "cat", *map(str, files)]
    with open(log, "w") as errors:
        print("$", *command, file=errors, flush=True)
        job = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=errors)
    try:
        yield
    finally:
        job.kill()
        job.wait()
