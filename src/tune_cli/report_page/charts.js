// Drawing, without anything of the report: elements, numbers as text, axes.

// Other people's text: what commands a terminal, or turns the direction of what is around it, is shown as its number.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
function shown(text) {
  return text.replace(UNSEEN, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

function make(namespace, name, attributes, children) {
  const element = document.createElementNS(namespace, name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  element.append(...children);
  return element;
}
function html(name, attributes, ...children) {
  return make("http://www.w3.org/1999/xhtml", name, attributes, children);
}
function svg(name, attributes, ...children) {
  return make("http://www.w3.org/2000/svg", name, attributes, children);
}
function fill(id, ...children) {
  document.getElementById(id).replaceChildren(...children);
}
// A name, which may be of any script and direction.
function named(text) {
  return html("bdi", {}, shown(text));
}

function digits(number) {
  return Number(number.toPrecision(3)).toString();
}
function time(seconds) {
  if (seconds === null || !isFinite(seconds)) return "–";
  if (seconds === 0) return "0 s";
  const size = Math.abs(seconds);
  if (size < 0.9995e-6) return digits(seconds * 1e9) + " ns";
  if (size < 0.9995e-3) return digits(seconds * 1e6) + " µs";
  if (size < 0.9995) return digits(seconds * 1e3) + " ms";
  return digits(seconds) + " s";
}
function duration(seconds) {
  if (seconds < 10) return digits(seconds) + " s";
  const whole = Math.round(seconds);
  if (whole < 60) return whole + " s";
  if (whole < 3600) return Math.floor(whole / 60) + " min " + String(whole % 60).padStart(2, "0") + " s";
  return Math.floor(whole / 3600) + " h " + String(Math.floor(whole % 3600 / 60)).padStart(2, "0") + " min";
}
function date(seconds) {
  const at = new Date(seconds * 1000);
  return isNaN(at) ? "–" : at.toISOString().slice(0, 16).replace("T", " ") + " UTC";
}
function percent(part) {
  return part > 0 && part < 0.005 ? "< 1 %" : Math.round(100 * part) + " %";
}
function plural(count, word) {
  return count.toLocaleString("en") + " " + word + (count === 1 ? "" : "s");
}

// Round numbers within [low, high], about `count` of them.
function linearTicks(low, high, count) {
  const rough = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((s) => s * power >= rough * 0.999) * power;
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) ticks.push(i * step);
  return ticks;
}
// Round numbers of a logarithmic axis: where it is short, like those of a linear one.
function logTicks(low, high, count) {
  if (high / low < 8) return linearTicks(low, high, count);
  const ticks = [];
  const steps = high / low < 300 ? [1, 2, 5] : [1];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power++)
    for (const step of steps) if (step * 10 ** power >= low && step * 10 ** power <= high) ticks.push(step * 10 ** power);
  const apart = Math.ceil(ticks.length / 8);
  return ticks.filter((_, i) => i % apart === 0);
}

function scale(axis, from, to) {
  const at = axis.log ? Math.log : (v) => v;
  const low = at(axis.low), size = at(axis.high) - low || 1;
  return (v) => from + (to - from) * (at(v) - low) / size;
}

// Zero is on every axis but a logarithmic one, whose name says so.
function honest(axis) {
  if (axis.log) return {...axis, name: axis.name + " (log scale)"};
  return {...axis, low: Math.min(0, axis.low)};
}

// A frame with two axes, {low, high, log, text, name, count} each, and a text that says what is in it. Returns the
// drawing and where numbers are in it.
function chart(width, height, xGiven, yGiven, label) {
  const x = honest(xGiven), y = honest(yGiven);
  const left = 62, right = 12, top = 12, bottom = 44;
  const root = svg("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label});
  const px = scale(x, left, width - right), py = scale(y, height - bottom, top);
  for (const tick of (y.log ? logTicks : linearTicks)(y.low, y.high, y.count || 5)) {
    root.append(svg("line", {class: "grid", x1: left, x2: width - right, y1: py(tick), y2: py(tick)}),
                svg("text", {x: left - 6, y: py(tick) + 4, "text-anchor": "end"}, y.text(tick)));
  }
  const across = Math.max(2, Math.min(8, Math.floor((width - left) / 90)));
  for (const tick of (x.log ? logTicks : linearTicks)(x.low, x.high, x.count || across)) {
    root.append(svg("line", {class: "axis", x1: px(tick), x2: px(tick), y1: height - bottom, y2: height - bottom + 4}),
                svg("text", {x: px(tick), y: height - bottom + 17, "text-anchor": "middle"}, x.text(tick)));
  }
  root.append(svg("line", {class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom}),
              svg("text", {x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle"}, x.name));
  if (y.name) root.append(svg("text", {x: left + 6, y: top + 10}, y.name));
  return {root, px, py, left, right: width - right, top, bottom: height - bottom};
}

// A line that keeps each value until the next.
function steps(points, px, py) {
  let path = "";
  for (const [x, y] of points)
    path += path === "" ? `M${px(x).toFixed(1)} ${py(y).toFixed(1)}` : `H${px(x).toFixed(1)}V${py(y).toFixed(1)}`;
  return path;
}

// Marks that are told apart without their colours.
const SHAPES = [
  (r) => `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`, (r) => `M${-r} ${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
  (r) => `M0 ${-1.2 * r}L${1.2 * r} ${r}H${-1.2 * r}z`, (r) => `M0 ${-1.4 * r}L${1.4 * r} 0L0 ${1.4 * r}L${-1.4 * r} 0z`,
  (r) => `M0 ${1.2 * r}L${1.2 * r} ${-r}H${-1.2 * r}z`, (r) => `M${-r} ${-r}L${r} ${r}M${-r} ${r}L${r} ${-r}`,
];
function mark(kind, x, y, radius) {
  return svg("path", {class: "mark", d: SHAPES[kind](radius), transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`,
                      fill: `var(--s${kind})`, stroke: `var(--s${kind})`});
}

// A table of rows of texts or elements, which scrolls within itself where it is too wide.
function table(name, heads, rows) {
  return html("div", {class: "wide", role: "region", "aria-label": name, tabindex: "0"},
              html("table", {}, html("thead", {}, html("tr", {}, ...heads.map((h) => html("th", {scope: "col"}, h)))),
                   html("tbody", {}, ...rows.map((row) => html("tr", {}, ...row.map((cell) => html("td", {}, cell)))))));
}
