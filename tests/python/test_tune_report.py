# SPDX-License-Identifier: Apache-2.0
"""`tenon tune report`: what its page says of a database, what it refuses, and that texts of others stay texts in it. What a
browser makes of the page is in test_tune_report_browser.py."""

import json
import math
import re
import sqlite3
import unittest

import numpy as np

from product import tenon, write_mlp
from tune_pages import HOSTILE, MACHINE, START, Elements, ReportTest, record_line, task_line


class Pages(ReportTest):
    def test_of_what_was_tuned(self):
        """What the page says is what the database says, and what the tuner saw."""
        file = self.folder / "kernels.te"
        file.write_text("kernel product(A: f32[61, 70], B: f32[70, 53]) -> C: f32[61, 53] "
                        "{ C[i, j] = sum(k: 70) A[i, k] * B[k, j] }\n"
                        "kernel rows(X: f32[90, 300]) -> S: f32[90] { S[i] = sum(k: 300) X[i, k] }\n")
        tenon("tune", file, "--trials", 40, "--threads", 1, "--quiet", "--database", self.database, "-o",
              self.folder / "k.schedules")
        data = self.data(file, "--threads", 1)
        listed = json.loads(tenon("db", "list", "--json", "--database", self.database).stdout)["tasks"]
        records = json.loads(tenon("db", "query", "--json", "--database", self.database).stdout)["records"]
        self.assertEqual({t["hash"] for t in data["tasks"]}, {t["task"] for t in listed})
        self.assertTrue(data["weighted"])
        self.assertEqual(data["untuned"], [])
        self.assertEqual(sum(t["trials"] for t in data["tasks"]), len(records))
        self.assertGreater(sum(r["predicted"] > 0 for r in records), len(records) // 2)
        measured = 0
        for task in data["tasks"]:
            own = [r for r in records if r["task"] == task["hash"]]
            fastest = min((r for r in own if r["error"] == "ok" and r["verified"]), key=lambda r: r["median"])
            first = next(r for r in own if r["origin"] == "static")
            judged = [r for r in own if r["verdict"] != "none"]
            better = [r for r in own if r["verdict"] == "better"]
            best = min(better, key=lambda r: r["ratio"]) if better else first if judged else fastest
            self.assertEqual((task["best"]["median"], task["best"]["trace"]), (best["median"], best["trace"]))
            self.assertEqual(task["judged"], bool(judged))
            measured += fastest["median"]
            flops = {"product": 2 * 61 * 53 * 70, "rows": 90 * 300}[task["name"]]
            self.assertAlmostEqual(task["gflops"] / (1e-9 * flops / task["best"]["median"]), 1, places=9)
            self.assertGreater(task["roofline"], 0)
            self.assertLessEqual(task["roofline"], 1)
            if task["candidates"] > 0:
                self.assertEqual(task["candidates"], len(own))
            self.assertEqual((task["static"]["median"], task["static"]["decisions"]), (first["median"], first["decisions"]))
            self.assertEqual(len(task["points"]), len(own))
            self.assertEqual([p[0] for p in task["points"]], list(range(1, len(own) + 1)))
            self.assertAlmostEqual(task["points"][-1][3] / fastest["median"], 1, places=3)
        self.assertAlmostEqual(data["total_best"], sum(t["best"]["median"] for t in data["tasks"]))
        self.assertAlmostEqual(data["latency"][-1][1] / measured, 1, places=4)
        self.assertAlmostEqual(data["run_seconds"], sum(r["run_seconds"] for r in records), delta=0.3 * data["run_seconds"])
        self.assertGreater(data["elapsed"], 0)
        self.assertEqual(self.data(file, "--threads", 1), data)

    def test_what_has_nothing_to_search(self):
        """The page says of which kernel all candidates are measured; a roofline that is drawn too low is not passed."""
        file = self.folder / "kernels.te"
        file.write_text("kernel rows(X: f32[90, 300]) -> S: f32[90] { S[i] = sum(k: 300) X[i, k] }\n")
        tenon("tune", file, "--trials", 4000, "--threads", 1, "--quiet", "--database", self.database, "-o",
              self.folder / "k.schedules")
        task = self.data()["tasks"][0]
        self.assertEqual(task["candidates"], task["trials"])
        connection = sqlite3.connect(self.database)
        floor, fastest = connection.execute("SELECT floor, (SELECT min(median) FROM record WHERE error = 0) FROM facts").fetchone()
        self.assertTrue(0 <= floor < fastest, (floor, fastest))  # 0 where nothing is measured
        connection.execute("UPDATE facts SET least = 1, candidates = 1")
        connection.commit()
        task = self.data()["tasks"][0]
        self.assertEqual((task["roofline"], task["above"], task["candidates"]), (1, True, 1))
        connection.execute("UPDATE facts SET least = -1, flops = -1, candidates = 0")
        connection.commit()
        task = self.data()["tasks"][0]
        self.assertEqual((task["roofline"], task["gflops"], task["above"], task["candidates"]), (None, None, False, 0))
        connection.execute("DELETE FROM facts")
        connection.commit()
        connection.close()
        self.assertIsNone(self.data()["tasks"][0]["roofline"])

    def test_numbers(self):
        """All that is computed, on records that were made up."""
        tasks = self.fill_richly()
        result = self.report()
        self.assertEqual(result.stdout, f"{self.page}: 4 tasks\n")
        self.assertEqual(result.stderr, "tenon: 1 record in formats of a newer Tenon is not in it\n"
                                        "tenon: 1 record of other machines is not in it; --measured-on chooses another\n")
        data = self.data()
        self.assertEqual((data["machine"], data["database"], data["newer"], data["elsewhere"], data["weighted"]),
                         (MACHINE, "tuning.db", 1, 1, False))
        self.assertEqual([t["name"] for t in data["tasks"]], [t["name"] for t in tasks])  # by their share
        self.assertEqual(data["trials"], 149 + 90 + 60 + 12)
        self.assertEqual(data["tasks"][2]["dims"], "M = 128, N = 64")
        for task in data["tasks"]:
            timed = [p for p in task["points"] if p[1] is not None]
            self.assertEqual(task["failed"], sum(p[4] == 2 for p in task["points"]))
            self.assertEqual(len(timed) + task["failed"], task["trials"])
            best = [min(p[1] for p in timed if p[0] <= n) for n in range(1, task["trials"] + 1)]
            self.assertEqual([p[3] for p in task["points"]], best)
            half, n = best[task["trials"] // 2 - 1], task["trials"]
            expected = best[-1] * (1 - (best[-1] / half) ** math.log2(1 + task["forecast_trials"] / n))
            self.assertAlmostEqual(task["gain"], expected, delta=1e-3 * expected)
            predicted, measured = (np.argsort(np.argsort([p[k] for p in timed])) for k in (2, 1))
            self.assertAlmostEqual(task["correlation"], np.corrcoef(predicted, measured)[0, 1], places=3)
            top = max(4, len(timed) // 10)
            self.assertEqual(task["top"], top)
            self.assertAlmostEqual(task["recall"], sum((predicted < top) & (measured < top)) / top, places=3)
        self.assertAlmostEqual(data["gain"], sum(t["gain"] for t in data["tasks"]))
        self.assertLessEqual(sum(t["forecast_trials"] for t in data["tasks"]), data["per_minute"])
        self.assertGreater(sum(t["forecast_trials"] for t in data["tasks"]), data["per_minute"] - 2)
        # Two sessions; a day between them is no time of tuning.
        self.assertEqual(len(data["sessions"]), 2)
        lengths = [end - begin for _, begin, end, _ in data["sessions"]]
        self.assertAlmostEqual(data["elapsed"], sum(lengths), places=2)
        self.assertLess(data["elapsed"], 60)
        self.assertAlmostEqual(data["per_minute"], 60 * 90 / lengths[1], places=1)
        self.assertAlmostEqual(sum(data["runner"]) / 120, data["run_seconds"] / data["elapsed"], places=2)
        self.assertAlmostEqual(sum(data["builders"]) / 120, data["build_seconds"] / data["elapsed"], places=2)
        # Over time: what all kernels take falls, from the first times to the best ones.
        totals = [total for _, total in data["latency"]]
        self.assertEqual(totals, sorted(totals, reverse=True))
        self.assertAlmostEqual(totals[-1], data["total_best"], places=7)
        self.assertAlmostEqual(data["total_static"], 4e-3 + 1.1e-3 + 3e-4 + 9e-6)

    def test_errors_by_cause(self):
        tasks = self.fill_richly()
        data = self.data()
        self.assertEqual(len(data["causes"]), 3)
        self.assertEqual(sum(c["count"] for c in data["causes"]), sum(t["failed"] for t in data["tasks"]))
        wrong = next(c for c in data["causes"] if c["kind"] == "wrong answer")
        self.assertEqual(wrong["first"], "C[3, 5] is 3.5, and -2.5 by the declaration")
        self.assertEqual((wrong["tasks"], wrong["task"]), (4, "product"))
        aborted = next(c for c in data["causes"] if c["kind"] == "host compile")
        self.assertEqual(aborted["first"], "worker 4017 was ended by signal 6 (Aborted)\nLLVM ERROR: at 0x11")
        many = [record_line(tasks[0], f"word {i}", START + 100 + i, error="run time", message="x" * i) for i in range(1, 130)]
        self.fill(*many)
        data = self.data()
        self.assertEqual((len(data["causes"]), data["more_causes"]), (100, 129 - 97))

    def test_choosing(self):
        tasks = self.fill_richly()
        self.assertEqual([t["name"] for t in self.data("--task", "rows")["tasks"]], ["rows"])
        both = self.data("--task", "rows", "--task", tasks[0]["task"][:10])
        self.assertEqual([t["name"] for t in both["tasks"]], ["product", "rows"])
        other = self.data("--measured-on", "zen 4")
        self.assertEqual([t["name"] for t in other["tasks"]], ["product"])
        self.assertEqual((other["tasks"][0]["best"]["median"], other["per_minute"]), (1e-9, None))
        self.page.unlink()
        self.refused(f'tenon: {self.database}: there is no task "rose"; `tenon db list` lists them', "--task", "rose")
        self.refused(f'tenon: {self.database}: there are no records of these tasks from the machine "pdp 11"; `tenon db query`'
                     " tells which there are", "--measured-on", "pdp 11")

    def test_weights(self):
        """A model's kernels count as often as it calls them, and those that were not tuned are named."""
        model, _, _ = write_mlp(self.folder, sizes=(32, 32, 32, 32, 10))
        words = f"tenon: {self.database}: there is no such database of tuning records"
        self.refused(words, model, "--threads", 1)
        tenon("tune", model, "--trials", 8, "--threads", 1, "--quiet", "--no-comparison", "--database", self.database, "-o",
              self.folder / "k.schedules")
        data = self.data(model, "--threads", 1)
        self.assertGreater(max(t["weight"] for t in data["tasks"]), 1)
        self.assertAlmostEqual(data["total_best"], sum(t["weight"] * t["best"]["median"] for t in data["tasks"]))
        other, _, _ = write_mlp(self.folder, name="other", sizes=(24, 48, 12))
        more = self.data(model, other, "--threads", 1)
        self.assertGreaterEqual(len(more["untuned"]), 1)
        open_model, _, _ = write_mlp(self.folder, name="open", sizes=(24, 48, 12), rows="N")
        result = self.report(model, open_model, "--threads", 1)
        self.assertRegex(result.stderr, f"^tenon: {open_model}: [0-9]+ kernels of open sizes are not in it; --dim NAME=N fixes a size\n$")
        self.page.unlink()
        self.refused(f"tenon: {self.database}: no kernel of these files was tuned for this target, these sizes and so many "
                     "threads; `tenon db list` lists what was", other, "--threads", 2)

    def test_nothing_to_tell(self):
        self.refused(f"tenon: {self.database}: there is no such database of tuning records")
        self.database.write_text("")
        self.refused(f"tenon: {self.database}: the file is empty: there are no tuning records in it yet")
        self.database.unlink()
        self.fill()
        self.refused(f"tenon: {self.database}: there are no tuning records in it yet; `tenon tune FILE --database "
                     f"{self.database}` makes some")
        task = task_line("lonely", "kernel lonely")
        self.fill(task)
        self.refused(f"tenon: {self.database}: none of these tasks has a record yet; `tenon tune FILE` makes some")
        self.fill(record_line(task, "point 0", START, error="run time", message="signal 11"))
        data = self.data()
        self.assertEqual((data["total_best"], data["latency"], data["tasks"][0]["best"]), (None, [], None))
        self.page.unlink()
        connection = sqlite3.connect(self.database)
        connection.execute("UPDATE record SET format = 2")
        connection.commit()
        connection.close()
        version = tenon("--version").stdout.split()[1]
        self.refused(f"tenon: {self.database}: all 1 records of these tasks are in formats of a newer Tenon than this one "
                     f"({version}): use that one")

    def test_many_records(self):
        """What is drawn has a limit; what is better than all before it is always drawn, and nothing is left out of sums."""
        task, count = task_line("worn out", "kernel worn"), 50001
        times = np.random.default_rng(1).lognormal(-7, 1, count)
        self.fill(task, *(record_line(task, f"point {i}", START + 0.01 * i, float(t), trace="") for i, t in enumerate(times)))
        data = self.data()
        task = data["tasks"][0]
        self.assertEqual((data["trials"], task["trials"], data["apart"]), (count, count, 3))
        self.assertLess(len(task["points"]), 17000)
        self.assertEqual(task["best"]["median"], times.min())
        best = np.minimum.accumulate(times)
        numbers = {p[0] for p in task["points"]}
        self.assertLessEqual({1, count} | {int(i) + 2 for i in np.flatnonzero(np.diff(best))}, numbers)
        for p in task["points"]:
            self.assertAlmostEqual(p[3] / best[p[0] - 1], 1, places=3)
        self.assertLess(self.page.stat().st_size, 1000000)

    def test_usage(self):
        help_text = tenon("tune", "report", "--help").stdout
        self.assertIn("usage: tenon tune report [FILE...] [OPTIONS]\n", help_text)
        self.fill_richly()
        before = self.database.read_bytes()
        for output in (self.database, self.folder / "." / "tuning.db"):
            result = tenon("tune", "report", "--database", self.database, "-o", output, status=2)
            self.assertIn("would take the place of", result.stderr)
        tenon("tune", "report", "-o", self.database, status=2, environment={"TENON_TUNE_DB": str(self.database)})
        self.assertEqual(self.database.read_bytes(), before)
        self.page = self.folder / "none" / "r.html"
        self.refused(f"tenon: {self.folder}/none/r.html: cannot write: there is no folder {self.folder}/none")

    def test_texts_stay_texts(self):
        """Whatever names, rules, traces, messages and machines hold, the page has the elements of its template."""
        self.fill_richly()
        self.report()
        tame = Elements(self.page.read_text())
        self.database.unlink()
        self.fill_hostile()
        data = self.data()
        page = self.page.read_text()
        elements = Elements(page)
        self.assertEqual(elements.counts, tame.counts)
        self.assertEqual(elements.attributes, tame.attributes)
        self.assertEqual(data["machine"], HOSTILE[0])
        names = {t["name"] for t in data["tasks"]}
        for text in HOSTILE[:-1]:
            self.assertIn(text, names)
        self.assertIn(HOSTILE[1], {c["first"] for c in data["causes"]})
        inside = page.split('<script id="data" type="application/json">')[1].split("</script>")[0]
        self.assertIsNone(re.search("[<>&\x00-\x09\x0b-\x1f\x7f]", inside))
        self.assertLess(len(page), 400000, "long texts are cut")
        cut = next(n for n in names if n.startswith("]]>"))
        self.assertRegex(cut, r"\.\.\. \([0-9]+ bytes more\)$")

    def test_one_file(self):
        """Nothing is fetched from anywhere, and the page forbids it to itself."""
        self.fill_richly()
        self.report()
        page = self.page.read_text()
        addresses = set(re.findall(r"[a-z]+://[^\"' )]*", page))
        self.assertLessEqual(addresses, {"http://www.w3.org/1999/xhtml", "http://www.w3.org/2000/svg"})  # names, no places
        self.assertNotRegex(page, r"(?i)<link|@import|url\(|\ssrc=|fetch\(|XMLHttpRequest|import\(|\beval\(|innerHTML|insertAdjacentHTML|document\.write")
        self.assertIn("Content-Security-Policy\" content=\"default-src 'none';", page)
        self.assertNotIn(str(self.folder), page)


if __name__ == "__main__":
    unittest.main()
