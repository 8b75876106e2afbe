# SPDX-License-Identifier: Apache-2.0
"""A process that runs one model in one runtime: bench_models.py starts it, and each line it writes orders some runs."""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np


PAST, PRESENT = "past.", "present."


def bound_buffers(inputs, outputs, feeds):
    """The arrays to bind of a model that keeps state, by name: each `present.NAME` of the outputs is `past.NAME` of the
    inputs, updated in place, or grown in its buffer. `inputs` and `outputs` are names, shapes, dtypes and capacities:
    the sizes of a buffer where they are greater than the array's. Without capacities a cache that grows has two arrays,
    and is copied. None for a model without state, whose results are its caller's."""
    if not any(name.startswith(PAST) for name, *_ in inputs):
        return None
    rooms = {name: room(feeds[name], capacity) for name, _, _, capacity in inputs}
    buffers = {name: within(rooms[name], feeds[name].shape) for name in rooms}
    sizes = {size: have for name, shape, *_ in inputs for size, have in zip(shape, feeds[name].shape)}
    for name, array in buffers.items():
        array[...] = feeds[name]
    for name, shape, dtype, capacity in outputs:
        past = PAST + name[len(PRESENT):] if name.startswith(PRESENT) else None
        if past and tuple(shape) == feeds[past].shape:
            buffers[name] = buffers[past]
            continue
        # What grows does by as much as goes in.
        full = [size if isinstance(size, int) else sizes.get(size) or sizes["past"] + sizes["new"] for size in shape]
        buffers[name] = within(rooms[past], full) if capacity else aligned(np.zeros(full, dtype))
    return buffers


def room(array, capacity):
    """An empty buffer for the array, with the capacity where it has one."""
    return aligned(np.zeros([most or size for size, most in zip(array.shape, capacity or array.shape)], array.dtype))


def within(buffer, shape):
    return buffer[tuple(slice(size) for size in shape)]


def aligned(array):
    """A copy at a multiple of 64 bytes."""
    memory = np.empty(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    copy = memory[start:start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def load_tenon(model, threads, feeds):
    import tenon

    # An executable: what is deployed, and what makes the memory of the process that of the runtime.
    compiled = tenon.load(model, threads=threads)
    names = [value.name for value in compiled.outputs]
    buffers = bound_buffers(*([(value.name, value.shape, value.dtype, value.capacity) for value in values]
                              for values in (compiled.inputs, compiled.outputs)), feeds)
    if buffers:
        compiled.set_inputs({value.name: buffers[value.name] for value in compiled.inputs})
        compiled.set_outputs({name: buffers[name] for name in names})

    def run_bound(feeds):
        compiled.invoke()
        return [buffers[name] for name in names]

    def run(feeds):
        results = compiled.run(feeds)
        return [results[name] for name in names]

    return run_bound if buffers else run


def load_onnxruntime(model, threads, feeds):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    inputs, outputs = ([value.name for value in values] for values in (session.get_inputs(), session.get_outputs()))
    buffers = bound_buffers(*([(value.name, value.shape, np.float32, None) for value in values]
                              for values in (session.get_inputs(), session.get_outputs())), feeds)
    if not buffers:
        return lambda feeds: session.run(None, feeds)
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(buffer) for name, buffer in buffers.items()}
    binding = session.io_binding()
    for name in inputs:
        binding.bind_ortvalue_input(name, values[name])
    for name in outputs:
        shared = [past for past in inputs if buffers[past] is buffers[name]]
        binding.bind_ortvalue_output(name, values[shared[0] if shared else name])

    def run_bound(feeds):
        session.run_with_iobinding(binding)
        return [buffers[name] for name in outputs]  # the values are these buffers

    return run_bound


def load_openvino(model, threads, feeds):
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


def load_torch(model, threads, feeds):
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


def read_inputs(path):
    with np.load(path) as file:
        return dict(file)


def serve(engine, model, threads, inputs, outputs):
    """Loads a model, writes its outputs, then times as many runs as each line of stdin says. A line that also names a
    file of inputs, and one for the outputs, changes to those inputs."""
    protocol = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value):
        print(json.dumps(value), file=protocol, flush=True)

    try:
        feeds = read_inputs(inputs)
        # The import of the runtime is not a part of loading a model.
        __import__(engine)
        before = resident_mb("VmRSS")
        cpu_start, start = time.process_time(), time.perf_counter()
        run = LOADERS[engine](model, threads, feeds)
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
            count, *files = line.split()
            if files:
                feeds = read_inputs(files[0])
                np.savez(files[1], *run(feeds))
            for _ in range(int(count)):
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
