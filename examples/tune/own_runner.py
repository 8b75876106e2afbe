# SPDX-License-Identifier: Apache-2.0
"""Tuning with a builder and a runner of one's own.

    python own_runner.py [TRIALS]

1. The declaration of the kernel to tune.
2. A builder: makes of each candidate what the runner wants. This one builds an executable here.
3. A runner: times what was built, on its device. The device of this example is this process; a real one would be a board
   behind a cable, to which run() sends the code and from which it reads seconds.
4. The tuning, with a line each second, and Ctrl-C to end it.
5. The schedule that was found, in use.

docs/howto-runner.md tells what a runner has to mind."""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import tenon

# 1.
PRODUCT = "kernel product(A: f32[61, 70], B: f32[70, 53]) -> C: f32[61, 53] { C[i, j] = sum(k: 70) A[i, k] * B[k, j] }"


# 2.
class ExecutableBuilder(tenon.Builder):
    def build(self, input):
        kernel = tenon.build_te(input.declaration, trace=input.schedule, target=input.target, threads=input.threads)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "kernel.tnx"
            kernel.save(path)
            return tenon.Build(code=path.read_bytes(), trace=kernel.trace)


# 3.
class HereRunner(tenon.Runner):
    def __init__(self):
        rng = np.random.default_rng(1)
        self.a, self.b = rng.normal(size=(61, 70)).astype("f"), rng.normal(size=(70, 53)).astype("f")
        self.right = self.a.astype("d") @ self.b

    def run(self, build):
        kernel = tenon.load(build.code, threads=build.input.threads)
        if not np.allclose(kernel(self.a, self.b), self.right, atol=1e-4):
            return tenon.Run(error="wrong answer", message="the product is not NumPy's")
        times = []
        for _ in range(20):  # the first warm up
            start = time.perf_counter()
            kernel(self.a, self.b)
            times.append(time.perf_counter() - start)
        low, median, high = statistics.quantiles(times[5:], n=4)
        return tenon.Run(median=median, spread=(high - low) / median, calls=15, verified=True)


def show(progress):
    print(f"{progress.phase}: {progress.trials} trials, best {1e6 * (progress.best_seconds or 0):.1f} us", flush=True)


# 4.
trials = int(sys.argv[1]) if len(sys.argv) > 1 else 100
found = tenon.tune(declarations=PRODUCT, threads=1, trials=trials, builder=ExecutableBuilder(), runner=HereRunner(),
                   database=False, progress=show, progress_seconds=1)
kernel, = found.kernels
print(f"{kernel.name}: {kernel.trials} trials, {1e6 * kernel.static_seconds:.1f} us with the static choice, "
      f"{1e6 * kernel.best_seconds:.1f} us with the best; {sum(kernel.errors.values())} errors")

# 5.
with tempfile.TemporaryDirectory() as folder:
    found.save(Path(folder) / "product.schedules")
    tuned = tenon.build_te(PRODUCT, threads=1, tuned=Path(folder) / "product.schedules")
    print("schedules:", found.count, "result:", tuned(np.ones((61, 70), "f"), np.ones((70, 53), "f"))[0, 0])
