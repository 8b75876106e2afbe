# SPDX-License-Identifier: Apache-2.0
"""Measures single computations: Tenon, the libraries that experts wrote, and this machine's own limits.

Every row stands for itself: the limits that its roofline is made of, the peers and Tenon are measured in turns. A ratio
is Tenon's time divided by the peer's: below 1, Tenon is faster. The share of the roofline is the time that the
arithmetic alone (at the measured peak of f32 multiply-adds) or the memory traffic alone (at the measured bandwidth of
copying in a footprint as large, or of reading where next to nothing is written) would take, whichever is longer,
divided by Tenon's time, both of the same turn; the median of the turns. For maps and reductions the arithmetic is a
count of vector instructions at the rate of multiply-adds: CPUs that add or compare on further ports can be faster.

Convolutions are measured twice: with images in the layout that each side prefers (Tenon: channels last; oneDNN: what it
asks for), and, in the column "oneDNN nchw", with plain images in and out on both sides.
"""

import argparse
import math
import os
import re
import statistics
import sys
import tempfile
from pathlib import Path

import measure
from measure import BenchError

HERE = Path(__file__).resolve().parent
RUNS_PER_TURN = 5
# Of the largest magnitude in the output: float32 sums of up to 4,096 products in different orders.
TOLERANCE = 1e-4
# Peers, and where their programs come from.
PEERS = {
    "openblas": "Debian's libopenblas-dev",
    "mkl": "the Python package mkl",
    "onednn": "the Python package onednn-cpu-iomp",
}
SHOWN = {"openblas": "OpenBLAS", "mkl": "MKL", "onednn": "oneDNN", "onednn-plain": "oneDNN nchw"}
# What a peer is compared with; Tenon itself where it is not named.
OPPONENTS = {"onednn-plain": "tenon-plain"}


def environment(threads):
    """Threads, and pools that stop to spin within a pause between turns."""
    count = str(threads)
    return {"OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count, "KMP_BLOCKTIME": "10",
            "OPENBLAS_THREAD_TIMEOUT": "24"}


def start_servers(programs, threads):
    """The programs' processes: name -> Server. Those missing are not in it."""
    servers = {}
    try:
        for name, program in (("fma", "machine"), ("memory", "machine"), ("tenon", "tenon"), ("tenon-plain", "tenon"),
                              *((peer, peer) for peer in PEERS), ("onednn-plain", "onednn")):
            path = programs / f"bench_{program}"
            if path.exists():
                servers[name] = measure.Server(name, [str(path), str(threads)], environment(threads))
    except BaseException:
        for server in servers.values():
            server.close()
        raise
    return servers


def reference(model, feeds):
    """ONNX Runtime's answer."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0]


def write_case(case, folder, answer_of):
    """Writes the models and the operands. Returns (the fields that name them, the reference answer)."""
    import numpy as np
    import onnx

    feeds = case.feeds()
    onnx.save(case.model(), folder / "model.onnx")
    answer = answer_of(str(folder / "model.onnx"), feeds)
    for name, array in (feeds | case.constants).items():
        np.save(folder / f"{name}.npy", array)
    if case.is_image:
        onnx.save(case.channels_last_model(), folder / "last.onnx")
        np.save(folder / "last.npy", np.ascontiguousarray(feeds["x"].transpose(0, 2, 3, 1)))
    plain = {"model": folder / "model.onnx", **{f"input{i}": folder / f"{name}.npy" for i, name in enumerate(feeds)}}
    fields = {"tenon-plain": plain, "tenon": plain,
              "peers": {key: folder / f"{name}.npy" for key, name in case.operands.items()}}
    if case.is_image:
        fields["tenon"] = {"model": folder / "last.onnx", "input0": folder / "last.npy"}
    return fields, answer


def case_lines(case):
    """Server -> what it is to prepare."""
    lines = {"tenon": "kind=model", "memory": f"kind={case.stream} bytes={case.bytes}"}
    if case.flops or case.instructions:
        lines["fma"] = "kind=fma"
    if case.peer_line:
        lines |= {peer: f"{case.peer_line} layout=any" for peer in PEERS}
    if case.is_image:
        lines |= {"onednn-plain": f"{case.peer_line} layout=plain", "tenon-plain": "kind=model"}
    return lines


def prepare(servers, case, fields, answer, folder):
    """Gives every server its case. Returns name -> what it says about it, of those that can, and compares answers."""
    import numpy as np

    ready, differences = {}, {}
    for name, line in case_lines(case).items():
        if name not in servers:
            continue
        output = folder / f"{name}.bin"
        operands = " ".join(f"{key}={path}" for key, path in fields.get(name, fields["peers"]).items())
        said = servers[name].ask(f"case {line} output={output} {operands}")
        if "unsupported" in said:
            continue
        ready[name] = said.get("note", "")
        if output.exists():
            result = np.fromfile(output, np.float32)
            if case.is_image and name == "tenon":
                result = result.reshape(answer.transpose(0, 2, 3, 1).shape).transpose(0, 3, 1, 2)
            differences[name] = measure.largest_difference([result.reshape(answer.shape)], [answer])
            output.unlink()
            if not differences[name] <= TOLERANCE:
                raise BenchError(f"{name}: its answer differs from the reference by {differences[name]:.1e} of the "
                                 f"largest element, allowed are {TOLERANCE:.0e}")
    return ready, differences


def caches():
    """[(name, bytes)] of this CPU's data caches, smallest first."""
    found = {}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        if (index / "type").read_text().strip() != "Instruction":
            size = (index / "size").read_text().strip()
            found[f"L{(index / 'level').read_text().strip()}"] = int(size[:-1]) << {"K": 10, "M": 20}[size[-1]]
    return sorted(found.items(), key=lambda entry: entry[1])


def level(size, threads):
    for name, capacity in caches():
        # Two threads have two private caches, and one L3 between them.
        if size <= capacity * (threads if name != "L3" else 1):
            return name
    return "memory"


def roofline(case, turns, notes, threads):
    """Returns (share of the roofline, nanoseconds that the case takes at least, what bounds it). `turns`: name -> the
    times of each turn. Each turn is held to the limits of the turn beside it, so that what other work does with the
    caches and the memory, which these share with it, meets both."""
    medians = {name: [statistics.median(turn) for turn in of] for name, of in turns.items()}
    limits = {}
    if "fma" in turns:
        operations = case.flops or 2 * case.instructions
        limits["arithmetic"] = [operations / float(notes["fma"]) * took for took in medians["fma"]]
    if "memory" in turns:
        limits[level(case.bytes, threads)] = medians["memory"]
    share = statistics.median(max(turn[:-1]) / turn[-1] for turn in zip(*limits.values(), medians["tenon"]))
    least = {name: statistics.median(of) for name, of in limits.items()}
    bound = max(least, key=least.get)
    return share, least[bound], bound


def measure_case(case, servers, threads, fields, answer, folder, options):
    """Returns the row of a case at a number of threads."""
    notes, differences = prepare(servers, case, fields, answer, folder)
    turns = {name: (lambda server=servers[name]: server.ask(f"run {RUNS_PER_TURN + 1}")) for name in notes}
    key = {"wall": "ns", "cpu": "cpu_ns"}[options.clock]
    # The first run of a turn finds cold caches.
    by_turn = {name: [answer[key][1:] for answer in answers]
               for name, answers in measure.take_turns(turns, math.ceil(options.runs / RUNS_PER_TURN)).items()}
    samples = {name: sum(of, []) for name, of in by_turn.items()}
    times = {name: statistics.median(ns) for name, ns in samples.items()}
    share, least, bound = roofline(case, by_turn, notes, threads)
    peers = [name for name in times if name in SHOWN]
    own = {peer: OPPONENTS.get(peer, "tenon") for peer in peers}
    return {"case": case.name, "group": case.group, "threads": threads, "tenon_us": times["tenon"] / 1e3,
            "ratios": {peer: times[own[peer]] / times[peer] for peer in peers},
            "least_ratios": {peer: min(samples[own[peer]]) / min(samples[peer]) for peer in peers},
            "roofline": share, "bound": bound,
            "best_peer_roofline": least / min(times[peer] for peer in peers) if peers else None,
            "fma_gflops": float(notes["fma"]) / times["fma"] if "fma" in times else None,
            "bandwidth_gbs": case.bytes / times["memory"], "notes": notes, "differences": differences,
            "median_us": {name: ns / 1e3 for name, ns in times.items()},
            "min_us": {name: min(ns) / 1e3 for name, ns in samples.items()}}


def print_row(row):
    def ratio(name):
        return f"{row['ratios'][name]:>11.2f}" if name in row["ratios"] else f"{'':>11}"

    print(f"{row['group']:<12} {row['case']:<22} {row['threads']:>3} {row['tenon_us']:>11.2f} "
          f"{' '.join(map(ratio, SHOWN))} {row['roofline']:>8.0%}  {row['bound']}"
          f"{' (above the limit as measured)' if row['roofline'] > 1.03 else ''}", flush=True)


def print_header(options):
    print(f"\nmedians of {math.ceil(options.runs / RUNS_PER_TURN) * RUNS_PER_TURN}, "
          f"{'wall time' if options.clock == 'wall' else 'CPU time of the process'}; columns of peers: Tenon's time / "
          f"the peer's\n{'':<12} {'case':<22} {'thr':>3} {'Tenon us':>11} "
          f"{' '.join(f'{text:>11}' for text in SHOWN.values())} {'roofline':>8}  bound by")


def measure_limits(servers, threads, options):
    """Prints this machine's limits: peak of multiply-adds, and the bandwidth at half of each cache and past them."""
    footprints = [(name, size // 2 * (threads if name != "L3" else 1)) for name, size in caches()]
    footprints.append(("memory", 4 * max([size for _, size in caches()] + [16 << 20])))
    key = {"wall": "ns", "cpu": "cpu_ns"}[options.clock]
    found = {}

    def time_of(line):
        note = servers["memory"].ask(f"case {line}")["note"]
        samples = [servers["memory"].ask("run 6")[key][1:] for _ in range(6)]
        return statistics.median(sum(samples, [])), note

    took, flops = time_of("kind=fma")
    found["fma_gflops"] = float(flops) / took
    text = [f"FMA {found['fma_gflops']:.0f} GFLOP/s"]
    for name, size in footprints:
        for kind in ("read", "copy"):
            found[f"{kind}_{name}"] = size / time_of(f"kind={kind} bytes={size}")[0]
        text.append(f"{name} ({size >> 10} KB) read {found[f'read_{name}']:.0f}, copy {found[f'copy_{name}']:.0f} GB/s")
    print(f"{threads} thread{'s' if threads > 1 else ''}: {'; '.join(text)}", flush=True)
    return {"threads": threads, **found}


def summarize(rows):
    """Per group and number of threads: geometric mean and worst ratio to the best peer of each row, share of roofline."""
    print("\nagainst the best peer of each row (convolutions: each in its own layout)")
    summary = []
    for key in dict.fromkeys((row["group"], row["threads"]) for row in rows):
        group = [row for row in rows if (row["group"], row["threads"]) == key]
        best = [max(ratio for peer, ratio in row["ratios"].items() if peer != "onednn-plain") for row in group
                if set(row["ratios"]) - {"onednn-plain"}]
        shares = [row["roofline"] for row in group]
        entry = {"group": key[0], "threads": key[1], "rows": len(group), "roofline": measure.geometric_mean(shares),
                 "worst_roofline": min(shares)}
        text = f"{key[0]:<12} {key[1]} threads, {len(group)} rows: "
        if best:
            entry |= {"ratio": measure.geometric_mean(best), "worst_ratio": max(best)}
            text += f"geometric mean {entry['ratio']:.2f}, worst {entry['worst_ratio']:.2f}; "
        print(f"{text}roofline {entry['roofline']:.0%}, worst {entry['worst_roofline']:.0%}")
        summary.append(entry)
    return summary


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(prog="bench kernels", description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", metavar="PATTERN", help="only cases whose \"GROUP NAME\" matches a regular expression")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], metavar="N", help="(default: 1 2)")
    parser.add_argument("--runs", type=int, default=30, help="counted runs of each, at least 30 (%(default)s)")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall",
                        help="cpu: the time that the process used, for one thread on a busy machine (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything measured to a file")
    parser.add_argument("--check", action="store_true", help="compare the answers, time nothing")
    parser.add_argument("--list", action="store_true", help="print the cases and do nothing")
    parser.add_argument("--programs", type=Path, default=HERE.parent / "build" / "release" / "bench" / "kernels",
                        help="where the measuring programs are (%(default)s)")
    options = parser.parse_args(arguments)
    if options.runs < 30 or min(options.threads) < 1:
        parser.error("--runs must be at least 30, --threads at least 1")
    return options


def build_programs(programs):
    for name in ("machine", "tenon"):
        if not os.access(programs / f"bench_{name}", os.X_OK):
            raise BenchError(f"{programs}/bench_{name}: no such program; `./dev bench kernels` builds it")
    missing = {peer: source for peer, source in PEERS.items() if not (programs / f"bench_{peer}").exists()}
    for peer, source in missing.items():
        print(f"MISSING PEER: {SHOWN[peer]} is not measured, because {source} was not there when bench_{peer} was to be "
              "built")
    return missing


def run_cases(cases, threads, options, report, answer_of=reference):
    """Measures the cases, or only compares their answers, and adds what was found to `report`."""
    servers = start_servers(options.programs, threads)
    try:
        versions = {name: server.start["version"] for name, server in servers.items()}
        report["versions"] = versions
        if not options.check:
            report["limits"].append(measure_limits(servers, threads, options))
            print_header(options)
        for case in cases:
            try:
                with tempfile.TemporaryDirectory() as scratch:
                    fields, answer = write_case(case, Path(scratch), answer_of)
                    if options.check:
                        _, differences = prepare(servers, case, fields, answer, Path(scratch))
                        print(f"{case.group} {case.name}: {len(differences)} agree", flush=True)
                    else:
                        report["rows"].append(measure_case(case, servers, threads, fields, answer, Path(scratch),
                                                           options))
                        print_row(report["rows"][-1])
            except BenchError as error:
                report["complaints"].append(f"{case.group} {case.name}, {threads} threads: {error}")
                print(f"{case.group:<12} {case.name:<22} {threads:>3}  failed: {error}", flush=True)
                # A process may have ended: all start anew.
                for server in servers.values():
                    server.close()
                servers = start_servers(options.programs, threads)
    finally:
        for server in servers.values():
            server.close()


def main(arguments):
    options = parse_arguments(arguments)
    import kernel_cases

    cases = [case for case in kernel_cases.all_cases()
             if re.search(options.only or "", f"{case.group} {case.name}")]
    if options.list:
        print("\n".join(f"{case.group} {case.name}" for case in cases))
        return 0
    report = {"machine": measure.machine(), "limits": [], "rows": [], "complaints": []}
    try:
        if not cases:
            raise BenchError(f"no case matches {options.only}; --list shows them")
        report["missing_peers"] = build_programs(options.programs)
        print(measure.describe_machine(report["machine"]))
        for threads in options.threads:
            run_cases(cases, threads, options, report)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    if report["rows"]:
        report["summary"] = summarize(report["rows"])
    if options.json:
        measure.write_report(options.json, report, options)
    for complaint in report["complaints"]:
        print(f"bench: {complaint}", file=sys.stderr)
    return 1 if report["complaints"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
