# SPDX-License-Identifier: Apache-2.0
"""How lit runs the golden tests. In a RUN line:

%tenon      the program; its caches and settings are the test's own
%tenon-pocl the same, where PoCL runs kernels: a sanitizer does not tell of what that keeps until the process ends
%tenon-opt  runs passes on a function of the loop IR, or on a graph, in text form (tests/tools/tenon-opt.c)
%filecheck  FileCheck, which refuses an unused prefix and an empty input
%python     a Python with numpy and onnx
%s %S %t    lit's own: the test file, its folder, a temporary name
"""

import os
import subprocess

import lit.formats

config.name = "tenon"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".test", ".tir", ".txt"]
config.excludes = ["CMakeLists.txt", "Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = lit_config.params["output"]

config.environment["TENON_CACHE_DIR"] = os.path.join(config.test_exec_root, "cache")
config.environment["LC_ALL"] = "C.UTF-8"
if "opencl" in lit_config.params["plugins"]:  # a test with REQUIRES: opencl; there may be no device
    config.available_features.add("opencl")
    targets = subprocess.run([lit_config.params["tenon"], "targets"], capture_output=True, text=True,
                             env={**os.environ, "TENON_CACHE_DIR": config.environment["TENON_CACHE_DIR"]})
    devices = [line for line in targets.stdout.splitlines() if line.startswith("  opencl:")]
    if len(devices) == 1 and "Portable Computing Language" in devices[0]:
        config.available_features.add("pocl-alone")
    elif "opencl" in os.environ.get("TENON_TEST_DEVICES", ""):
        lit_config.fatal("PoCL's device of OpenCL, and no other, is wanted here: " + targets.stdout[-400:])
    else:
        lit_config.warning("PoCL is not this machine's one device of OpenCL: tests that run on it are left out")
config.environment["POCL_CACHE_DIR"] = os.path.join(config.test_exec_root, "pocl")
config.substitutions.append(("%tenon-opt", lit_config.params["tenon_opt"]))
config.substitutions.append(("%tenon-pocl", "env ASAN_OPTIONS=detect_leaks=0 " + lit_config.params["tenon"]))
config.substitutions.append(("%tenon", lit_config.params["tenon"]))
config.substitutions.append(("%filecheck", lit_config.params["filecheck"] + " --dump-input=fail"))
config.substitutions.append(("%python", lit_config.params["python"]))
