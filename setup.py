# SPDX-License-Identifier: Apache-2.0
"""Builds the extension of the wheel with CMake; everything else about the package is in pyproject.toml.

With TENON_EXTENSION=FILE the wheel takes an extension that a build of Tenon made (BUILD/python/tenon/_tenon.abi3.so).
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent


class CMakeBuild(build_ext):
    def get_ext_filename(self, name):
        return os.path.join(*name.split(".")) + ".abi3.so"

    def build_extension(self, extension):
        target = Path(self.get_ext_fullpath(extension.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        built = os.environ.get("TENON_EXTENSION")
        built = Path(built or self.build_with_cmake() / target.name)
        shutil.copyfile(built, target)
        for plugin in sorted(built.parent.glob("tenon-*.so")):  # drivers of devices
            shutil.copyfile(plugin, target.parent / plugin.name)

    def build_with_cmake(self):
        build = Path(self.build_temp).resolve() / "cmake"
        subprocess.run(
            ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DTENON_TESTS=OFF",
             f"-DPython3_EXECUTABLE={sys.executable}"], check=True)
        subprocess.run(["cmake", "--build", build, "--target", "tenon_python"], check=True)
        return build / "python" / "tenon"


def version():
    """The version is the one of the public header."""
    text = (ROOT / "include/tenon/base.h").read_text()
    return ".".join(re.search(rf"#define TN_VERSION_{part} (\d+)", text).group(1) for part in ("MAJOR", "MINOR", "PATCH"))


setup(
    version=version(),
    packages=["tenon"],
    package_dir={"": "bindings/python"},
    package_data={"tenon": ["py.typed", "*.pyi"]},
    ext_modules=[Extension("tenon._tenon", sources=[], py_limited_api=True)],
    cmdclass={"build_ext": CMakeBuild},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
