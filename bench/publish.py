# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of docs/performance.md from what `./dev bench NAME --json bench/results/NAME.json` wrote.

usage: bench.py --publish            writes the tables anew
       bench.py --publish --check    exit status 1 when the page has other tables

A table stands between `<!-- NAME -->` and `<!-- end NAME -->`; the text around is written by hand. A result has the
day, the machine, the versions of all that was measured, and the clock; the page says so above each table.
"""

import json
import sys
from pathlib import Path

import bench_declarations
import declaration_engines
import measure

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "performance.md"
RESULTS = ROOT / "bench" / "results"
PEERS = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "torch": "inductor", "openblas": "OpenBLAS", "mkl": "MKL",
         "onednn": "oneDNN", "onednn-plain": "oneDNN, plain images"}


class PublishError(Exception):
    """A result or a page that is not as it should be; the message says which and why."""


def header(report):
    """What was measured, where and when, in one line."""
    versions = ", ".join(f"{'Tenon' if name == 'tenon' else PEERS.get(name, name)} {version}"
                         for name, version in report["versions"].items() if version)
    clock = {"wall": "wall time", "cpu": "CPU time of the process"}[report["clock"]]
    return f"{report['date']}, {versions}; {measure.describe_machine(report['machine'])}; {clock}, medians of {report['runs']}."


def markdown(columns, rows):
    """A table; all columns but the first to the right."""
    lines = [f"| {' | '.join(columns)} |", f"| --- |{' --: |' * (len(columns) - 1)}"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def number(value, layout=".2f"):
    return "" if value is None else format(value, layout)


def mean_lines(rows, what):
    """The geometric mean and the worst ratio to the best peer, per number of threads."""
    lines = []
    for threads in sorted({row["threads"] for row in rows}):
        ratios = [row["ratio"] for row in rows if row["threads"] == threads]
        lines.append(f"{threads} thread{'s' if threads > 1 else ''}: {measure.geometric_mean(ratios):.2f} times the {what}'s time "
                     f"(geometric mean of {len(ratios)}; worst {max(ratios):.2f}).")
    return "\n".join(lines)


def models(report):
    rows = report["latency"]
    peers = list(rows[0]["ratios"])
    table = [[row["model"], str(row["threads"]), *(number(row["ratios"].get(peer)) for peer in peers),
              number(row["roofline"], ".0%"), number(row["tenon"]["peak_mb"], ".0f"),
              *(number(row[peer]["peak_mb"], ".0f") for peer in peers), number(row["difference"], ".1e")] for row in rows]
    names = [PEERS[peer] for peer in peers]
    text = [markdown(["model", "threads", *(f"time / {name}'s" for name in names), "roofline", "MB",
                      *(f"{name} MB" for name in names), "difference"], table), mean_lines(rows, "best peer")]
    if report["start"]:
        starts = [[row["model"], str(row["threads"]), number(row["compile_s"]), number(row["cold_s"]), number(row["warm_s"]),
                   *(number(row["peers_s"].get(peer)) for peer in peers), number(row["compile_peak_mb"], ".0f"),
                   number(row["executable_mb"], ".1f"), number(row["executable_start_ms"], ".0f"),
                   *(number(row["peers_start_ms"].get(peer), ".0f") for peer in peers)] for row in report["start"]]
        text.append("Seconds to compile on a cold cache, from `.onnx` to the first output on a cold and a warm cache, and the "
                    "peers'; peak memory of the compile; milliseconds from the start of `tenon run` with an executable, and from "
                    "the peers' load, to the first output, less a later run.")
        text.append(markdown(["model", "threads", "compile", "cold", "warm", *names, "compile MB", "executable MB", "its start, ms",
                              *(f"{name}'s, ms" for name in names)], starts))
    return "\n\n".join(text)


def kernels(report):
    peers = [name for name in PEERS if any(name in row["ratios"] for row in report["rows"])]
    table = [[f"{row['group']} {row['case']}", str(row["threads"]), *(number(row["ratios"].get(peer)) for peer in peers),
              number(row["roofline"], ".0%"), row["bound"]] for row in report["rows"]]
    groups = [[entry["group"], str(entry["threads"]), str(entry["rows"]), number(entry.get("ratio")),
               number(entry.get("worst_ratio")), number(entry["roofline"], ".0%")] for entry in report["summary"]]
    return "\n\n".join([
        markdown(["group", "threads", "rows", "time / best peer's, mean", "worst", "roofline"], groups),
        markdown(["work", "threads", *(f"time / {PEERS[peer]}'s" for peer in peers), "roofline", "bound by"], table)])


def operators(report):
    rows = [row for row in report["rows"] if "ratio" in row]
    table = [[row["operator"], str(row["threads"]), number(row["ratio"])] for row in sorted(rows, key=lambda row: -row["ratio"])]
    return "\n\n".join([mean_lines(rows, "ONNX Runtime"), markdown(["operator", "threads", "time / ONNX Runtime's"], table)])


def lengths(report):
    table = [[str(row["length"]), str(row["threads"]), number(row["ratios"]["exact"]), number(row["ratios"]["onnxruntime"])]
             for row in report["rows"]]
    return markdown(["tokens", "threads", "time / one compiled for the length", "time / ONNX Runtime's"], table)


def declarations(report):
    rows = report["rows"]
    peers = [peer for peer in declaration_engines.ENGINES if any(peer in row["ratios"] for row in rows)]
    table = [[f"{row['class']} {row['kernel']}", str(row["threads"]), "not in time" if "tenon" in row["failed"] else
              number(row["tenon"] * 1e3, ".3f"), *("failed" if peer in row["failed"] else number(row["ratios"].get(peer)) for peer in peers)]
             for row in rows]
    means = []
    for name, threads in dict.fromkeys((row["class"], row["threads"]) for row in rows):
        chosen = [row for row in rows if (row["class"], row["threads"]) == (name, threads) and "ratio" in row]
        gcc = [row["ratios"]["plain"] for row in chosen if "plain" in row["ratios"]]
        means.append([name, str(threads), str(len(chosen)), number(bench_declarations.mean(gcc)), number(max(gcc, default=None)),
                      number(bench_declarations.mean([row["ratio"] for row in chosen]))])
    return "\n\n".join([
        markdown(["class", "threads", "declarations", "time / gcc's, mean", "worst", "time / the best peer's, mean"], means),
        *(f"{bench_declarations.summary_lines(entry)}." for entry in report["summary"]),
        markdown(["declaration", "threads", "ms", *(f"time / {declaration_engines.ENGINES[peer]}'s" for peer in peers)], table)])


EARLIER = {"models": "models", "kernels": "kernels", "operators": "single-operators", "lengths": "open-lengths"}
TABLES = {"models": models, "kernels": kernels, "operators": operators, "lengths": lengths,
          "declarations": declarations, "applications": declarations}


def table_of(name, results):
    """The text between the marks of a table."""
    path = results / f"{name}.json"
    if not path.exists():
        earlier = EARLIER.get(name)
        return "No result is kept" + (f"; [{earlier}](experiments/{earlier}.md) has figures of earlier versions." if earlier else ".")
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        return f"{header(report)}\n\n{TABLES[name](report)}"
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise PublishError(f"{path}: this is no result of ./dev bench {name} ({type(error).__name__}: {error}); write it anew "
                           f"with --json {path}") from None


def published(page, results):
    """The page with its tables made anew."""
    for name in TABLES:
        begin, end = f"<!-- {name} -->", f"<!-- end {name} -->"
        before, found, rest = page.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise PublishError(f"docs/performance.md has no place for the table {name}: it stands between {begin} and {end}")
        page = f"{before}{begin}\n{table_of(name, results)}\n{end}{after}"
    return page


def main(arguments):
    if arguments not in ([], ["--check"]):
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    old = PAGE.read_text(encoding="utf-8")
    try:
        new = published(old, RESULTS)
    except PublishError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    if arguments:
        if new != old:
            print("bench: docs/performance.md does not have the tables of bench/results; ./dev bench --publish writes them",
                  file=sys.stderr)
        return int(new != old)
    PAGE.write_text(new, encoding="utf-8")
    return 0
