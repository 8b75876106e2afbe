# SPDX-License-Identifier: Apache-2.0
"""A process that runs one model in one runtime: bench_models.py starts it, and each line it writes orders some runs."""

import json
import os
import sys
import time
from pathlib import Path


def load_tenon(model, threads):
    import tenon

    # An executable: what is deployed, and what makes the memory of the process that of the runtime.
    compiled = tenon.load(model, threads=threads)
    names = [value.name for value in compiled.outputs]

    def run(feeds):
        results = compiled.run(feeds)
        return [results[name] for name in names]

    return run


def load_onnxruntime(model, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, feeds)


def load_openvino(model, threads):
    import openvino

    # f32, because the default takes bf16 where the CPU has it.
    compiled = openvino.Core().compile_model(model, "CPU", {
        "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1})
    request = compiled.create_infer_request()

    def run(feeds):
        request.infer(feeds, share_inputs=True)
        return [request.get_output_tensor(index).data for index in range(len(compiled.outputs))]

    return run


def load_torch(model, threads):
    import onnx_torch

    return onnx_torch.compile_model(model, threads)


LOADERS = {"tenon": load_tenon, "onnxruntime": load_onnxruntime, "openvino": load_openvino, "torch": load_torch}


def resident_mb(field):
    """VmRSS: the process's resident size; VmHWM: its peak. Not ru_maxrss of oneself, which begins at the parent's size
    at the fork."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def serve(engine, model, threads, inputs, outputs):
    """Loads a model, writes its outputs, then times as many runs as each line of stdin says."""
    protocol = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value):
        print(json.dumps(value), file=protocol, flush=True)

    try:
        import numpy as np

        with np.load(inputs) as file:
            feeds = dict(file)
        # The import of the runtime is not a part of loading a model.
        __import__(engine)
        before = resident_mb("VmRSS")
        cpu_start, start = time.process_time(), time.perf_counter()
        run = LOADERS[engine](model, threads)
        loaded = time.perf_counter()
        results = run(feeds)
        first, cpu_first = time.perf_counter(), time.process_time()
        np.savez(outputs, *results)
        del results
        answer({"load_s": loaded - start, "first_output_s": first - start,
                "first_output_cpu_s": cpu_first - cpu_start, "load_mb": resident_mb("VmHWM") - before})
        # From here on the peak is that of running. Python, NumPy and the library itself are not counted.
        Path("/proc/self/clear_refs").write_text("5")
        for line in sys.stdin:
            wall, cpu = [], []
            for _ in range(int(line)):
                cpu_start, start = time.process_time(), time.perf_counter()
                run(feeds)
                wall.append((time.perf_counter() - start) * 1e3)
                cpu.append((time.process_time() - cpu_start) * 1e3)
            answer({"wall": wall, "cpu": cpu, "peak_mb": resident_mb("VmHWM") - before})
    except Exception as error:
        answer({"error": f"{type(error).__name__}: {error}"})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(serve(*sys.argv[1:3], int(sys.argv[3]), *sys.argv[4:]))
