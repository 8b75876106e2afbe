# SPDX-License-Identifier: Apache-2.0
"""Compiles all-MiniLM-L6-v2 with Tenon, embeds a page of sentences and finds the ones nearest to a query.

Every embedding is checked against a float64 evaluation of the same network in NumPy; the exit status is 1 if the two
differ by more than the tolerance anywhere.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from export_onnx import export, write_atomically
from reference import ReferenceMiniLM
from tokenizer import Tokenizer
from weights import ModelFilesError, find_model_folder

TOLERANCE = 1e-4
DEFAULT_QUERY = "How do I stop my program from running out of memory?"

SENTENCES = """\
The garbage collector frees objects that nothing points to any more.
A leak of a few bytes per request brought the server down after nine days.
Compilers turn loops over arrays into instructions that work on eight numbers at once.
Register allocation can be seen as colouring the vertices of a graph.
Linkers are older than most of the languages that they link.
The mortise and tenon joint has held wooden frames together for seven thousand years.
A sharp chisel is safer than a blunt one, because it needs less force.
Oak swells across its grain in a damp winter and shrinks again in summer.
Whales sing in dialects that drift from one ocean to the next.
The octopus tastes what it touches, with every one of its arms.
Emperor penguins huddle in turns, so that nobody stands in the wind for long.
A flock of starlings turns as one although no bird is leading it.
Light from the Andromeda galaxy left it before there were people to see it.
Saturn is so light for its size that it would float in a large enough bath.
The Moon moves away from us by about four centimetres every year.
Bread rises because yeast breathes out carbon dioxide into the dough.
Add the tomatoes only when the onions have turned golden.
Salt in the water barely changes the time that pasta needs.
The orchestra tunes to the oboe, whose pitch is the hardest to bend.
Bach signed his last fugue with the letters of his own name.
She learned the violin at sixty and played in public at seventy.
The train to Kyoto leaves at noon from platform eleven.
Where is the nearest pharmacy that is open on Sundays?
An index fund buys a little of everything and hopes for the average.
The bank raised its interest rates for the third time this year.
""".splitlines()


def import_tenon():
    try:
        import tenon
    except ImportError as error:
        raise ModelFilesError(f"the Python module tenon is missing ({error}); `./dev demo` builds it, "
                              "`pip install .` installs it") from None
    return tenon


def compile_model(tenon, folder, build, sequence, threads):
    """Exports the model if the build folder lacks it, compiles it for one sentence of `sequence` tokens, and reports
    on both. Returns the compiled model."""
    source = build / "minilm.onnx"
    if not source.exists():
        write_atomically(export(folder), source)
        print(f"exported   {source} ({source.stat().st_size / 1e6:.1f} MB)")
    start = time.perf_counter()
    model = tenon.compile(str(source), threads=threads, dims={"batch": 1, "sequence": sequence}, cache=False)
    seconds = time.perf_counter() - start
    executable = build / "minilm.tnx"
    model.save(str(executable))
    print(f"compiled   {executable} ({executable.stat().st_size / 1e6:.1f} MB) in {seconds:.2f} s, "
          f"for {sequence} tokens")
    return model


def embed(model, rows):
    """Runs the model row by row. Returns its outputs for all rows and the latencies in milliseconds."""
    hidden, sentences, latencies = [], [], []
    for i in range(len(rows["input_ids"])):
        feed = {name: array[i : i + 1] for name, array in rows.items()}
        start = time.perf_counter()
        result = model.run(feed)
        latencies.append((time.perf_counter() - start) * 1e3)
        hidden.append(np.array(result["last_hidden_state"]))
        sentences.append(np.array(result["sentence_embedding"]))
    return (np.concatenate(hidden), np.concatenate(sentences)), latencies


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--query", default=DEFAULT_QUERY, help="the sentence to find neighbours of")
    parser.add_argument("--sequence", type=int, default=32, help="tokens that the compiled model takes (%(default)s)")
    parser.add_argument("--threads", type=int, help="threads to run with (default: all that this process may use)")
    parser.add_argument("--repeat", type=int, default=5, help="passes over the page for the latency (%(default)s)")
    parser.add_argument("--build", type=Path, default=Path("build/demo"), help="folder for what is made (%(default)s)")
    parser.add_argument("--model", metavar="FOLDER", help="folder of the weights (default: the installed package)")
    arguments = parser.parse_args()
    try:
        tenon = import_tenon()
        folder = find_model_folder(arguments.model)
        arguments.build.mkdir(parents=True, exist_ok=True)
        model = compile_model(tenon, folder, arguments.build, arguments.sequence, arguments.threads)
    except (ModelFilesError, OSError) as error:
        print(f"demo.py: {error}", file=sys.stderr)
        return 1

    tokenizer = Tokenizer.from_file(folder / "vocab.txt")
    rows = tokenizer.batch([*SENTENCES, arguments.query], arguments.sequence)
    outputs, _ = embed(model, rows)
    latencies = [latency for _ in range(arguments.repeat) for latency in embed(model, rows)[1]]

    embeddings = outputs[1]
    scores = embeddings[:-1] @ embeddings[-1]
    print(f"\nnearest to {arguments.query!r}, of {len(SENTENCES)} sentences:")
    for i in np.argsort(-scores, kind="stable")[:5]:
        print(f"  {scores[i]:6.3f}  {SENTENCES[i]}")

    print(f"\nlatency    {statistics.median(latencies):.2f} ms a sentence, median of {len(latencies)} "
          f"({min(latencies):.2f} to {max(latencies):.2f})")
    expected = ReferenceMiniLM(folder).run(**rows)
    # NaN compares false with everything, so "not within" is asked rather than "above".
    differences = [float(np.abs(got - want).max()) for got, want in zip(outputs, expected)]
    print(f"difference {differences[1]:.2e} at most in the embeddings, {differences[0]:.2e} in the hidden states, "
          f"against NumPy in float64 (allowed: {TOLERANCE:.0e})")
    if not all(difference <= TOLERANCE for difference in differences):
        print("demo.py: the compiled model's answers differ from the reference by more than is allowed",
              file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
