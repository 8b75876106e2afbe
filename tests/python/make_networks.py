# SPDX-License-Identifier: Apache-2.0
"""Writes networks with seeded weights to a folder, for tests that want whole models: LeNet-5, MobileNetV2, an encoder.

usage: make_networks.py FOLDER
"""

import sys
from pathlib import Path

import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import networks


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    encoder = networks.Encoder("encoder", hidden=96, layers=2, heads=4, inner=384)
    for name, build in (("lenet5", networks.lenet5), ("mobilenet_v2", networks.mobilenet_v2), ("encoder", encoder.build)):
        model, _ = build()
        onnx.save(model, folder / f"{name}.onnx")


main()
