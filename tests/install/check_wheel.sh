#!/bin/sh
# usage: check_wheel.sh ROOT WORK PYTHON VERSION
# Builds the wheel as `pip install .` does, from a copy of the sources and without a network, installs it into an empty
# environment and compiles a model there. PYTHON has pip, setuptools, NumPy and onnx.
set -eu
root=$1 work=$2 python=$3 version=$4
rm -rf "$work/source" "$work/dist" "$work/venv" "$work/elsewhere"
mkdir -p "$work/source" "$work/elsewhere"
for part in CMakeLists.txt LICENSE README.md bindings cmake include pyproject.toml setup.py src tools; do
  cp -r "$root/$part" "$work/source/$part"
done

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# --no-build-isolation: the builder is the one of PYTHON, which tools/requirements-test.txt pins.
"$python" -m pip wheel --disable-pip-version-check --no-input --no-index --no-deps --no-build-isolation \
  --wheel-dir "$work/dist" "$work/source" > "$work/wheel.log" 2>&1 || { tail -40 "$work/wheel.log" >&2; exit 1; }
wheel=$(echo "$work"/dist/*.whl)
case $wheel in
  */tenon_compiler-"$version"-cp311-abi3-linux_*.whl) ;;
  *) fail "the wheel is called $wheel" ;;
esac
"$python" -m zipfile -l "$wheel" > "$work/contents"
for file in tenon/__init__.py tenon/_tenon.abi3.so tenon/tenon-cuda.so tenon/_tenon.pyi tenon/py.typed LICENSE; do
  grep -q "$file" "$work/contents" || fail "the wheel has no $file"
done
if [ -e /usr/include/CL/cl.h ]; then
  grep -q tenon/tenon-opencl.so "$work/contents" || fail "the wheel has no driver of OpenCL"
fi

"$python" -m venv --without-pip "$work/venv"
"$python" -m pip --disable-pip-version-check --python "$work/venv/bin/python" install --no-index --no-deps "$wheel" \
  > "$work/install.log" 2>&1 || { cat "$work/install.log" >&2; exit 1; }
# What the wheel depends on, and onnx to write a model with, are taken from PYTHON: there is no network.
site=$("$work/venv/bin/python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")
"$python" -c "import sysconfig; print(sysconfig.get_path('purelib'))" > "$site/borrowed.pth"
cd "$work/elsewhere"
env -u PYTHONPATH TENON_CACHE_DIR="$work/cache" "$work/venv/bin/python" - "$work/venv" "$version" << 'END'
import importlib.metadata
import sys

import numpy as np
import tenon
from onnx import TensorProto, helper

prefix, version = sys.argv[1:]
assert tenon.__file__.startswith(prefix), tenon.__file__
assert tenon.__version__ == importlib.metadata.version("tenon-compiler") == version
values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "ab"] + [
    helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])]
graph = helper.make_graph([helper.make_node("Add", ["a", "b"], ["y"])], "g", values[:2], values[2:])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
compiled = tenon.compile(model)
a, b = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
np.testing.assert_array_equal(compiled(a, b), a + b)
compiled.save("add.tnx")
np.testing.assert_array_equal(tenon.load("add.tnx")(a, b), a + b)
END
