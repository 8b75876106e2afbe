# SPDX-License-Identifier: Apache-2.0
"""What a real browser makes of the page of `tenon tune report`: its script meets no error, charts have their points, texts of
others stay texts, and there is something to see, in light, in the dark and in print.

ctest sets TENON_CHROMIUM: Debian's chromium, which runs without a window here."""

import sqlite3
import struct
import subprocess
import unittest
import zlib

import numpy as np

from product import required
from tune_pages import HOSTILE, MACHINE, START, Elements, ReportTest, record_line, task_line


def pixels(path):
    """The colours of a PNG file with 8 bits a channel, [height, width, channels]."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            assert depth == 8 and not interlaced
            channels = {2: 3, 6: 4}[colour]
        packed += body if kind == b"IDAT" else b""
        at += 12 + length
    packed, step = zlib.decompress(packed), width * channels
    above, rows = bytes(step), []
    for start in range(0, len(packed), 1 + step):
        row = bytearray(packed[start + 1:start + 1 + step])
        if packed[start] == 1:
            for i in range(channels, step):
                row[i] = row[i] + row[i - channels] & 255
        elif packed[start] == 2:
            row = (np.frombuffer(row, np.uint8) + np.frombuffer(above, np.uint8)).tobytes()
        elif packed[start] == 3:
            for i in range(step):
                row[i] = row[i] + ((row[i - channels] if i >= channels else 0) + above[i]) // 2 & 255
        elif packed[start] == 4:
            for i in range(step):
                left, corner = (row[i - channels], above[i - channels]) if i >= channels else (0, 0)
                a, b, c = abs(above[i] - corner), abs(left - corner), abs(left + above[i] - 2 * corner)
                row[i] = row[i] + (left if a <= b and a <= c else above[i] if b <= c else corner) & 255
        rows.append(above := bytes(row))
    return np.frombuffer(b"".join(rows), np.uint8).reshape(height, width, channels)


class Browser(ReportTest):
    def chromium(self, *arguments, page=None, size=(1000, 3000)):
        command = [required("TENON_CHROMIUM"), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                   "--disable-dev-shm-usage", f"--user-data-dir={self.folder / 'profile'}", f"--window-size={size[0]},{size[1]}",
                   *arguments, (page or self.page).as_uri()]
        result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def dump(self, ending="", **options):
        """The elements that the page's script made; it must have met no error."""
        page = self.page
        if ending:
            page = self.folder / "changed.html"
            page.write_text(self.page.read_text().replace("</body>", f"<script>{ending}</script></body>"))
        elements = Elements(self.chromium("--dump-dom", page=page, **options))
        self.assertEqual(elements.texts.get("#failure", ""), "")
        self.assertEqual(elements.texts["title"], "Tuning report")
        for text in ("NaN", "undefined", "Infinity", "[object"):
            self.assertNotIn(text, elements.texts["header"] + elements.texts["main"])
            self.assertEqual([value for value in elements.values if text in value], [])
        return elements

    def test_charts_have_their_points(self):
        self.fill_richly()
        data = self.data()
        elements = self.dump("openAll();")
        timed = sum(p[1] is not None for t in data["tasks"] for p in t["points"])
        self.assertEqual(elements.classes["path", "fail"], sum(t["failed"] for t in data["tasks"]))
        self.assertEqual(elements.classes["circle", "dot"] + elements.classes.get(("path", "over"), 0), timed)
        self.assertEqual(elements.classes["path", "mark"], timed + len(data["tasks"]))  # and one each in the legend
        self.assertEqual(elements.classes["circle", "runner"], len(data["latency"]))
        self.assertEqual(elements.classes["rect", "runner"], sum(part > 0 for part in data["runner"]))
        self.assertEqual(elements.classes["rect", "builders"], sum(part > 0 for part in data["builders"]))
        self.assertEqual(elements.classes["path", "best"], 1 + len(data["tasks"]))
        self.assertEqual(elements.classes["line", "break"], 2)
        for task in data["tasks"]:
            self.assertIn(task["name"], elements.texts["#tasks"])
            self.assertIn(task["best"]["trace"].split("\n")[1], elements.texts["#details"])
        for text in ("− split \"C.j\" 0 8", "+ split \"C.j\" 0"):
            self.assertIn(text, elements.texts["#details"])
        for cause in data["causes"]:
            self.assertIn(cause["first"], elements.texts["#errors"])
        self.assertIn("trials that a minute had", elements.texts["#forecast-text"])
        self.assertIn("1 record of a newer Tenon", elements.texts["#notes"])

    def test_work_of_kernels(self):
        """GFLOP/s, a bar of at most all that the machine can do, and why there is nothing to search."""
        tasks = self.fill_richly()
        connection = sqlite3.connect(self.database)
        for name, least, candidates in ("product", 1e-3, 150), ("rows", 1, 1):
            connection.execute("INSERT INTO facts SELECT task.id, machine.id, 4e6, 1e5, ?, 0, ? FROM task, machine"
                               " WHERE name = ? AND fingerprint = ?", (least, candidates, name, MACHINE))
        connection.commit()
        connection.close()
        data = self.data()
        elements = self.dump("openAll();")
        self.assertEqual(len(tasks), 4)
        self.assertEqual(elements.classes["rect", "part"], 2)
        self.assertIn("≥ 100 %", elements.texts["#tasks"])
        self.assertIn(f"{data['tasks'][0]['gflops']:.3g}", elements.texts["#tasks"])
        self.assertIn("Nothing more to search: all 150 candidates", elements.texts["#details"])
        self.assertIn("Nothing to search: no rule has another schedule", elements.texts["#details"])
        self.assertEqual(elements.texts["#details"].count("to search"), 2)
        self.dump("for (const bar of document.querySelectorAll('rect.part')) if (!(bar.getAttribute('width') <= 60)) tell('too long: ' + bar.outerHTML);")

    def test_axes_show_zero_or_say_log(self):
        self.fill_richly()
        self.report()
        self.dump("openAll(); for (const s of document.querySelectorAll('figure > svg, figure > div > svg')) {"
                  " const words = [...s.querySelectorAll('text')].map((t) => t.textContent);"
                  " const honest = words.filter((t) => t.endsWith('(log scale)') || /^0( |$)/.test(t)).length;"
                  " if (honest < 2) tell(s.getAttribute('aria-label') + ' has ' + words.join(';')); }"
                  " const c = chart(600, 200, {low: 5, high: 9, text: digits, name: 'x'}, {low: 5, high: 9, text: digits}, 'any');"
                  " if ([...c.root.querySelectorAll('text')].filter((t) => t.textContent === '0').length !== 2) tell('no zero');")

    def test_texts_stay_texts(self):
        self.fill_richly()
        self.report()
        tame = self.dump("openAll();")
        self.database.unlink()
        self.fill_hostile()
        self.report()
        elements = self.dump("openAll(); if (window.taken) tell('taken');")
        for tag in ("img", "b", "script", "style", "iframe"):
            self.assertLessEqual(elements.counts.get(tag, 0), tame.counts.get(tag, 0) + (3 if tag == "b" else 0) * len(HOSTILE), tag)
        self.assertLessEqual(elements.attributes, tame.attributes)
        for text in HOSTILE[:5]:
            self.assertIn(text, elements.texts["#details"])
            self.assertIn(text, elements.texts["#errors"])
        self.assertIn("a\\u0001\\u001b[31mred\\u007f\\u0085\\u2028\\u2029\\u202egnisrever\\u2066\\ufeff \U0001f600 é",
                      elements.texts["#details"])

    def test_odd_databases(self):
        """A single record, one that failed, one without a time of anything: no chart meets what it cannot draw."""
        task = task_line("lonely", "kernel lonely")
        self.fill(task, record_line(task, "point 0", START, error="run time", message="", build=0, run=0))
        self.report()
        elements = self.dump("openAll();")
        self.assertIn("Nothing was timed yet.", elements.texts["#latency-text"])
        self.assertIn("(no text)", elements.texts["#errors"])
        self.database.unlink()
        self.fill(task, record_line(task, "point 0", START, 2e-6, build=0, run=0))
        self.report()
        elements = self.dump("openAll();")
        self.assertEqual(elements.classes["circle", "dot"], 1)
        self.fill(record_line(task, "point 1", 1.0, 1e18, build=1e17, run=1e17), record_line(task, "point 2", 1e17, 1e-10))
        self.report()
        self.dump("openAll();")

    def test_accessible(self):
        """Each chart says in words what it shows; headings name the sections; nothing is wider than a phone."""
        self.fill_richly()
        self.report()
        self.dump("openAll(); for (const s of document.querySelectorAll('figure > svg')) if ((s.getAttribute('aria-label') || '').length < 40)"
                  " tell('no words for ' + s.outerHTML.slice(0, 200)); for (const s of document.querySelectorAll('section'))"
                  " if (!document.getElementById(s.getAttribute('aria-labelledby'))) tell('no heading');")
        narrow = "openAll(); document.body.style.cssText = 'width: 340px; margin: 0'; measure(); draw(); for (const e of document.querySelectorAll('main *'))" \
                 " if (!e.closest('.wide') && e.getBoundingClientRect().right > 341) { tell('too wide: ' + e.outerHTML.slice(0, 300)); break; }"
        self.dump(narrow)

    def test_looks(self):
        """Light, dark and printed: not blank, and in the colours that are meant."""
        self.fill_richly()
        self.report()
        meant = {(): ((251, 251, 249), (31, 111, 235)), ("--blink-settings=preferredColorScheme=0",): ((20, 23, 27), (110, 168, 255))}
        for arguments, (paper, line) in meant.items():
            image = self.folder / "page.png"
            self.chromium(f"--screenshot={image}", *arguments, size=(1000, 1600))
            shown = pixels(image)[:, :, :3]
            self.assertEqual(shown.shape, (1600, 1000, 3))
            self.assertEqual(tuple(int(c) for c in shown[5, 5]), paper)
            self.assertGreater((shown == line).all(axis=2).sum(), 1000, "lines of charts")
            self.assertGreater(len(np.unique(shown.reshape(-1, 3), axis=0)), 100)
            inked = (abs(shown.astype(int) - shown[5, 5].astype(int)).max(axis=2) > 60).mean(axis=1)
            self.assertGreater((inked > 0.005).mean(), 0.3, "rows of pixels that have something on them")
        printed = self.folder / "page.pdf"
        self.chromium(f"--print-to-pdf={printed}")
        self.assertGreater(printed.stat().st_size, 20000)


if __name__ == "__main__":
    unittest.main()
