# SPDX-License-Identifier: Apache-2.0
"""BERT's uncased WordPiece tokenizer in plain Python.

The algorithm is that of Google's BERT (tokenization.py: BasicTokenizer, then WordpieceTokenizer), with the behaviour of
Hugging Face's BertNormalizer and BertPreTokenizer where the two differ on rare characters.
"""

import re
import unicodedata
from pathlib import Path

import numpy as np

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MAX_CHARACTERS_PER_WORD = 100

# The blocks that hold Chinese characters; Hangul, Hiragana and Katakana are written with spaces and stay words.
CJK_RANGES = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def is_space(c):
    return c in " \t\n\r" or unicodedata.category(c) == "Zs"


def is_control(c):
    if c in "\t\n\r":
        return False
    return unicodedata.category(c) in ("Cc", "Cf", "Co", "Cs")


def is_punctuation(c):
    """Unicode's punctuation, and every ASCII character that is neither letter, digit, space nor control."""
    code = ord(c)
    if 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126:
        return True
    return unicodedata.category(c).startswith("P")


def is_cjk(c):
    code = ord(c)
    return any(low <= code <= high for low, high in CJK_RANGES)


def normalize(text):
    """Drops control characters, sets Chinese characters apart, strips accents, lowers the case."""
    cleaned = []
    for c in text:
        if c in ("\0", "\ufffd") or is_control(c):
            continue
        if is_space(c):
            cleaned.append(" ")
        elif is_cjk(c):
            cleaned.append(f" {c} ")
        else:
            cleaned.append(c)
    decomposed = unicodedata.normalize("NFD", "".join(cleaned))
    # Character by character: lowering a whole string would turn a sigma at the end of a word into its final form.
    return "".join(c.lower() for c in decomposed if unicodedata.category(c) != "Mn")


def split_words(text):
    """Splits normalised text at white space, and makes every punctuation character a word of its own."""
    words = []
    for chunk in text.split():
        start = 0
        for i, c in enumerate(chunk):
            if is_punctuation(c):
                words.extend(filter(None, (chunk[start:i], c)))
                start = i + 1
        words.extend(filter(None, (chunk[start:],)))
    return words


class Tokenizer:
    """Turns text into token ids. `max_tokens` counts [CLS] and [SEP]; longer text is cut at its end."""

    def __init__(self, vocabulary, max_tokens=256):
        if max_tokens < 2:
            raise ValueError(f"max_tokens is {max_tokens}: at least 2 are needed, for [CLS] and [SEP]")
        self.ids = {token: i for i, token in enumerate(vocabulary)}
        missing = [token for token in SPECIAL_TOKENS if token not in self.ids]
        if missing:
            raise ValueError(f"the vocabulary lacks {', '.join(missing)}")
        self.tokens = list(vocabulary)
        self.max_tokens = max_tokens
        self.special = re.compile("(" + "|".join(map(re.escape, SPECIAL_TOKENS)) + ")")

    @staticmethod
    def from_file(path, max_tokens=256):
        return Tokenizer(Path(path).read_text(encoding="utf-8").split("\n")[:-1], max_tokens)

    def pieces(self, word):
        """The longest vocabulary entries that spell `word` from left to right, or [UNK] if nothing spells it."""
        if len(word) > MAX_CHARACTERS_PER_WORD:
            return ["[UNK]"]
        found = []
        start = 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = word[start:end] if start == 0 else "##" + word[start:end]
                if piece in self.ids:
                    break
            else:
                return ["[UNK]"]
            found.append(piece)
            start = end
        return found

    def tokenize(self, text):
        """The WordPiece tokens of `text`, without [CLS] and [SEP]; special tokens written in the text stay whole."""
        tokens = []
        for part in self.special.split(text):
            if part in SPECIAL_TOKENS:
                tokens.append(part)
                continue
            for word in split_words(normalize(part)):
                tokens.extend(self.pieces(word))
        return tokens

    def encode(self, text):
        tokens = ["[CLS]", *self.tokenize(text)[: self.max_tokens - 2], "[SEP]"]
        return [self.ids[token] for token in tokens]

    def batch(self, texts, sequence=None):
        """Encodes and pads texts to one width: the longest one's, or `sequence` tokens, which then also truncates.

        Returns the network's inputs by name, int64 [len(texts), width].
        """
        rows = [self.encode(text) for text in texts]
        if sequence is not None:
            separator = self.ids["[SEP]"]
            rows = [row if len(row) <= sequence else row[: sequence - 1] + [separator] for row in rows]
        width = sequence or max(map(len, rows), default=0)
        input_ids = np.full((len(rows), width), self.ids["[PAD]"], np.int64)
        attention_mask = np.zeros((len(rows), width), np.int64)
        for i, row in enumerate(rows):
            input_ids[i, : len(row)] = row
            attention_mask[i, : len(row)] = 1
        return {"input_ids": input_ids, "attention_mask": attention_mask,
                "token_type_ids": np.zeros((len(rows), width), np.int64)}
