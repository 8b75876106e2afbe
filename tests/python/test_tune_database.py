# SPDX-License-Identifier: Apache-2.0
"""The database of tuning records between processes, and `tenon db`: what a killed process leaves behind, several writers,
a full disk, a locked, damaged or foreign file, and what each command prints.

ctest sets TENON_TUNE, the program, and TENON_TUNE_RECORDS, which writes records (tests/tools/tune_records.c)."""

import hashlib
import json
import random
import resource
import signal
import sqlite3
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from product import required, run

KILLS = 20
NEWER_SCHEMA = 1000


def is_sound(path):
    connection = sqlite3.connect(path)
    try:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)] and \
            connection.execute("PRAGMA foreign_key_check").fetchall() == []
    finally:
        connection.close()


class DatabaseTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.database = self.folder / "tuning.db"

    def db(self, *arguments, status=0, database=None):
        command, *rest = arguments
        return run(required("TENON_TUNE"), "db", command, "--database", database or self.database, *rest, status=status)

    def json(self, *arguments, **options):
        return json.loads(self.db(*arguments, "--json", **options).stdout)

    def writer(self, first, count, *, task=0, **options):
        command = [required("TENON_TUNE_RECORDS"), self.database, first, count, task]
        return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, **options)

    def write(self, count, first=0, task=0):
        with self.writer(first, count, task=task) as process:
            out, errors = process.communicate()
        self.assertEqual((process.returncode, errors), (0, ""))
        return out.split()[1:]

    def decisions(self):
        """Of all records, each with its measurements in the file itself."""
        return [record["decisions"] for record in self.json("query")["records"]]


class Processes(DatabaseTest):
    def test_killed_at_any_moment(self):
        """A killed writer loses nothing that it was told is there, and the next one does nothing twice."""
        rng = random.Random(7)
        count = 3000
        acknowledged, began = set(), 0
        for attempt in range(KILLS):
            with self.writer(0, count) as process:
                # From before the file exists up to some hundred records; every other time after new ones arrived.
                first, told = [], set()
                for _ in range(rng.randrange(1, 9) if attempt % 2 else 0):
                    while not first or not first[-1].isdigit() or first[-1] in told:
                        first.append(process.stdout.readline().rstrip())
                        self.assertTrue(first[-1], "it ended")
                    told.add(first[-1])
                time.sleep(rng.uniform(0, 0.12) if attempt else rng.uniform(0, 0.01))
                process.send_signal(signal.SIGKILL)
                lines = first + process.stdout.read().split("\n")[:-1]
                process.wait()
            self.assertEqual(process.returncode, -signal.SIGKILL, "it was done before it was killed: write more")
            began += "begins" in lines
            new = {int(line) for line in lines if line.isdigit()}
            known = {int(line[1:]) for line in lines if line.startswith("-")}
            self.assertFalse(new & acknowledged, "a record that was acknowledged was written again")
            # What is known was acknowledged, but for one that was written and could not be told any more.
            self.assertLessEqual(len(known - acknowledged), 1)
            acknowledged |= new | known
            if not self.database.exists():
                self.assertFalse(acknowledged)
                continue
            if acknowledged:
                kept = self.decisions()
                self.assertEqual(len(kept), len(set(kept)), "a record is there twice")
                self.assertLessEqual({f"rows {number}" for number in acknowledged}, set(kept))
                self.assertLessEqual(len(kept), len(acknowledged) + 1)
        self.assertGreaterEqual(began, KILLS // 2)
        self.assertGreater(len(acknowledged), KILLS)
        self.write(len(acknowledged) + 10)
        self.assertTrue(is_sound(self.database))
        self.assertEqual(sorted(self.decisions()), sorted(f"rows {n}" for n in range(len(acknowledged) + 10)))
        connection = sqlite3.connect(self.database)
        self.assertEqual(connection.execute("SELECT count(*) FROM measurement").fetchone()[0], len(acknowledged) + 10)
        connection.close()

    def test_several_writers_at_once(self):
        """Two with records of their own, two with the same ones, and a reader; all begin with no file."""
        count = 150
        writers = [self.writer(0, count), self.writer(1000, count), self.writer(500, count), self.writer(500, count)]
        told = []
        for process in writers:
            with process:
                out, errors = process.communicate()
            self.assertEqual((process.returncode, errors), (0, ""))
            told.append(out.split()[1:])
        expected = [f"rows {first + n}" for first in (0, 1000, 500) for n in range(count)]
        self.assertEqual(sorted(self.decisions()), sorted(expected))
        self.assertEqual(told[0], [str(n) for n in range(count)])
        self.assertEqual(len(told[2]), count)
        self.assertTrue(is_sound(self.database))
        self.assertEqual(self.json("list")["tasks"][0]["measurements"], 3 * count)

    def test_full_disk(self):
        """A limit on the size of files stands in for a disk that fills up. What was acknowledged stays."""

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as on a full disk: write() fails
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

        with self.writer(0, 3000, preexec_fn=limit) as process:
            out, errors = process.communicate()
        self.assertEqual(process.returncode, 1)
        self.assertEqual(errors, f"{self.database}: there is no room on the disk: make some and go on; what was recorded "
                                 "before is kept\n")
        acknowledged = out.split()[1:]
        self.assertGreater(len(acknowledged), 5)
        self.assertEqual(self.decisions(), [f"rows {number}" for number in acknowledged])
        self.write(len(acknowledged) + 5)  # there is room again
        self.assertEqual(len(self.decisions()), len(acknowledged) + 5)
        self.assertTrue(is_sound(self.database))

    def test_a_full_disk_leaves_no_half_of_a_file(self):
        self.write(300)
        output = self.folder / "records.jsonl"
        output.write_text("as it was\n")
        program = [required("TENON_TUNE"), "db", "export", "--database", self.database, "--output", output]

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

        result = subprocess.run([str(word) for word in program], text=True, capture_output=True, preexec_fn=limit)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr, f"tenon: {output}: cannot write: File too large\n")
        self.assertEqual(output.read_text(), "as it was\n")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir() if "records" in p.name), ["records.jsonl"])

    def test_locked(self):
        self.write(3)
        exported = self.folder / "records.jsonl"
        self.db("export", "--output", exported)
        connection = sqlite3.connect(self.database, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        result = self.db("import", exported, "--wait", "0.3", status=1)
        self.assertEqual(result.stderr, f"tenon: {self.database}: the database is locked: another process has been writing "
                                        "for more than 0.3 s; try again when it is done (nothing was written)\n")
        self.assertEqual(len(self.decisions()), 3)  # who reads does not wait
        connection.execute("COMMIT")
        connection.close()
        self.db("import", exported, "--wait", "0")


class Files(DatabaseTest):
    def refused(self, words, *, path=None):
        path = path or self.database
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        for command in (("list",), ("prune", "--failed"), ("import", self.folder / "none"), ("export",)):
            result = self.db(*command, status=1, database=path)
            self.assertEqual(result.stdout, "")
            self.assertEqual(result.stderr, f"tenon: {path}: {words}\n")
        self.assertEqual(hashlib.sha256(path.read_bytes()).hexdigest(), digest)

    def test_foreign(self):
        path = self.folder / "notes.txt"
        path.write_text("Notes.\n" * 1000)
        self.refused("this is no database of tuning records: name another file; this one was left as it is", path=path)
        other = self.folder / "other.db"
        connection = sqlite3.connect(other)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE record (id INTEGER PRIMARY KEY, sung TEXT)")
        connection.execute("INSERT INTO record (sung) VALUES ('by nobody')")
        connection.commit()
        # While its owner has it open, and what it wrote is in the log alone.
        log = Path(f"{other}-wal")
        before = log.read_bytes()
        self.refused("this is an SQLite database of another program, not one of tuning records: name another file; this "
                     "one was left as it is", path=other)
        self.assertEqual(log.read_bytes(), before)
        connection.close()
        self.refused("this is an SQLite database of another program, not one of tuning records: name another file; this "
                     "one was left as it is", path=other)

    def test_newer_schema(self):
        self.write(3)
        connection = sqlite3.connect(self.database)
        connection.execute(f"PRAGMA user_version = {NEWER_SCHEMA}")
        connection.close()
        version = run(required("TENON_TUNE"), "--version").stdout.split()[1]
        self.refused(f"the database has schema {NEWER_SCHEMA}, and this Tenon ({version}) knows those up to 5: use the Tenon "
                     "that wrote it, or export the records with that one and import them into another file")

    def test_damaged_anywhere(self):
        """Bytes that are other ones, anywhere: it is refused, or all records can be read. Nothing crashes or hangs."""
        self.write(60)
        whole = self.database.read_bytes()
        rng = random.Random(3)
        refused = 0
        page = 4096
        starts = [*range(0, 12 * page, page), *(rng.randrange(len(whole)) for _ in range(40))]
        for start in starts:
            data = bytearray(whole)
            for place in range(start, min(start + rng.choice([1, 16, 700]), len(data))):
                data[place] ^= rng.randrange(1, 256)
            self.database.write_bytes(data)
            result = subprocess.run([required("TENON_TUNE"), "db", "query", "--database", self.database], text=True,
                                    errors="replace", capture_output=True)
            self.assertIn(result.returncode, (0, 1), result.stderr)
            if result.returncode == 1:
                refused += 1
                self.assertRegex(result.stderr, "^tenon: .*(the database is damaged|this is no database of tuning records|"
                                                "of another program|has schema|the file is empty|SQLite: |cannot (open|read) the database: )")
                self.assertEqual(self.database.read_bytes(), bytes(data))
        self.assertGreater(refused, 5)

    def test_damaged_lines_are_all_or_none(self):
        self.write(20)
        exported = self.folder / "records.jsonl"
        self.db("export", "--output", exported)
        whole, other = exported.read_bytes(), self.folder / "other.db"
        rng = random.Random(5)
        for _ in range(40):
            data = bytearray(whole)
            place = rng.randrange(len(data))
            data[place:place + rng.choice([0, 1, 100])] = rng.choice([b"", b"\xff", b"}", b"\0", b"\n", b'"'])
            exported.write_bytes(data)
            result = subprocess.run([str(word) for word in (required("TENON_TUNE"), "db", "import", exported, "--database", other)],
                                    text=True, capture_output=True)
            self.assertIn(result.returncode, (0, 1))
            if result.returncode == 1:
                self.assertRegex(result.stderr, rf"^tenon: {exported}:\d+: ")
                self.assertEqual(self.json("list", database=other)["tasks"], [])
            for path in self.folder.glob("other.db*"):
                path.unlink()


class Commands(DatabaseTest):
    def test_list_and_show(self):
        self.write(6)
        self.write(3, task=1)
        tasks = self.json("list")["tasks"]
        self.assertEqual([task["records"] for task in tasks], [6, 3])
        self.assertEqual(tasks[0]["errors"], {"ok": 4, "run time": 2})
        self.assertEqual(tasks[0]["best"], 1e-6)
        lines = self.db("list").stdout.splitlines()
        self.assertRegex(lines[1], rf"^{tasks[0]['task'][:12]} +6 +2 +1 us +\S+ \S+ +x86-64-v3 +1 +written$")
        self.assertEqual(len(lines), 3)
        shown = self.db("show", tasks[1]["task"][:12]).stdout
        self.assertIn("kernel number_1", shown)
        self.assertIn("schedule  contraction: rows 0\n  trace 1 0000000000000000\n", shown)
        self.assertIn("\n  end\n", shown)
        both = self.json("show", "written")["tasks"]
        self.assertEqual([task["task"] for task in both], tasks)
        self.assertEqual(both[0]["best"]["decisions"], "rows 0")
        self.assertEqual(self.db("show", "feed", status=1).stderr,
                         f"tenon: {self.database}: there is no task \"feed\"; `tenon db list` lists them\n")
        self.assertEqual(self.db("show", status=2).stderr,
                         "tenon db show: which task?; `tenon db show --help` tells more\n")

    def test_query(self):
        self.write(9)
        self.assertEqual([r["decisions"] for r in self.json("query", "--failed")["records"]],
                         ["rows 2", "rows 5", "rows 8"])
        self.assertEqual([r["decisions"] for r in self.json("query", "--ended", "run time", "--limit", "1")["records"]],
                         ["rows 2"])
        self.assertEqual([r["decisions"] for r in self.json("query", "--order", "fastest", "--limit", "2")["records"]],
                         ["rows 0", "rows 1"])
        self.assertEqual(len(self.json("query", "--newer-than", "1h", "--verified")["records"]), 6)
        self.assertEqual(self.json("query", "--older-than", "1h")["records"], [])
        record = self.json("query", "--ended", "run time")["records"][0]
        self.assertEqual((record["message"], record["median"], record["measurements"]), ("signal 11", 0, 1))
        self.assertRegex(self.db("query", "--failed").stdout.splitlines()[1],
                         r"^ +3  [0-9a-f]{12} +- +-  run time +no +search +\S+ \S+ +contraction: rows 2$")
        for arguments, words in {
            ("--ended", "crash"): '--ended takes ok, instantiation, host compile, device compile, run time, wrong answer, '
                                  'build timeout, run timeout, worker lost or cancelled, not "crash"',
            ("--failed", "--ended", "ok"): "--failed and --ended say two things: give one of them",
            ("--newer-than", "yesterday"): '--newer-than takes a time like 90s, 30m, 12h, 7d or 4w, not "yesterday"',
            ("--order", "slowest"): '--order takes added, newest or fastest, not "slowest"',
            ("--wait", "long"): '--wait takes a number of seconds, not "long"',
            ("--limits", "1"): "there is no option --limits; did you mean --limit?",
        }.items():
            self.assertEqual(self.db("query", *arguments, status=2).stderr,
                             f"tenon db query: {words}; `tenon db query --help` tells more\n")
        self.assertEqual(self.db("query", "--task", "gemm", status=1).stderr,
                         'tenon: "gemm" is no task\'s hash, and no beginning of one\n')

    def test_newer_records_are_told(self):
        self.write(3)
        connection = sqlite3.connect(self.database)
        connection.execute("UPDATE record SET format = 2 WHERE decisions = 'rows 1'")
        connection.commit()
        connection.close()
        result = self.db("query", "--json")
        self.assertEqual(result.stderr, "tenon: 1 record in formats of a newer Tenon were passed over\n")
        self.assertEqual(json.loads(result.stdout)["newer"], 1)
        self.assertEqual(len(json.loads(result.stdout)["records"]), 2)

    def test_prune(self):
        self.write(9)
        self.assertEqual(self.db("prune", "--failed", "--dry-run").stdout, "3 records would be removed\n")
        self.assertEqual(self.db("prune", "--failed").stdout, "3 records removed\n")
        self.assertEqual(self.json("prune", "--keep", "2"), {"removed": 4, "dry_run": False})
        self.assertEqual(self.decisions(), ["rows 0", "rows 1"])
        self.assertEqual(self.db("prune", status=2).stderr,
                         "tenon db prune: what goes? Say --older-than, --keep, --only or --failed; `tenon db prune --help` "
                         "tells more\n")

    def test_merge_export_import(self):
        self.write(6)
        other, exported = self.folder / "other.db", self.folder / "records.jsonl"
        self.assertEqual(self.db("merge", self.database, database=other).stdout,
                         f"{self.database}: 1 new task, 6 new records, 0 measured again, 0 known\n")
        self.assertEqual(self.json("merge", self.database, database=other)["files"][0]["known"], 6)
        self.assertEqual(self.db("export", "--verified", "-o", exported).stdout, f"{exported}: 1 task, 4 records\n")
        self.assertEqual(self.db("export", "--verified").stdout, exported.read_text())
        third = self.folder / "third.db"
        self.assertEqual(self.db("import", exported, database=third).stdout,
                         f"{exported}: 1 new task, 4 new records, 0 measured again, 0 known\n")
        self.assertEqual({r["origin"] for r in self.json("query", database=third)["records"]}, {"import"})
        best = self.folder / "best.txt"
        self.assertEqual(self.db("export", "--best", "-o", best).stdout, f"{best}: 0 tasks, 0 records\n")
        connection = sqlite3.connect(self.database)  # a comparison by a tuner
        connection.execute("UPDATE record SET verdict = 1, ratio = 0.5 WHERE verified AND error = 0")
        connection.commit()
        connection.close()
        self.assertEqual(self.db("export", "--best", "-o", best).stdout, f"{best}: 1 task, 1 record\n")
        self.assertEqual(best.read_text().splitlines()[:3],
                         ["tenon schedules 1", "", "# written"])
        for arguments, words in {
            ("--best",): "--best writes a file: --output FILE",
            ("--best", "--limit", "1", "-o", best): "--limit does not go with --best, which takes the best of each task",
            ("-o", self.database): f'the result would take the place of the database "{self.database}"',
            ("--json",): "--json tells what was written, and without --output that is the records",
        }.items():
            self.assertEqual(self.db("export", *arguments, status=2).stderr,
                             f"tenon db export: {words}; `tenon db export --help` tells more\n")

    def test_usage(self):
        program = required("TENON_TUNE")
        self.assertIn("  query     List records\n", run(program, "db", "--help").stdout)
        self.assertEqual(run(program, "db", status=2).stderr, run(program, "db", "--help").stdout)
        self.assertEqual(run(program, "db", "querry", status=2).stderr,
                         'tenon db: there is no command "querry"; did you mean "query"?; `tenon db --help` lists them\n')
        for command in ("list", "show", "query", "prune", "merge", "export", "import"):
            self.assertIn(f"usage: tenon db {command} ", run(program, "db", command, "--help").stdout)
        self.assertEqual(self.db("list", status=1).stderr,
                         f"tenon: {self.database}: there is no such database of tuning records\n")


if __name__ == "__main__":
    unittest.main()
