// The report: what `tenon tune report` put into the element "data".

function tell(error) {
  const place = document.getElementById("failure");
  place.hidden = false;
  place.append("This page could not be drawn: " + error + " ");
}
window.onerror = (message, source, line) => tell(message + " (line " + line + ")");
window.onunhandledrejection = (event) => tell(event.reason);

const report = JSON.parse(document.getElementById("data").textContent);
const tasks = report.tasks;
const timeOf = (schedule) => schedule ? schedule.median : null;
const firstOf = (task) => timeOf(task.static) === null ? null : task.static.median * task.weight;
const gainOf = (task) => task.static && task.best ? task.static.median / task.best.median : null;
const times = (ratio) => ratio === null || !isFinite(ratio) ? "–" : (ratio < 1000 ? ratio.toFixed(2) : digits(ratio)) + "×";

// Names may be there twice: then what they begin with tells them apart.
function nameOf(task) {
  const twice = tasks.some((other) => other !== task && other.name === task.name);
  return twice ? `${task.name} (${task.hash.slice(0, 8)})` : task.name;
}

let width = 800;
function measure() {
  const style = getComputedStyle(document.querySelector("section"));
  width = Math.max(280, document.querySelector("section").clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
}

function about() {
  fill("about", "Records of ", named(report.database), ", measured on ", named(report.machine));
  const before = report.total_static, after = report.total_best;
  const tile = (value, text) => html("div", {class: "tile"}, html("b", {}, value), html("span", {}, text));
  const what = report.weighted ? "one run of all kernels" : "all kernels, called once each";
  const failed = tasks.reduce((sum, task) => sum + task.failed, 0);
  fill("tiles", tile(time(after), what + ", now"), tile(time(before), "with the static choices alone"),
       tile(before && after ? times(before / after) : "–", "as fast as the static choices"),
       tile(report.trials.toLocaleString("en"), failed > 0 ? `trials, ${failed.toLocaleString("en")} of them failed` : "trials, none failed"),
       tile(duration(report.elapsed), "of tuning" + (report.sessions.length > 1 ? `, in ${report.sessions.length} sessions` : "")));
  const notes = [];
  const missing = tasks.filter((task) => !task.best).length;
  if (!report.weighted) notes.push("Which model calls these kernels, and how often, is not in the database: each counts once. `tenon tune report FILE` weighs them.");
  if (missing > 0) notes.push(plural(missing, "kernel") + " without a time that was compared with the declaration's result: not in the sums.");
  if (before === null && after !== null) notes.push("Not every kernel has a record of its static choice, so there is no time to compare all of them with.");
  if (report.untuned.length > 0) {
    const shownNames = report.untuned.slice(0, 8).map(shown).join(", ");
    notes.push(plural(report.untuned.length, "kernel") + " of the files without a record here, and not in the sums: " + shownNames + (report.untuned.length > 8 ? ", ..." : ""));
  }
  if (report.newer > 0) notes.push(plural(report.newer, "record") + " of a newer Tenon: not in this report.");
  if (report.elsewhere > 0) notes.push(plural(report.elsewhere, "record") + " of other machines: not in this report (--measured-on chooses another).");
  if (report.apart > 1) notes.push(`Charts of trials show one in ${report.apart}, and each that was better than all before it.`);
  fill("notes", ...notes.map((text) => html("li", {}, text)));
  fill("footer", "Made by tenon " + report.tenon + " from " + plural(report.trials, "record") + ".");
}

function drawLatency() {
  const points = report.latency;
  if (points.length === 0) {
    fill("latency-text", "Nothing was timed yet.");
    return;
  }
  const start = points[0][1], end = points[points.length - 1][1], line = report.total_static;
  const values = points.map((p) => p[1]).concat(line === null ? [] : [line]);
  const high = 1.05 * Math.max(...values);
  const text = `From ${time(start)} to ${time(end)} in ${duration(report.elapsed)} of tuning` + (line ? `; the static choices take ${time(line)}.` : ".");
  const c = chart(width, 300, {low: 0, high: Math.max(report.elapsed, 1e-3), text: duration, name: "time of tuning, breaks left out"},
                  {low: 0, high, text: time}, "Seconds of one run of all kernels, over the time of tuning. " + text);
  const path = steps(points, c.px, c.py);
  c.root.append(svg("path", {class: "area", d: path + `V${c.bottom}H${c.left}z`}), svg("path", {class: "best", d: path}));
  if (line) {
    c.root.append(svg("line", {class: "static", x1: c.left, x2: c.right, y1: c.py(line), y2: c.py(line)}),
                  svg("text", {class: "static-text", x: c.right - 4, y: c.py(line) - 5, "text-anchor": "end"}, "static choices"));
  }
  for (const [at, value] of points.slice(0, 600))
    c.root.append(svg("circle", {class: "runner", cx: c.px(at), cy: c.py(value), r: 2.5}, svg("title", {}, `${duration(at)}: ${time(value)}`)));
  fill("latency-text", text + " A kernel counts with its first time until that was measured.");
  fill("latency", c.root);
  const apart = Math.ceil(points.length / 40);
  const rows = points.filter((_, i) => i % apart === 0 || i === points.length - 1).map(([at, value]) => [duration(at), time(value), times(start / value)]);
  fill("latency-table", table("All kernels over time", ["time of tuning", "all kernels", "as fast as at first"], rows));
}

// "f32[61, 70], f32[70, 53] → f32[61, 53]", as the declaration has them.
function shapesOf(task) {
  const found = /\(([^()]*)\)\s*->\s*([^{]*)\{/.exec(task.declaration);
  return found ? shown(found.slice(1).map((part) => part.replace(/[\w.]+\s*:\s*(?=[a-z]+\d*\[)/g, "").trim()).join(" → ")) : "–";
}

// A bar and its number, of at most all that the machine can do.
function roofline(task) {
  if (task.roofline === null) return "–";
  return html("span", {}, (task.above ? "≥ " : "") + percent(task.roofline),
              svg("svg", {class: "bar", viewBox: "0 0 60 6", "aria-hidden": "true"}, svg("rect", {class: "whole", width: 60, height: 6}),
                  svg("rect", {class: "part", width: (60 * Math.min(1, task.roofline)).toFixed(1), height: 6})));
}

// Why no budget makes the kernel faster; empty: there may be more candidates.
function searched(task) {
  if (task.candidates === 0) return "";
  return task.candidates === 1 ? "Nothing to search: no rule has another schedule for this kernel than the static choice."
    : `Nothing more to search: all ${task.candidates.toLocaleString("en")} candidates that its rules have are measured.`;
}

function listTasks() {
  const sum = tasks.reduce((all, task) => all + (firstOf(task) || 0), 0);
  const heads = ["kernel", "shapes", "calls", "share", "static", "best", "gain", "GFLOP/s", "roofline", "trials", "failed", "rank correlation", "fastest found"];
  const rows = tasks.map((task, i) => [
    html("a", {href: "#task-" + i}, named(nameOf(task))), shapesOf(task), digits(task.weight), firstOf(task) ? percent(firstOf(task) / sum) : "–",
    time(timeOf(task.static)), time(timeOf(task.best)) + (task.judged ? "" : " *"), times(gainOf(task)), task.gflops === null ? "–" : digits(task.gflops), roofline(task),
    task.trials.toLocaleString("en"), task.failed.toLocaleString("en"),
    task.correlation === null ? "–" : task.correlation.toFixed(2), task.recall === null ? "–" : percent(task.recall)]);
  fill("tasks-text", (tasks.some((task) => !task.judged) ? "Where a star stands, nothing was compared with the static choice in turns yet, and the best is the fastest that was measured. " : "") + (report.weighted ? "Calls are those of one run of the files. " : "") +
       "Share is of the time with the static choices. GFLOP/s and roofline are of the best: the roofline is the least time that the machine's numbers allow for the kernel's operations and bytes, and the bar shows which part of the time that is. " +
       (tasks.some((task) => task.above) ? "Where ≥ stands, the kernel was faster than these numbers allow. " : "") + "Rank correlation is Spearman's, of predicted and measured times: 1 where the model orders candidates as the machine does. Fastest found is the share of the fastest tenth of the candidates, of four at least, that are among as many that were predicted fastest.");
  fill("tasks", table("Kernels", heads, rows));
}

function forecast() {
  const buys = tasks.filter((task) => task.gain > 0).sort((a, b) => b.gain - a.gain);
  if (report.per_minute === null) {
    fill("forecast-text", "The last session was too short to say how many trials a minute has.");
  } else if (report.gain > 0) {
    fill("forecast-text", `About ${time(report.gain)} of ${time(report.total_best)} (${digits(100 * report.gain / report.total_best)} %), with the ` +
         plural(Math.round(report.per_minute), "trial") + " that a minute had.");
    fill("forecast", table("Gain expected of the next minute", ["kernel", "trials", "gain", "of its time"],
                           buys.slice(0, 12).map((task) => [named(nameOf(task)), task.forecast_trials.toLocaleString("en"), time(task.gain),
                                                            digits(100 * task.gain / (task.weight * task.best.median)) + " %"])));
  } else {
    const few = tasks.every((task) => task.gain === null);
    fill("forecast-text", few ? "There are too few trials to say." : "Nothing, by this estimate: no kernel gained anything in the second half of its trials.");
  }
}

function legend(entries) {
  return html("ul", {class: "legend"}, ...entries.map(([kind, ...children]) => html("li", {}, svg("svg", {viewBox: "-7 -7 14 14", "aria-hidden": "true"}, mark(kind, 0, 0, 4)), ...children)));
}

function drawPredicted() {
  const own = SHAPES.length - 1;  // the last shape is for all others
  const all = [];
  tasks.forEach((task, i) => {
    for (const [number, seconds, predicted] of task.points)
      if (seconds !== null && predicted !== null) all.push([predicted, seconds, Math.min(i, own), task, number]);
  });
  if (all.length === 0) {
    fill("predicted-text", "No record tells what was predicted of it.");
    return;
  }
  const known = tasks.filter((task) => task.correlation !== null);
  const trials = known.reduce((sum, task) => sum + task.trials, 0);
  const mean = known.reduce((sum, task) => sum + task.correlation * task.trials, 0) / trials;
  const recall = known.reduce((sum, task) => sum + task.recall * task.trials, 0) / trials;
  const off = all.map(([p, m]) => Math.max(p / m, m / p)).sort((a, b) => a - b)[all.length >> 1];
  const text = `${plural(all.length, "candidate")}; half of the predictions are within ${times(off)} of what was measured` +
    (trials > 0 ? `, and the rank correlation within a kernel is ${mean.toFixed(2)} in the mean; of each kernel's fastest candidates ${percent(recall)} were among those predicted fastest.` : ".");
  let low = Infinity, high = 0;
  for (const [p, m] of all) low = Math.min(low, p, m), high = Math.max(high, p, m);
  low /= 1.3, high *= 1.3;
  const size = Math.min(width, 560);
  const c = chart(width, Math.round(size * 0.75), {low, high, log: true, text: time, name: "predicted"}, {low, high, log: true, text: time, name: "measured"},
                  "Measured seconds (upwards) against predicted ones (to the right), both logarithmic. " + text);
  const line = (name, factor) => {
    const from = Math.max(low, low / factor), to = Math.min(high, high / factor);
    c.root.append(svg("line", {class: name, x1: c.px(from), y1: c.py(from * factor), x2: c.px(to), y2: c.py(to * factor)}));
  };
  line("twice", 2), line("twice", 0.5), line("equal", 1);
  const apart = Math.ceil(all.length / 4000), titles = all.length < 1500;
  all.forEach(([p, m, kind, task, number], i) => {
    if (i % apart !== 0) return;
    const point = mark(kind, c.px(p), c.py(m), 2.6);
    if (titles) point.append(svg("title", {}, shown(`${task.name}, trial ${number}: predicted ${time(p)}, measured ${time(m)}`)));
    c.root.append(point);
  });
  const entries = tasks.slice(0, own).map((task, i) => [i, named(nameOf(task))]);
  if (tasks.length > own) entries.push([own, plural(tasks.length - own, "other")]);
  fill("predicted-text", text + (apart > 1 ? ` One in ${apart} is drawn.` : ""));
  fill("predicted", legend(entries), c.root);
}

function drawBusy() {
  if (!(report.elapsed > 0) || report.run_seconds + report.build_seconds === 0) {
    fill("busy-text", "No record tells how long building and running took.");
    return;
  }
  const share = report.run_seconds / report.elapsed, built = report.build_seconds / report.elapsed;
  const runners = share > 1.005 ? `${digits(share)} runners were busy in the mean` : `The runner was busy ${percent(Math.min(share, 1))} of the time`;
  const text = `${runners}, and ${digits(built)} builders` +
    (report.per_minute ? `; ${Math.round(report.per_minute)} trials a minute in the last session.` : ".");
  const x = {low: 0, high: report.elapsed, text: duration, name: "time of tuning, breaks left out"};
  const panel = (bins, high, axisText, name, label, count) => {
    const c = chart(width, 150, x, {low: 0, high, text: axisText, count}, `${label} over the time of tuning. ${text}`);
    const step = report.elapsed / bins.length;
    bins.forEach((value, i) => {
      const to = c.py(Math.min(value, high));
      if (value > 0) c.root.append(svg("rect", {class: name, x: c.px(i * step), y: to, width: Math.max(c.px((i + 1) * step) - c.px(i * step) - 0.5, 0.5), height: c.bottom - to}));
    });
    for (const [at] of report.sessions.slice(1, 200)) c.root.append(svg("line", {class: "break", x1: c.px(at), x2: c.px(at), y1: c.top, y2: c.bottom}));
    return c.root;
  };
  const builders = Math.max(1, ...report.builders);
  fill("busy-text", text);
  fill("busy", html("h3", {}, "Runner, part of the time in which it was busy"), panel(report.runner, 1, percent, "runner", "The runner's part of the time in which it was busy", 3),
       html("h3", {}, "Builders that were busy at once"), panel(report.builders, builders, digits, "builders", "How many builders were busy", 3));
}

function listErrors() {
  const count = report.causes.reduce((sum, cause) => sum + cause.count, report.more_causes);
  if (count === 0) {
    fill("errors-text", "None.");
    return;
  }
  fill("errors-text", `${plural(count, "trial")} of ${report.trials.toLocaleString("en")} failed, of ${plural(report.causes.length, "cause")}: the same kind, and the same text but for its numbers.` +
       (report.more_causes > 0 ? ` ${plural(report.more_causes, "trial")} of yet other causes are not listed.` : ""));
  fill("errors", ...report.causes.map((cause) => html("div", {class: "error"},
    html("p", {}, html("span", {class: "kind"}, shown(cause.kind)), ` – ${plural(cause.count, "trial")} in ${plural(cause.tasks, "kernel")}; first in `, named(cause.task), ", " + date(cause.when)),
    html("pre", {tabindex: "0"}, cause.first === "" ? "(no text)" : shown(cause.first)))));
}

// Which lines of two texts are in both, in order; too many are not compared.
function common(a, b) {
  const inBoth = [new Set(), new Set()];
  if (a.length * b.length > 1e6) return null;
  const length = Array.from({length: a.length + 1}, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let k = b.length - 1; k >= 0; k--) length[i][k] = a[i] === b[k] ? length[i + 1][k + 1] + 1 : Math.max(length[i + 1][k], length[i][k + 1]);
  for (let i = 0, k = 0; i < a.length && k < b.length;) {
    if (a[i] === b[k]) inBoth[0].add(i++), inBoth[1].add(k++);
    else if (length[i + 1][k] >= length[i][k + 1]) i++;
    else k++;
  }
  return inBoth;
}

function markLines(lines, inBoth, sign, name) {
  return lines.map((line, i) => inBoth === null || inBoth.has(i) ? html("span", {}, "  " + shown(line) + "\n") : html("span", {class: name}, sign + " " + shown(line) + "\n"));
}

function markWords(words, inBoth, name) {
  return words.map((word, i) => html("span", inBoth === null || inBoth.has(i) ? {} : {class: name}, shown(word) + (i + 1 < words.length ? ", " : "")));
}

function schedules(task) {
  const first = task.static, best = task.best;
  const facts = (s) => [`${time(s.median)}, spread ${percent(s.spread)}`, plural(s.measurements, "measurement")].concat(s.predicted ? ["predicted " + time(s.predicted)] : []).join("; ");
  const side = (head, s, kind, own, sign, name) => html("div", {}, html("h3", {}, head),
    html("p", {class: "quiet"}, facts(s)),
    html("p", {}, html("b", {}, s.rule === "" ? "a trace" : shown(s.rule))),
    ...(s.decisions === "" ? [] : [html("p", {class: "decisions"}, ...markWords(s.decisions.split(", "), kind[0] && kind[0][own], name))]),
    s.trace === "" ? html("p", {class: "quiet"}, "No trace is kept.") : html("pre", {tabindex: "0"}, ...markLines(s.trace.trimEnd().split("\n"), kind[1] && kind[1][own], sign, name)));
  if (!first && !best) return [];
  const same = first && best && first.trace === best.trace && first.decisions === best.decisions;
  const both = first && best && !same;
  const parts = both ? [common(first.decisions.split(", "), best.decisions.split(", ")), common(first.trace.trimEnd().split("\n"), best.trace.trimEnd().split("\n"))] : [null, null];
  const shownSides = [];
  if (first) shownSides.push(side(same ? "Static choice, and the best" : "Static choice", first, parts, 0, "−", "only-static"));
  if (best && !same) shownSides.push(side("Best", best, parts, 1, "+", "only-best"));
  return [html("div", {class: "pair"}, ...shownSides)];
}

function convergence(task) {
  const timed = task.points.filter((p) => p[1] !== null), values = timed.map((p) => p[1]);
  if (timed.length === 0) return html("p", {}, "Nothing was timed.");
  const first = timeOf(task.static), lowest = Math.min(...values);
  const usual = Math.max(first || 0, values.slice().sort((a, b) => a - b)[Math.floor(0.9 * (values.length - 1))]);
  const high = Math.max(Math.min(Math.max(...values), 4 * usual), lowest * 1.05) * 1.1;
  const text = `Best after ${plural(task.trials, "trial")}: ${time(timeOf(task.best))}; static choice: ${time(first)}; ${task.failed} failed.`;
  const c = chart(width, 240, {low: 0, high: task.trials + 1, text: digits, name: "trial"}, {low: 0, high, text: time},
                  `Measured seconds of the candidates of ${shown(task.name)}, by trial, and the best so far. ${text}`);
  for (const [number, seconds, , , kind] of task.points) {
    const x = c.px(number);
    if (kind === 2) c.root.append(svg("path", {class: "fail", d: `M${x - 3} ${c.top}l6 6m0 -6l-6 6`}));
    else if (seconds > high) c.root.append(svg("path", {class: "over", d: `M${x - 3} ${c.top + 6}l3 -6l3 6`}));
    else c.root.append(svg("circle", {class: kind === 3 ? "dot unverified" : "dot", cx: x, cy: c.py(seconds), r: 2.3}));
  }
  if (first) {
    c.root.append(svg("line", {class: "static", x1: c.left, x2: c.right, y1: c.py(first), y2: c.py(first)}),
                  svg("text", {class: "static-text", x: c.right - 4, y: c.py(first) - 5, "text-anchor": "end"}, "static choice"));
  }
  const course = [];
  for (const [number, , , best] of task.points)
    if (best !== null && (course.length === 0 || best < course[course.length - 1][1])) course.push([number, best]);
  if (course.length > 0) {
    course.push([task.trials + 1, course[course.length - 1][1]]);
    c.root.append(svg("path", {class: "best", d: steps(course, c.px, c.py)}));
  }
  const key = html("p", {class: "quiet"}, text + (task.failed > 0 ? " Crosses at the top are failures" : "") +
                   (values.some((v) => v > high) ? (task.failed > 0 ? "; " : " ") + "marks like ^ at the top took longer than the chart shows" : "") + (task.failed > 0 || values.some((v) => v > high) ? "." : ""));
  return html("figure", {}, key, c.root);
}

const drawn = new Set();
function drawTask(place, i) {
  if (drawn.has(i)) return;
  drawn.add(i);
  const task = tasks[i];
  const what = [task.dims, task.target, plural(task.threads, "thread"), task.hash.slice(0, 12)].filter((text) => text !== "");
  place.replaceChildren(html("p", {class: "quiet"}, shown(what.join(" · "))), ...(searched(task) === "" ? [] : [html("p", {class: "searched"}, searched(task))]), convergence(task), ...schedules(task),
                        html("details", {class: "numbers"}, html("summary", {}, "Declaration"), html("pre", {tabindex: "0"}, shown(task.declaration))));
}

const OPENED = 3;
function listDetails() {
  fill("details", ...tasks.map((task, i) => {
    const place = html("div", {});
    const outer = html("details", {id: "task-" + i}, html("summary", {}, named(nameOf(task)), html("span", {class: "quiet"}, "  " + times(gainOf(task)) + ", " + plural(task.trials, "trial"))), place);
    outer.addEventListener("toggle", () => outer.open && drawTask(place, i));
    outer.place = place;
    if (i < OPENED) outer.open = true, drawTask(place, i);
    return outer;
  }));
}
function openAll() {
  tasks.forEach((task, i) => {
    const outer = document.getElementById("task-" + i);
    outer.open = true;
    drawTask(outer.place, i);
  });
}
function openNamed() {
  const outer = /^#task-[0-9]+$/.test(location.hash) && document.getElementById(location.hash.slice(1));
  if (outer) outer.open = true;
}

function draw() {
  measure();
  drawLatency();
  drawPredicted();
  drawBusy();
  drawn.clear();
  tasks.forEach((task, i) => {
    const outer = document.getElementById("task-" + i);
    if (outer.open) drawTask(outer.place, i);
  });
}

about();
listTasks();
forecast();
listErrors();
measure();
listDetails();
draw();
openNamed();
window.addEventListener("hashchange", openNamed);
window.addEventListener("beforeprint", openAll);
let waiting = 0;
window.addEventListener("resize", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    const before = width;
    measure();
    if (width !== before) draw();
  }, 150);
});
