# SPDX-License-Identifier: Apache-2.0
"""What bench_declarations.py measures: Tenon and its peers, how each is compiled and how its process is started.

Those that compile get a glue of C, a function bench_KERNEL that takes an array of the arguments' addresses, so that
declaration_server.py calls all of them in the same way.
"""

import hashlib
import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import measure
from measure import BenchError

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
FOLDER = HERE / "declarations"
ENGINES = {"tenon": "Tenon", "plain": "gcc", "numpy": "NumPy", "torch": "PyTorch", "adams2019": "Adams2019",
           "mullapudi2016": "Mullapudi2016", "expert": "Halide by hand"}
HALIDE = ("adams2019", "mullapudi2016", "expert")
PACKAGES = {"numpy": "numpy", "torch": "torch"} | dict.fromkeys(HALIDE, "halide")
COMPILED = ("tenon", "plain", *HALIDE)
PLAIN_FLAGS = ["-O3", "-march=native", "-ffast-math", "-fno-math-errno", "-fno-lto"]
TURN_SECONDS = 0.004
# Halide's search of the largest applications takes minutes: peers get this many times as long as Tenon.
PATIENCE = 5
DTYPES = {"bool": ("bool", "bool"), "f16": ("float16", "uint16_t"), "f32": ("float32", "float"), "f64": ("float64", "double")}
DTYPES |= {f"{sign}{bits}": (f"{'u' * (sign == 'u')}int{bits}", f"{'u' * (sign == 'u')}int{bits}_t")
           for sign in "iu" for bits in (8, 16, 32, 64)}
HALIDE_TYPES = {"f": "halide_type_float", "i": "halide_type_int", "u": "halide_type_uint"}


class TookTooLong(BenchError):
    """A compiler did not end within its limit."""


def installed():
    """The versions of the engines' packages: package -> version, None where it is missing."""
    versions = {}
    for package in dict.fromkeys(PACKAGES.values()):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return versions


def engines_of(case, packages):
    """The engines that have a form of a declaration, Tenon first."""
    import declaration_cases
    import declaration_torch

    engines = ["tenon"]
    loops = FOLDER / f"{case['class']}.c"
    if loops.exists() and re.search(rf"^void {case['kernel']}\(", loops.read_text(encoding="utf-8"), re.MULTILINE):
        engines.append("plain")
    if case["kernel"] in declaration_cases.NUMPY:
        engines.append("numpy")
    if case["kernel"] in declaration_torch.TORCH:
        engines.append("torch")
    if packages["halide"] is not None and case["class"] == "applications":
        import halide_applications

        engines += ["adams2019", "mullapudi2016"] if case["kernel"] in halide_applications.PIPELINES else []
        engines += ["expert"] if case["kernel"] in halide_applications.EXPERTS else []
    return [engine for engine in engines if packages.get(PACKAGES.get(engine), "") is not None]


# ---- glue ------------------------------------------------------------------------------------------------------------

def c_type(parameter):
    return DTYPES[parameter[2]][1]


def function_glue(case, engine, threads):
    """The glue of a function of the arguments themselves; Tenon's returns a code, and with threads takes a pool first."""
    inputs = [f"const {c_type(p)} *" if p[1] else c_type(p) for p in case["inputs"]]
    arguments = [f"a[{i}]" if p[1] else f"*(const {c_type(p)} *)a[{i}]" for i, p in enumerate(case["inputs"])]
    arguments += [f"a[{len(inputs) + i}]" for i in range(len(case["outputs"]))]
    types = inputs + [f"{c_type(p)} *" for p in case["outputs"]]
    head = "#include <stdbool.h>\n#include <stdint.h>\n"
    if engine == "tenon" and threads > 1:
        head += ("#include \"tenon/runtime.h\"\nstatic const struct tn_kernel_env *env(void) {\n  static tn_thread_pool *pool;\n"
                 f"  tn_thread_pool_options options = {{.size = sizeof(options), .threads = {threads}}};\n"
                 "  if (pool == NULL && tn_thread_pool_create(&options, &pool) != NULL) return NULL;\n"
                 "  return tn_thread_pool_env(pool);\n}\n")
        types, arguments = ["const struct tn_kernel_env *", *types], ["env()", *arguments]
    call = f"{case['kernel']}({', '.join(arguments)})"
    body = f"return {call};" if engine == "tenon" else f"{call};\n  return 0;"
    return (f"{head}{'int32_t' if engine == 'tenon' else 'void'} {case['kernel']}({', '.join(types)});\n"
            f"int32_t bench_{case['kernel']}(void *const *a) {{\n  {body}\n}}\n")


def halide_glue(case):
    """The glue of a function of Halide's buffers, whose dimensions begin with the innermost."""
    lines = []
    for i, (_, sizes, kind) in enumerate(case["inputs"] + case["outputs"]):
        stride, dimensions = 1, []
        for size in reversed(sizes):
            dimensions.append(f"{{0, {size}, {stride}, 0}}")
            stride *= size
        lines += [f"  halide_dimension_t d{i}[] = {{{', '.join(dimensions)}}};",
                  f"  halide_buffer_t b{i} = {{.host = a[{i}], .type = {{{HALIDE_TYPES[kind[0]]}, {kind[1:]}, 1}}, "
                  f".dimensions = {len(sizes)}, .dim = d{i}}};"]
    count = len(case["inputs"]) + len(case["outputs"])
    types, arguments = ", ".join(["halide_buffer_t *"] * count), ", ".join(f"&b{i}" for i in range(count))
    return "\n".join(["#include \"HalideRuntime.h\"", f"int {case['kernel']}({types});",
                      f"int32_t bench_{case['kernel']}(void *const *a) {{", *lines, f"  return {case['kernel']}({arguments});", "}", ""])


# ---- compilers -------------------------------------------------------------------------------------------------------

def run_compiler(name, command, limit):
    try:
        result = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise TookTooLong(f"{name} did not end in {limit:.0f} s") from None
    if result.returncode:
        text = result.stderr.strip() or f"ended with status {result.returncode}"
        raise BenchError(f"{name}: {text if name == 'tenon build' else text.splitlines()[-1]}")


def compile_c(output, *arguments):
    run_compiler("gcc", ["gcc", "-shared", "-fPIC", "-o", output, *arguments, "-lm"], None)
    return str(output)


def build(case, engine, threads, options, scratch):
    """The shared library of an engine, and the seconds that the engine's compiler took for it. Those of peers are kept, if
    wished, by all that they follow from."""
    if options.keep is None or engine == "tenon":
        return compile_anew(case, engine, threads, options, scratch)
    sources = [path.read_bytes() for path in [*sorted(FOLDER.glob(f"{case['class']}.*")), HERE / "halide_applications.py"]]
    state = [case, engine, threads, PLAIN_FLAGS, options.packages.get(PACKAGES.get(engine)), sources]
    kept = options.keep / f"{case['kernel']}.{engine}.{threads}.{hashlib.sha256(repr(state).encode()).hexdigest()[:16]}"
    library, record = kept.with_suffix(kept.suffix + ".so"), kept.with_suffix(kept.suffix + ".json")
    if not record.exists():
        options.keep.mkdir(parents=True, exist_ok=True)
        try:
            built, seconds = compile_anew(case, engine, threads, options, scratch)
            shutil.copyfile(built, library)
            record.write_text(json.dumps({"seconds": seconds}))
        except TookTooLong as error:
            record.write_text(json.dumps({"too_long": str(error)}))
    result = json.loads(record.read_text())
    if "too_long" in result:
        raise TookTooLong(result["too_long"])
    return str(library), result["seconds"]


def compile_anew(case, engine, threads, options, scratch):
    source, library, limit = scratch / f"{engine}.glue.c", scratch / f"{engine}.so", options.build_limit
    source.write_text(halide_glue(case) if engine in HALIDE else function_glue(case, engine, threads))
    start = time.perf_counter()
    if engine == "plain":
        # A file of its own for the object: gcc cannot look into it from the glue.
        parallel = [f"-ftree-parallelize-loops={threads}"] if threads > 1 else []
        compile_c(library, *PLAIN_FLAGS, *parallel, FOLDER / f"{case['class']}.c", source)
        return str(library), time.perf_counter() - start
    if engine == "tenon":
        run_compiler("tenon build", [options.cli, "build", FOLDER / f"{case['class']}.te", "--kernel", case["kernel"],
                                     "--threads", threads, "-o", scratch / "kernel"], limit)
        linked = [scratch / "kernel.o"]
        if threads > 1:
            beside = Path(options.cli).resolve().parent
            linked += ["-I", ROOT / "include", "-L", beside, "-ltenon_runtime", f"-Wl,-rpath,{beside}"]
    else:
        import halide

        task = {"inputs": case["inputs"], "outputs": case["outputs"], "threads": threads}
        run_compiler(ENGINES[engine], [sys.executable, "-W", "ignore", HERE / "halide_applications.py", case["kernel"], engine,
                                       scratch / engine, json.dumps(task)], PATIENCE * limit)
        linked = [scratch / f"{engine}.a", "-I", Path(halide.__file__).parent / "include", "-lpthread", "-ldl"]
    seconds = time.perf_counter() - start
    return compile_c(library, "-O1", source, *linked), seconds


def start(case, engine, threads, library, options, scratch):
    """The process of an engine, which has run the declaration once."""
    task = {"engine": engine, "kernel": case["kernel"], "library": library, "repeat": str(scratch / "repeat.so"),
            "clock": options.clock, "threads": threads, "turn_seconds": TURN_SECONDS, "answers": str(scratch / f"{engine}.npz")}
    task |= {which: [(name, shape or [1], DTYPES[kind][0]) for name, shape, kind in case[which]]
             for which in ("inputs", "outputs")}
    environment = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "HL_NUM_THREADS"), str(threads))
    return measure.Server(ENGINES[engine], [sys.executable, str(HERE / "declaration_server.py"), json.dumps(task)], environment)
