# SPDX-License-Identifier: Apache-2.0
"""Measures Tenon beside its peers: `bench.py models [...]`, which is also the default, `bench.py kernels [...]`,
`bench.py operators [...]`, `bench.py lengths [...]`, `bench.py devices [...]` and `bench.py declarations [...]`; `bench.py --publish` makes
docs/performance.md's tables of the results in bench/results. `bench.py numerics [...]` measures the errors of elementary functions instead of times."""

import sys

import bench_declarations
import bench_devices
import bench_kernels
import bench_lengths
import bench_models
import bench_numerics
import bench_operators
import publish


def main():
    commands = {"models": bench_models.main, "kernels": bench_kernels.main, "operators": bench_operators.main,
                "lengths": bench_lengths.main, "devices": bench_devices.main,
                "declarations": bench_declarations.main, "numerics": bench_numerics.main}
    name, *arguments = sys.argv[1:] or ["models"]
    if name == "--publish":
        return publish.main(arguments)
    if name in commands:
        return commands[name](arguments)
    return bench_models.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
