# SPDX-License-Identifier: Apache-2.0
"""Every check of tools/ refuses what it is there to refuse: the files of tests/lint/fixtures are wrong on purpose."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = Path(__file__).resolve().parent / "fixtures"
sys.path.insert(0, str(ROOT / "tools"))

import check_calls  # noqa: E402
import check_clocks  # noqa: E402
import check_copies  # noqa: E402
import check_facts  # noqa: E402
import check_links  # noqa: E402
import check_names  # noqa: E402
import check_order  # noqa: E402
import check_queries  # noqa: E402
import check_readers  # noqa: E402
import check_rooms  # noqa: E402
import check_style  # noqa: E402
import check_symbols  # noqa: E402
import check_targets  # noqa: E402
import check_version  # noqa: E402


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


class RoomsTest(unittest.TestCase):
    def test_every_wrong_edge_is_named(self):
        self.assertEqual(check_rooms.check(FIXTURES / "rooms"), [
            "src/base/up.c:1: the room base may not include ir/expr.h: it may use no other room (src/CMakeLists.txt)",
            "src/cli/main.c:2: the room cli may not include ir/expr.h: it may use base, options (src/CMakeLists.txt)",
            "src/ir/expr.h:2: there is no header src/base/gone.h",
            'src/ir/expr.h:3: "fine.h" is not in a room; includes are written "room/header.h"',
            "src/ir/expr.h:4: only codegen/llvm may include <llvm-c/Core.h>",
            "src/ir/expr.h:5: there is no public header tenon/gone.h",
            "src/lost/lost.c:1: the folder is no room: add a tn_room() line to src/CMakeLists.txt",
            "include/tenon/api.h:1: a public header may not include base/fine.h from inside",
            "include/tenon/kernel_abi.h:2: this header includes nothing but libc, not stdlib.h",
        ])

    def test_a_cycle_is_named(self):
        self.assertEqual(check_rooms.find_cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}), ["a", "b", "c", "a"])
        self.assertIsNone(check_rooms.find_cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}))

    def test_the_exit_status_says_so(self):
        status, output = run(sys.executable, ROOT / "tools/check_rooms.py", FIXTURES / "rooms")
        self.assertEqual(status, 1)
        self.assertIn("src/base/up.c:1: ", output)


class ClocksTest(unittest.TestCase):
    def test_every_clock_is_named(self):
        advice = "wait for an event, count, or bound CPU time"
        self.assertEqual(check_clocks.check(FIXTURES / "clocks"), [
            f"tests/python/test_slow.py:1: a test depends on a clock: time.monotonic(; {advice}",
            f"tests/python/test_slow.py:2: a test depends on a clock: timeout=60; {advice}",
            f"tests/python/test_slow.py:3: a test depends on a clock: .join(5; {advice}",
            f"tests/unit/base/test_slow.c:1: a test depends on a clock: CLOCK_MONOTONIC; {advice}",
        ])


class StyleTest(unittest.TestCase):
    def test_every_offence_is_named(self):
        mark = "TO" "DO"
        self.assertEqual(check_style.check(FIXTURES / "style"), [
            "include/tenon/guard.h:1: the header has no guard TENON_GUARD_H",
            "include/tenon/guard.h:2: the macro WRONG_GUARD of a header is named neither TN_, TN__ nor tn__",
            "include/tenon/guard.h:3: the macro MAXIMUM of a header is named neither TN_, TN__ nor tn__",
            "src/base/lines.c:1501: the file has 1501 lines, more than 1500",
            "src/base/names.c:252: a name in quotes is part of a message: tn__shown_text shows it",
            f"src/base/names.c:7: a mark of unfinished work: {mark}",
            "src/base/names.c:249: the line has 121 columns, more than 120",
            "src/base/names.c:250: getenv: a program with other rights than its caller's would obey it; secure_getenv does not",
            "src/base/names.c:3: wrong is neither static nor named tn_ or tn__",
            "src/base/names.c:8: the function tn__long has 121 lines, more than 120",
        ])

    def test_functions_are_found_in_awkward_text(self):
        text = '''#define M(x) \\
  { x }
struct s { int a; };
static const char *const names[] = {"} {", "x"};
enum { A = sizeof(int) };
static inline struct s make(int (*f)(int),
                            int b) { if (b) { return (struct s){1}; } return (struct s){'{'}; }
TN_API void tn_x(void) {
}
__attribute__((target("sha,ssse3"), noinline)) static int
y(int a) { return a; }
'''
        self.assertEqual(list(check_style.functions(text)),
                         [("make", True, 6, 7), ("tn_x", False, 8, 9), ("y", True, 10, 11)])


class CallsTest(unittest.TestCase):
    CALLS = {"a/x.c": {"a/y.c": ["tn__y"], "b/z.c": ["tn__z"]}, "a/y.c": {"a/x.c": ["tn__x"]}, "b/z.c": {"a/x.c": ["tn__x"]},
             "b/alone.c": {}}

    def test_calls_against_an_edge_and_circles_are_named(self):
        self.assertEqual(check_calls.check(self.CALLS, {"a": set(), "b": {"a"}}, {}, set()), [
            "src/a/x.c: the room a may not call b, which has tn__z (src/CMakeLists.txt)",
            "src/a: 2 files call each other in circles, 0 may (tools/call_circles.txt): x.c, y.c"])

    def test_what_is_allowed_is_no_complaint_and_must_be_true(self):
        rooms = {"a": set(), "b": {"a"}}
        self.assertEqual(check_calls.check(self.CALLS, rooms, {"a": 2}, {"tn__z"}), [])
        self.assertEqual(check_calls.check(self.CALLS, rooms, {"a": 2, "b": 1}, {"tn__z"}),
                         ["tools/call_circles.txt: b has 0 files in circles now, not 1: say so"])


class ReadersTest(unittest.TestCase):
    def test_every_gap_is_named(self):
        page = "docs/security.md"
        self.assertEqual(check_readers.check(FIXTURES / "readers"), [
            f"{page}:4: the fuzz target seeded has a row already, in line 3",
            f"{page}:5: src/base/read.c defines no function tn__gone",
            f"{page}:6: there is no src/base/gone.c",
            f"{page}:6: there is no tests/fuzz/fuzz_gone.c",
            f"{page}:7: the reader begins with a function and its file: `NAME` in `src/ROOM/FILE.c`",
            f"{page}:7: the fuzz target is `NAME`, or none: and why",
            f"{page}:8: there are no seeds in tests/fuzz/corpus/empty",
            f"{page}:9: a row has five cells, and this one 4",
            f"tests/fuzz/fuzz_lost.c: the fuzz target has no row in {page}",
            f"src/base/unnamed.c: it opens files of others, and no row of {page} names it",
        ])


class FactsTest(unittest.TestCase):
    def test_every_question_for_a_name_is_named(self):
        self.assertEqual(check_facts.check(FIXTURES / "facts"), [
            "src/graph/passes/guess.c:5: compares compares an operator's name; ask a fact of its row, or tn__g_is_op in a "
            "rule",
            "src/graph/passes/guess.c:6: also_compares compares an operator's name; ask a fact of its row, or tn__g_is_op "
            "in a rule",
            "src/graph/passes/guess.c:8: asks asks for an operator by name, which only rules do; ask a fact of its row",
            "src/graph/passes/guess.c:4: a list of operators, abs, select ...; what they have in common is a fact in "
            "their rows",
            "src/graph/passes/rules_one.c:5: is_either asks whether v->producer is one of abs, strided; what they have "
            "in common is a fact in their rows",
            "src/graph/passes/rules_one.c:14: the table beginnings has rows for operators, abs, reduce ...; what they differ "
            "in is a fact or a function in their rows",
            "src/graph/passes/rules_one.c:16: the table packings has rows for operators, abs, select ...; what they differ "
            "in is a fact or a function in their rows",
            "src/import/onnx/walk.c:5: passes compares an ONNX operator's name; ask a fact of its row in ops_table.c",
        ])

    def test_every_row_is_found(self):
        self.assertEqual(check_facts.rows(FIXTURES / "facts"), {"abs", "reduce", "select", "strided"})
        page = (ROOT / "docs/operators.md").read_text()
        self.assertEqual(check_facts.rows(ROOT), set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)))


class CopiesTest(unittest.TestCase):
    def test_copies_and_sorts_of_what_may_be_empty_are_named(self):
        self.assertEqual(check_copies.check(FIXTURES / "copies"), [
            f"src/base/copies.c:{line}: {name} of what may be empty and NULL: use {instead}" for line, name, instead in (
                (10, "memcpy", "tn__copy()"), (11, "memmove", "tn__copy_within()"), (12, "qsort", "tn__sort()"),
                (13, "bsearch", "a condition"))])


class OrderTest(unittest.TestCase):
    def test_what_is_left_to_the_compiler_is_named(self):
        self.assertEqual(check_order.check(FIXTURES / "order"), [
            f"src/graph/make.c:{line}: {function} leaves to the C compiler whether {one} or {other} comes first; "
            "call one after the other" for line, function, one, other in (
                (8, "nested", "negate", "negate"), (13, "listed", "negate", "add"), (14, "listed", "add", "negate"),
                (18, "through_pointers", "apply", "negate"))])

    def test_makers_that_are_gone_are_missed(self):
        self.assertEqual(len(check_order.check(FIXTURES / "facts")), 1)


class QueriesTest(unittest.TestCase):
    def test_queries_whose_results_may_be_ignored_are_named(self):
        self.assertEqual(check_queries.check(FIXTURES / "queries"), [
            f"src/base/query.{suffix}:{line}: {name} writes through {output} and says by its result whether it did; "
            "mark it TN_MUST_USE" for suffix, line, name, output in (
                ("c", 2, "own", "number"), ("h", 2, "tn__find", "at"), ("h", 3, "tn__count", "out"),
                ("h", 4, "tn__split", "first"), ("h", 5, "tn__split_named", "out"), ("h", 6, "tn__dims", "dims"))])


class TargetsTest(unittest.TestCase):
    def test_every_branch_on_an_architecture_is_named(self):
        advice = ("is of one architecture; ask tn__target_can or a row of src/target, or write a hook in "
                  "src/codegen/llvm/arch_*.c")
        self.assertEqual(check_targets.check(FIXTURES / "targets"), [
            f"src/codegen/llvm/link.c:1: TN__ARCH_AARCH64 {advice}",
            f"src/schedule/branch.c:3: TN__ARCH_X86_64 {advice}",
            f"src/schedule/branch.c:3: TN__X86_AVX512F {advice}",
        ])


class NamesTest(unittest.TestCase):
    def test_names_of_no_room_are_named(self):
        self.assertEqual(check_names.check(FIXTURES / "names"), [
            "src/a/a.h:5: tn__is_hungry has neither a prefix of src/a (tn__a) nor the name of one of its types in front",
            "src/b: tools/prefixes.txt has no row for the room",
            "tools/prefixes.txt: there are no headers in src/gone",
        ])


class LinksTest(unittest.TestCase):
    def test_what_points_to_nothing_is_named(self):
        self.assertEqual(check_links.check(FIXTURES / "links"), [
            "src/base/near.c:1: there is no base/gone.c",
            "src/base/near.c:1: there is no far.h",
            "docs/page.md:1: the link gone.md points to nothing",
            "docs/page.md:2: there is no docs/gone.md",
            "docs/page.md:2: there is no tests/unit/test_NAME.c",
        ])


class SymbolsTest(unittest.TestCase):
    def test_mutable_state_and_stray_exports_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            build = Path(folder)
            source = str(FIXTURES / "symbols/state.c")
            status, output = run("cc", "-fPIC", "-fcommon", "-c", source, "-o", build / "state.c.o")
            self.assertEqual((status, output), (0, ""))
            run("ar", "rcs", build / "libbad.a", build / "state.c.o")
            run("cc", "-shared", "-o", build / "libbad.so", build / "state.c.o")
            problems = check_symbols.check(FIXTURES / "symbols", [build / "libbad.a", build / "libbad.so"])
            self.assertEqual(sorted(problems), [
                "libbad.a: state.c.o: counter.0 is global mutable state",
                "libbad.a: state.c.o: per_thread is global mutable state",
                "libbad.a: state.c.o: tentative is global mutable state",
                "libbad.a: state.c.o: zero is global mutable state",
                "libbad.so: tentative is exported, but no header says so (include/tenon with TN_API, src/runtime with TN__LINKED)",
                "libbad.so: tn__inside is exported, but no header says so (include/tenon with TN_API, src/runtime with TN__LINKED)",
                "libbad.so: tn_declared has no version, not TENON_0.7",
                "libbad.so: tn_forgotten is declared, but not exported",
            ])

    def test_what_two_libraries_define_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("one", "two"):
                source = Path(folder, f"{name}.c")
                source.write_text(f"static int tn_both(void) {{ return 1; }}\nint tn_{name}(void) {{ return tn_both(); }}\n")
                run("cc", "-shared", "-fPIC", "-o", Path(folder, f"lib{name}.so"), source)
            libraries = [f"{folder}/libone.so", f"{folder}/libtwo.so"]
            self.assertEqual(list(check_symbols.defined_twice(libraries)), ["libtwo.so: tn_both is in libone.so, too"])


class RuntimeLibraryTest(unittest.TestCase):
    def test_what_it_links_and_its_size_are_held(self):
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder, "liblarge.so")
            text = "#include <zlib.h>\nchar table[400000] = {1};\nconst char *tn_f(void) { return zlibVersion(); }\n"
            Path(folder, "large.c").write_text(text)
            self.assertEqual(run("cc", "-shared", "-fPIC", "-o", library, Path(folder, "large.c"), "-lz")[0], 0)
            check = (sys.executable, ROOT / "tools/check_runtime_library.py", library)
            status, said = run(*check)
            self.assertEqual(status, 1)
            self.assertIn("it links libz.so.1", said)
            self.assertNotIn("more than", said)
            self.assertRegex(run(*check, "--size")[1], r"stripped it has 4\d{5} bytes, more than 327680")


class VersionTest(unittest.TestCase):
    def test_what_says_another_version_is_named(self):
        self.assertEqual(list(check_version.check(FIXTURES / "version")), [
            "README.md:1: it says 0.6.0, and the version is 0.7.1 (include/tenon/base.h)",
            "examples/one/CMakeLists.txt:1: it says 0.6, and the version is 0.7.1 (include/tenon/base.h)",
            "include/tenon/base.h:5: since 0.10, and the version is 0.7.1",
            "CHANGELOG.md:3: the section on top is for 0.6.0, and the version is 0.7.1",
        ])


class AbiTest(unittest.TestCase):
    def changed(self, name, header, old, new):
        """What is said of the interface when the header has `new` in the place of `old`."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(ROOT / "include", Path(folder, "include"))
            path = Path(folder, "include/tenon", header)
            self.assertIn(old, path.read_text())
            path.write_text(path.read_text().replace(old, new, 1))
            return run(sys.executable, ROOT / "tools/abi.py", "--include", Path(folder, "include"), name)

    def test_what_changes_the_interface_is_named(self):
        for name, header, old, new, said in (
                ("libtenon_runtime", "runtime.h", "  double flops, bytes;", "  double bytes, flops;", "'double flops' offset changed"),
                ("libtenon_runtime", "runtime.h", "TN_BIND_PERSISTENT = 1", "TN_BIND_PERSISTENT = 4", "TN_BIND_PERSISTENT"),
                ("libtenon_runtime", "kernel_abi.h", "TN_KERNEL_CANCELLED = 4", "TN_KERNEL_CANCELLED = 9", "TN_KERNEL_CANCELLED"),
                ("libtenon_runtime", "base.h", "TN_API size_t tn_dtype_size(tn_dtype dtype);", "", "Removed function"),
                ("libtenon", "te.h", "double value);", "float value);", "type name changed from 'double' to 'float'"),
                ("libtenon", "base.h", "VERSION_MINOR 2", "VERSION_MINOR 1002", "SONAME changed")):
            status, output = self.changed(name, header, old, new)
            self.assertEqual(status, 1, output)
            self.assertIn(said, output)
            self.assertIn("accept it with `./dev abi --update`", output)

    def test_comments_change_nothing(self):
        self.assertEqual(self.changed("libtenon", "te.h", "typedef struct tn_te tn_te;", "typedef struct tn_te tn_te; /* x */"),
                         (0, ""))


class ReferenceTest(unittest.TestCase):
    def made(self, old, new):
        """What making the reference says of base.h with `new` in the place of `old`, and its page about statuses."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(ROOT / "include", Path(folder, "include"))
            path = Path(folder, "include/tenon/base.h")
            self.assertIn(old, path.read_text())
            path.write_text(path.read_text().replace(old, new, 1))
            status, output = run(ROOT / "tools/reference/make.sh", Path(folder, "out"), Path(folder, "include"))
            page = Path(folder, "out/html/group__base__status.html")
            return status, output, page.read_text() if page.exists() else ""

    def test_what_has_no_comment_is_named(self):
        for old, new, said in (("TN_API void tn_status_free(", "\nTN_API void tn_bare(void);\nTN_API void tn_status_free(", "tn_bare"),
                               ("  void *user;", "  int bare;\n  void *user;", "bare"),
                               ("  TN_CANCELLED,", "  TN_BARE,\n  TN_CANCELLED,", "TN_BARE"),
                               ("#define TN_VERSION_MAJOR", "#define TN_BARE 1\n\n#define TN_VERSION_MAJOR", "TN_VERSION_MAJOR")):
            status, output, _ = self.made(old, new)
            self.assertEqual(status, 1, output)
            self.assertRegex(output, rf"{said}\b.* is not documented")

    def test_comments_come_out_as_they_are_meant(self):
        status, output, page = self.made("tn_status_free(tn_status *status); /* NULL is fine */",
                                         "tn_status_free(tn_status *status); /* x * y < z, `a <b>`. Since 0.7. */")
        self.assertEqual((status, output), (0, ""))
        for part in ("x * y &lt; z", "a &lt;b&gt;", '<dl class="section since"><dt>Since</dt><dd>0.7 </dd>',
                     "Creates a status.", "TN_INVALID_ARGUMENT"):
            self.assertIn(part, page)


class ToolsTest(unittest.TestCase):
    def test_format(self):
        status, output = run(ROOT / "tools/check_format.sh", FIXTURES / "format")
        self.assertNotEqual(status, 0)
        self.assertIn("src/bad.c:1:", output)

    def test_cppcheck(self):
        with tempfile.TemporaryDirectory() as cache:
            status, output = run(ROOT / "tools/check_cppcheck.sh", cache, FIXTURES / "cppcheck")
        self.assertEqual(status, 1)
        self.assertIn("[arrayIndexOutOfBounds]", output)

    def test_clang_tidy(self):
        with tempfile.TemporaryDirectory() as build:
            Path(build, "compile_commands.json").write_text("[]")
            status, output = run(sys.executable, ROOT / "tools/check_tidy.py", build, FIXTURES / "tidy/bad.c")
        self.assertEqual(status, 1)
        self.assertIn("[clang-analyzer-core.NullDereference", output)

    def test_clang_tidy_runs_where_something_changed(self):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "good.c")
            Path(folder, "compile_commands.json").write_text("[]")
            said = []
            for text in ("int tn_f(void);\n", "int tn_f(void);\n", "int tn_f(void); // NOLINT\n",
                         "#define TN_ONE 1\nint tn_f(void);\n", "int tn_f(void);\n"):
                source.write_text(text)
                done = subprocess.run([sys.executable, ROOT / "tools/check_tidy.py", folder, source], text=True,
                                      capture_output=True, env=os.environ | {"TENON_TIDY_CACHE": f"{folder}/cache"})
                self.assertEqual(done.returncode, 0, done.stderr)
                said.append(int(re.search(r"; (\d) had", done.stdout).group(1)))
        self.assertEqual(said, [1, 0, 1, 1, 0])

    def test_shellcheck(self):
        status, output = run("shellcheck", FIXTURES / "shell/bad.sh")
        self.assertEqual(status, 1)
        self.assertIn("SC2086", output)


if __name__ == "__main__":
    unittest.main()
