# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a command line is status 2, before any work, and what only files tell is status 1 with the file in
front (docs/cli.md). Over all commands: what their options are is asked of the program.

ctest sets TENON_CLI."""

import re
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from product import graph, info, node, tenon, write_mlp

COMMANDS = ("run", "compile", "build", "inspect", "explain", "strip", "machine", "targets", "tune")
OTHERS = ("db", "worker")  # a group of commands, and what people do not start
KERNELS = "kernel k(A: f32[N]) -> B: f32[N] { B[i] = A[i] }\nkernel g(A: f32[N]) -> B: f32[N] { B[i] = A[i] + 1.0 }\n"

# By option: values that no file makes right. Of the others any word may be one.
WRONG_VALUES = {
    "--target": ["pentium", "x86-64-v3+nothing", "gpu,warp=64", "cpu -croes=2", "cpu;", "cpu; cpu"],
    "--host": ["pentium", "cpu -host=cpu"],
    "--place": ["a", "a=", "=cpu", "a=opencl", "a=cpu:x", "a=cpu:1", "a=cpu/textur", "@"],
    "--memory": ["a", "cpu=", "=1", "cpu=0", "cpu=1XB", "cpu=99999999TiB", "cuda=1", "cpu=1,cpu:0=2"],
    "--on-device": ["a", "a=", "=cpu", "a=,body", "a=cpu,", "a=cpu,body,body", "a=cpu,both", "a=opencl", "a=cpu:1"],
    "--dim": ["n", "n=", "=3", "n=x", "n=-1", "n=99999999999999999999", "n=1,m", "n=1x"],
    "--alias": ["y", "y=", "=x"],
    "--capacity": ["n", "n=0", "n=x", "n=-1"],
    "--strided": [",", "x,,y", "x,"],
    "--threads": ["0", "1025", "many", "1x", "-1", "99999999999999999999"],
    "--seed": ["-1", "x", "1.5"],
    "--rtol": ["-1", "x", "nan", "inf", "1e-3x"],
    "--atol": ["-1", "x", "nan", "inf", "1e-3x"],
    "--repeat": ["0", "-1", "x", "1000001"],
    "--emit": ["bogus", "te,tir"],
    "--texts": ["bogus", "graph,", "none,loops"],
    "--print-after": ["bogus"],
    "--input": ["x="],
    "--vector-bytes": ["15", "65", "x", "-1", "1e1"],
    "--cache-bytes": ["4095", "1073741825", "4k", "-1"],
    "--registers": ["3", "65", "x"],
    "--search-space": ["0", "1000001", "all"],
    "--budget": ["0", "0s", "-1s", "soon", "5 m", "5d", "1e999"],
    "--trials": ["0", "-1", "x"],
    "--target-speedup": ["1", "0", "-2", "2x"],
    "--patience": ["0", "x"],
    "--builders": ["0", "257"],
    "--mode": ["fast"],
    "--window": ["0", "65537"],
    "--exhaustive": ["9", "x"],
}
# Options whose values are names or paths: only files tell whether they are right.
ANY_VALUE = {"--function", "--output", "--compare", "--machine", "--key", "--constants", "--map", "--kernel", "--schedule", "--constant", "--from-records",
             "--profile", "--tuned", "--database", "--device-memory"}


def options_of(command):
    """{option: what it takes, "" for a flag}"""
    text = tenon(command, "--help").stdout
    return {m[1]: m[2] or "" for m in re.finditer(r"^  (--[a-z-]+)(?: (\S+))?  +\S", text, re.M)}


class CommandLineTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = Path(scratch.name)
        cls.model, cls.array, _ = write_mlp(cls.folder)
        cls.executable, cls.kernels, cls.key = cls.folder / "m.tnx", cls.folder / "k.te", cls.folder / "key"
        tenon("compile", cls.model, "-o", cls.executable)
        cls.kernels.write_text(KERNELS)
        cls.key.write_text("key")
        # A command line of each command to which nothing is to be added.
        cls.lines = {"run": [cls.model], "compile": [cls.model, "-o", cls.folder / "new.tnx"],
                     "build": [cls.kernels, "-o", cls.folder / "new"], "inspect": [cls.model], "explain": [cls.model],
                     "strip": [cls.executable, "-o", cls.folder / "new.tnx"], "machine": [], "targets": [], "tune": [cls.model]}

    def misused(self, *words, saying=None, command=None):
        """Status 2, one line on stderr that names the command, nothing on stdout, and no file made."""
        before = sorted(self.folder.iterdir())
        with self.subTest(" ".join(str(word).replace(str(self.folder) + "/", "") for word in words)):
            done = tenon(*words, status=2)
            self.assertEqual(done.stdout, "")
            begin = f"tenon {command}: " if command else "tenon: "
            end = f"; `tenon {command} --help` tells more\n" if command else "; `tenon --help` lists them\n"
            self.assertTrue(done.stderr.startswith(begin) and done.stderr.endswith(end), done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            if saying:
                self.assertIn(saying, done.stderr)
            self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_the_program(self):
        self.misused("dance", saying='there is no command "dance"')
        self.misused("help", "dance", saying='there is no command "dance"')
        self.misused("da\nce", saying='there is no command "da\\nce"')
        self.misused("--version", "twice", saying='not with "twice"')
        self.assertEqual(tenon(status=2).stdout, "")
        listed = re.findall(r"^  ([a-z]+)  ", tenon("--help").stdout, re.M)
        self.assertEqual(tuple(listed), COMMANDS + OTHERS)

    def test_words_that_no_command_takes(self):
        for command in COMMANDS:
            line = self.lines[command]
            self.misused(command, *line, "--bogus", command=command, saying="there is no option --bogus")
            self.misused(command, *line, "-x", command=command, saying="there is no option -x")
            self.misused(command, *line, "--=3", command=command, saying="there is no option --;")
            self.misused(command, *line, "--bo\x1b[2J\ngus=1", command=command, saying="there is no option --bo\\u001b[2J\\ngus;")
            if line:
                self.misused(command, command=command, saying="which file?")
                self.misused(command, "", command=command, saying="the name of a file is empty")
                if command != "tune":  # which takes several
                    self.misused(command, *line, "second", command=command)
            else:
                self.misused(command, "file", command=command, saying="it takes no file")

    def test_options_of_every_command(self):
        for command in COMMANDS:
            for option, value in options_of(command).items():
                line = self.lines[command][:1] if option == "--output" else self.lines[command]
                if not value:
                    self.misused(command, *line, f"{option}=1", command=command, saying=f"{option} takes no value")
                    continue
                if not value.startswith("["):
                    self.misused(command, *line, option, command=command, saying=f"{option} needs a value: {option} {value}")
                    self.misused(command, *line, f"{option}=", command=command, saying=f"{option} needs a value: {option} {value}")
                self.assertTrue(option in WRONG_VALUES or option in ANY_VALUE, f"{option} has no wrong values here")
                for wrong in WRONG_VALUES.get(option, ()):
                    self.misused(command, *line, option, wrong, command=command)

    def test_values_that_contradict_each_other(self):
        once = {"--target": "x86-64-v3 aarch64", "--threads": "1 2", "--machine": "a b", "--seed": "1 2", "--repeat": "1 2",
                "--rtol": "0.1 0.2", "--atol": "0.1 0.2",
                "--function": "f g", "--output": "a b", "--compare": "a b", "--key": "a b", "--constants": "a b", "--texts": "all none",
                "--emit": "te tir", "--kernel": "k g", "--schedule": "a b", "--print-after": "cse dce", "--profile": "a.json b.json",
                "--tuned": "a b", "--host": "cpu aarch64", "--budget": "1s 2s", "--trials": "1 2", "--database": "a b", "--mode": "async batched"}
        several = {"--dim": ["n=1", "n=2"], "--alias": ["y=x", "y=z"], "--capacity": ["n=1", "n=2"]}
        for command in COMMANDS:
            options = options_of(command)
            line = [word for word in self.lines[command] if word != "-o"][:1]
            for option in options:
                first, second = several.get(option) or once.get(option, " ").split(" ")
                if first:
                    self.misused(command, *line, f"{option}={first}", f"{option}={second}", command=command, saying="is given twice")

    def test_what_would_have_no_effect(self):
        of_models = [option for option in options_of("inspect") if option not in
                     ("--key", "--constants", "--map", "--verify-only", "--text", "--schedules", "--kernel", "--json")]
        values = {"--dim": "n=1", "--alias": "y=x", "--capacity": "n=1", "--strided": "x", "--threads": "1", "--target": "aarch64",
                  "--machine": "m", "--tuned": "t", "--print-after": "all", "--host": "cpu", "--place": "a=cpu", "--memory": "cpu=1GiB",
                  "--on-device": "a=cpu"}
        for option in of_models:
            word = option + (f"={values[option]}" if option in values else "")
            self.misused("inspect", self.executable, word, command="inspect", saying="is for compiling")
            if option not in ("--dim", "--threads"):
                self.misused("run", self.executable, word, command="run", saying="is for compiling")
        for command in ("run", "inspect"):
            self.misused(command, self.model, "--key", self.key, command=command, saying="is for executables")
            self.misused(command, self.model, "--verify-only", command=command, saying="is no executable, which --verify-only needs")
        self.misused("explain", self.kernels, "--alias", "y=x", command="explain", saying="is for models")
        self.misused("explain", self.kernels, "--dim", "N=1,2", command="explain", saying="takes one size")
        self.misused("explain", self.model, "--kernel", "k", command="explain", saying="is for declarations")
        self.misused("explain", self.model, "--no-run", "--seed", "1", command="explain", saying="is for measuring")
        self.misused("machine", "--refresh", "--no-measure", command="machine", saying="is not of what --refresh measures")

    def test_files_and_names_that_cannot_go_together(self):
        m, new = self.model, self.folder / "new"
        self.misused("compile", m, command="compile", saying="where to? -o FILE.tnx")
        self.misused("compile", m, m, "-o", new, command="compile", saying="NAME=")
        self.misused("compile", f"a={m}", f"a={m}", "-o", new, command="compile", saying='two functions are named "a"')
        self.misused("compile", f"={m}", "-o", new, command="compile", saying='"" cannot name a function')
        self.misused("compile", f"a@b={m}", "-o", new, command="compile", saying='"a@b" cannot name a function')
        self.misused("compile", "a=", "-o", new, command="compile", saying='"a=" names no file')
        self.misused("compile", m, "-o", m, command="compile", saying="would take the place of the model")
        self.misused("compile", m, "--emit", "c", "-o", self.folder / "no-name", command="compile", saying='"no-name" cannot be a part')
        self.misused("compile", m, "--emit", "obj", command="compile", saying="--emit obj is binary")
        self.misused("compile", self.executable, "-o", new, command="compile", saying="is compiled already")
        self.misused("build", self.kernels, command="build", saying="where to? -o BASE")
        self.misused("build", self.kernels, "-o", f"{self.folder}/", command="build", saying="is a folder")
        self.misused("build", m, "-o", new, command="build", saying="is a model")
        self.misused("build", self.kernels, "-o", new, "--dim", "N=1,2", command="build",
                     saying='--dim takes NAME=N or NAME=N,NAME=N, with N at least 0, not "N=1,2"')
        self.misused("build", self.kernels, "-o", new, "--dim", "N=1,N=2", command="build", saying="--dim N is given twice")
        self.misused("run", m, "--profile", m.with_suffix(".json"), "--machine", m.with_suffix(".json"), command="run",
                     saying="the trace would take the place of")
        self.misused("run", self.kernels, command="run", saying="holds declarations")
        self.misused("strip", m, command="strip", saying="is no executable")
        self.misused("strip", self.executable, "--key", self.key, "-o", self.key, command="strip", saying="the key")
        self.misused("explain", self.executable, command="explain", saying="it needs the model")

    def test_names_stay_on_their_lines(self):
        """Those of outputs, in what a run says and in what comparing says."""
        name, shown = "y\n\x1b[2J\x7f\u009b", "y\\n\\u001b[2J\\u007f\\u009b"
        model, x = self.folder / "named.onnx", np.ones(2, np.float32)
        made = graph([node("Relu", ["x"], [name])], [info("x", TensorProto.FLOAT, [2])], [info(name, TensorProto.FLOAT, [2])])
        onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
        cases = self.folder / "cases"
        cases.mkdir()
        for file in ("input_0.pb", "output_0.pb"):
            (cases / file).write_bytes(numpy_helper.from_array(x).SerializeToString())
        lines = tenon("run", model, "--compare", cases).stdout.split("\n")
        self.assertEqual([lines[0].split(": ")[0], *lines[2:]], [shown, f"{shown}: agrees: greatest difference 0", ""])


if __name__ == "__main__":
    unittest.main()
