# SPDX-License-Identifier: Apache-2.0
"""The pieces of examples/minilm that can be wrong on their own: tokenizer, safetensors reader and export."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "minilm"))

import reference  # noqa: E402
import tokenizer  # noqa: E402
import weights  # noqa: E402


def tensor_bytes(header, data):
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


class SafetensorsTest(unittest.TestCase):
    def write(self, content):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name) / "x.safetensors"
        path.write_bytes(content)
        return path

    def test_reads_what_numpy_wrote(self):
        a = np.arange(6, dtype=np.float32).reshape(2, 3)
        b = np.array([[1, -2]], np.int64)
        scalar = np.array(2.5, np.float64)
        header = {
            "__metadata__": {"format": "pt"},
            "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [1, 25]},
            "b": {"dtype": "I64", "shape": [1, 2], "data_offsets": [25, 41]},
            "scalar": {"dtype": "F64", "shape": [], "data_offsets": [41, 49]},
            "none": {"dtype": "F32", "shape": [0, 4], "data_offsets": [49, 49]},
        }
        # The data begins with one byte that belongs to nobody, so that every tensor is unaligned.
        path = self.write(tensor_bytes(header, b"\0" + a.tobytes() + b.tobytes() + scalar.tobytes()))
        tensors = weights.read_safetensors(path)
        self.assertEqual(set(tensors), {"a", "b", "scalar", "none"})
        for name, want in (("a", a), ("b", b), ("scalar", scalar), ("none", np.empty((0, 4), np.float32))):
            self.assertEqual(tensors[name].dtype, want.dtype)
            self.assertTrue(tensors[name].flags.aligned)
            np.testing.assert_array_equal(tensors[name], want, strict=True)

    def refuses(self, content, message):
        with self.assertRaisesRegex(weights.ModelFilesError, message):
            weights.read_safetensors(self.write(content))

    def test_refuses_a_header_longer_than_the_file(self):
        self.refuses((1000).to_bytes(8, "little") + b"{}", "the header claims 1000 bytes, the file has 10")
        self.refuses(b"\x05", "the file has 1")

    def test_refuses_a_header_that_is_not_json(self):
        self.refuses((2).to_bytes(8, "little") + b"{,", "the header is not JSON")

    def test_refuses_a_tensor_outside_of_the_file(self):
        entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
        self.refuses(tensor_bytes({"w": entry}, b"\0" * 7), "tensor 'w' of shape .2. does not fit bytes 0 to 8 of 7")

    def test_refuses_a_shape_that_is_not_the_data(self):
        entry = {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}
        self.refuses(tensor_bytes({"w": entry}, b"\0" * 8), "tensor 'w' of shape .3. does not fit")

    def test_refuses_an_unknown_type(self):
        entry = {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]}
        self.refuses(tensor_bytes({"w": entry}, b"\0"), "tensor 'w' has the type F8_E4M3")


class TokenizerTest(unittest.TestCase):
    WORDS = ["hello", "world", "un", "##aff", "##able", "runn", "##ing", "cafe", ",", "!", "-", "東", "京", "##σ", "σας"]

    def setUp(self):
        self.tokenizer = tokenizer.Tokenizer([*tokenizer.SPECIAL_TOKENS, *self.WORDS], max_tokens=8)

    def tokens(self, text, want):
        self.assertEqual(self.tokenizer.tokenize(text), want.split())

    def test_longest_match_first(self):
        self.tokens("unaffable running", "un ##aff ##able runn ##ing")

    def test_unknown_words_are_one_token(self):
        self.tokens("unaffably hello", "[UNK] hello")
        self.tokens("hello" * 20 + "x", "[UNK]")

    def test_case_accents_and_punctuation(self):
        self.tokens("HELLO,wörld! Café-", "hello , world ! cafe -")
        self.tokens("e\u0301 caf\u00e9", "[UNK] cafe")

    def test_chinese_characters_stand_alone(self):
        self.tokens("hello東京world", "hello 東 京 world")

    def test_white_space_and_control_characters(self):
        self.tokens("hel\u200dlo\u00a0world\x00\tworld\r\n\ufffd", "hello world world")

    def test_a_final_sigma_is_lowered_like_any_other(self):
        self.tokens("ΣΑΣ", "[UNK]")
        self.tokens("ΣΑς", "σας")

    def test_special_tokens_stay_whole(self):
        self.tokens("hello [MASK] world", "hello [MASK] world")
        self.tokens("[mask]", "[UNK] [UNK] [UNK]")

    def test_truncation_keeps_the_separator(self):
        ids = self.tokenizer.encode("hello " * 50)
        self.assertEqual(len(ids), 8)
        self.assertEqual((ids[0], ids[-1]), (self.tokenizer.ids["[CLS]"], self.tokenizer.ids["[SEP]"]))
        rows = self.tokenizer.batch(["hello " * 50], sequence=4)
        self.assertEqual(rows["input_ids"].tolist(), [[2, 5, 5, 3]])

    def test_padding(self):
        rows = self.tokenizer.batch(["hello world", ""])
        self.assertEqual(rows["input_ids"].tolist(), [[2, 5, 6, 3], [2, 3, 0, 0]])
        self.assertEqual(rows["attention_mask"].tolist(), [[1, 1, 1, 1], [1, 1, 0, 0]])
        self.assertEqual({array.dtype for array in rows.values()}, {np.dtype(np.int64)})
        self.assertEqual(self.tokenizer.batch(["hello"], sequence=5)["input_ids"].tolist(), [[2, 5, 3, 0, 0]])

    def test_a_vocabulary_without_special_tokens_is_refused(self):
        with self.assertRaisesRegex(ValueError, r"lacks \[UNK\], \[MASK\]"):
            tokenizer.Tokenizer(["[PAD]", "[CLS]", "[SEP]"])


def installed_model():
    try:
        return weights.find_model_folder()
    except weights.ModelFilesError:
        return None


class InstalledModelTest(unittest.TestCase):
    """With the real vocabulary and weights; `./dev` installs them."""

    @classmethod
    def setUpClass(cls):
        cls.folder = installed_model()
        if cls.folder is None:
            raise AssertionError(f"the Python package {weights.DISTRIBUTION} is not installed")
        cls.tokenizer = tokenizer.Tokenizer.from_file(cls.folder / "vocab.txt")

    def test_known_ids(self):
        # As printed by the tokenizers library for the same text.
        self.assertEqual(self.tokenizer.encode("Hello, naïve café — 東京 embeddings!"),
                         [101, 7592, 1010, 15743, 7668, 1517, 1879, 1755, 7861, 8270, 4667, 2015, 999, 102])

    def test_export_agrees_with_the_reference(self):
        """One layer of the real weights through onnx's own evaluator: export and NumPy network are the same."""
        import dataclasses
        from unittest import mock

        import export_onnx
        import onnx.reference

        config = dataclasses.replace(weights.Config.read(self.folder / "config.json"), num_hidden_layers=1)
        rows = self.tokenizer.batch(["A short one.", "One that has a few more tokens than the other."])
        with mock.patch.object(weights.Config, "read", return_value=config):
            want = reference.ReferenceMiniLM(self.folder).run(**rows)
            for batch, sequence in (("batch", "sequence"), rows["input_ids"].shape):
                model = export_onnx.export(self.folder, batch, sequence)
                got = onnx.reference.ReferenceEvaluator(model).run(None, rows)
                for g, w in zip(got, want):
                    np.testing.assert_allclose(g, w, rtol=0, atol=2e-5)


if __name__ == "__main__":
    unittest.main()
