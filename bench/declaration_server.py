# SPDX-License-Identifier: Apache-2.0
"""A process that runs one declaration in one engine: bench_declarations.py starts it with a JSON description, and each line
it reads orders some runs. It answers with seconds a run.

A library's function is called through `repeat` of bench/declarations/repeat.c, so that no interpreter is in its time.
"""

import ctypes
import json
import sys
import time

import numpy as np

import declaration_cases
from serve import aligned


def library_runner(task, arrays, outputs):
    """Calls of the function `kernel` in a shared library: a function that makes `count` calls and returns their seconds."""
    library, repeat = ctypes.CDLL(task["library"]), ctypes.CDLL(task["repeat"]).repeat
    pointers = (ctypes.c_void_p * (len(arrays) + len(outputs)))(*(array.ctypes.data for array in (*arrays, *outputs)))
    repeat.restype = ctypes.c_double
    function = ctypes.cast(getattr(library, "bench_" + task["kernel"]), ctypes.c_void_p)

    def run(count):
        seconds = repeat(function, pointers, ctypes.c_long(count), ctypes.c_bool(task["clock"] == "cpu"))
        if seconds < 0:
            raise RuntimeError(f"{task['kernel']} returned {int(-seconds)}")
        return seconds

    return run


def array_runner(task, arrays, outputs, function, dense):
    """Calls of a function of arrays, whose results `dense` makes plain: a view is no answer yet, and whoever asked for the
    tensor gets it dense."""
    clock = time.process_time if task["clock"] == "cpu" else time.perf_counter

    def run(count):
        start = clock()
        for _ in range(count):
            results = function(*arrays)
            results = [dense(result) for result in (results if isinstance(results, tuple) else (results,))]
        seconds = clock() - start
        for output, result in zip(outputs, results):
            output[...] = np.asarray(result).reshape(output.shape)
        return seconds

    return run


def numpy_runner(task, arrays, outputs):
    return array_runner(task, arrays, outputs, declaration_cases.NUMPY[task["kernel"]], np.ascontiguousarray)


def torch_runner(task, arrays, outputs):
    import torch

    import declaration_torch

    torch.set_num_threads(task["threads"])
    torch.set_grad_enabled(False)
    return array_runner(task, [torch.from_numpy(array) for array in arrays], outputs,
                        declaration_torch.TORCH[task["kernel"]], torch.Tensor.contiguous)


def main():
    task = json.loads(sys.argv[1])
    parameters, results = ([(name, tuple(shape), np.dtype(dtype)) for name, shape, dtype in task[which]]
                           for which in ("inputs", "outputs"))
    arrays = [aligned(array) for array in declaration_cases.inputs_of(task["kernel"], parameters)]
    outputs = [aligned(np.zeros(shape, dtype)) for _, shape, dtype in results]
    runners = {"numpy": numpy_runner, "torch": torch_runner}
    run = runners.get(task["engine"], library_runner)(task, arrays, outputs)
    first = run(1)
    np.savez(task["answers"], *outputs)
    # A turn takes at least a few milliseconds, however short a run is.
    count = max(1, min(10000, int(task["turn_seconds"] / max(min(first, run(1)), 1e-7))))
    print(json.dumps({"count": count}), flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        run(1)  # on caches that others used
        seconds = run(count) / count
        print(json.dumps({"seconds": seconds, "turn_seconds": time.perf_counter() - start}), flush=True)


if __name__ == "__main__":
    main()
