# SPDX-License-Identifier: Apache-2.0
"""all-MiniLM-L6-v2 in NumPy, in float64, straight from the weights: the answer that compiled code is held against.

It is written from the definition of BERT and shares nothing with the exported graph except the safetensors file, so a
mistake in the export shows as a difference.
"""

import math
from pathlib import Path

import numpy as np

from weights import Config, read_safetensors

# NumPy has no erf; the C library's is correct to within an ulp of float64.
erf = np.frompyfunc(math.erf, 1, 1)


def layer_norm(x, weight, bias, epsilon):
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * weight + bias


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def gelu(x):
    return 0.5 * x * (1.0 + erf(x / math.sqrt(2.0)).astype(np.float64))


class ReferenceMiniLM:
    def __init__(self, folder):
        self.config = Config.read(Path(folder) / "config.json")
        tensors = read_safetensors(Path(folder) / "model.safetensors")
        self.weights = {name: array.astype(np.float64) for name, array in tensors.items()
                        if array.dtype.kind == "f" and name != "embeddings.word_embeddings.weight"}
        # The word table is the bulk of the file, and only a few of its rows are ever read.
        self.words = tensors["embeddings.word_embeddings.weight"]

    def linear(self, x, name):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, x, name):
        return layer_norm(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], self.config.layer_norm_eps)

    def attention(self, x, keep, name):
        batch, sequence, hidden = x.shape
        heads, size = self.config.num_attention_heads, self.config.head_size

        def split(part):
            return self.linear(x, f"{name}.self.{part}").reshape(batch, sequence, heads, size).swapaxes(1, 2)

        scores = split("query") @ split("key").swapaxes(2, 3) / math.sqrt(size)
        scores = np.where(keep[:, None, None, :], scores, -np.inf)
        context = (softmax(scores) @ split("value")).swapaxes(1, 2).reshape(batch, sequence, hidden)
        return self.norm(self.linear(context, f"{name}.output.dense") + x, f"{name}.output.LayerNorm")

    def run(self, input_ids, attention_mask, token_type_ids):
        """Returns (last_hidden_state, sentence_embedding) for int64 arrays [batch, sequence]; every row of the mask
        keeps at least one token."""
        w = self.weights
        keep = attention_mask.astype(bool)
        x = self.words[input_ids].astype(np.float64)
        x = x + w["embeddings.token_type_embeddings.weight"][token_type_ids]
        x = x + w["embeddings.position_embeddings.weight"][: input_ids.shape[1]]
        x = self.norm(x, "embeddings.LayerNorm")
        for index in range(self.config.num_hidden_layers):
            name = f"encoder.layer.{index}"
            x = self.attention(x, keep, f"{name}.attention")
            y = gelu(self.linear(x, f"{name}.intermediate.dense"))
            x = self.norm(self.linear(y, f"{name}.output.dense") + x, f"{name}.output.LayerNorm")
        mean = np.einsum("bsh,bs->bh", x, keep.astype(np.float64)) / keep.sum(axis=1)[:, None]
        return x, mean / np.linalg.norm(mean, axis=1, keepdims=True)
