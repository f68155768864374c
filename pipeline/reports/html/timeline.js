// Time lines: sums over steps as stacked columns, other values as lines. Series beyond `SERIES` are combined as "other".
const SERIES = 6;
const DAY = 86400000;

function totalOf(series) {
  return series.points.reduce((sum, point) => sum + Math.abs(point.value), 0);
}

// Series as {name, values: Map of milliseconds to value}; sums are sorted from large to small.
function prepared(chart) {
  const read = (series) => ({
    name: series.name,
    total: totalOf(series),
    values: new Map(series.points.map((point) => [Date.parse(point.time), point.value])),
  });
  const all = chart.series.map(read);
  if (chart.step === null) return all;
  all.sort((a, b) => b.total - a.total);
  if (all.length <= SERIES + 1) return all;
  const other = { name: `other (${all.length - SERIES})`, total: 0, values: new Map(), other: true };
  for (const series of all.slice(SERIES)) {
    other.total += series.total;
    for (const [time, value] of series.values) other.values.set(time, (other.values.get(time) || 0) + value);
  }
  return [...all.slice(0, SERIES), other];
}

function drawTimeLine(host, chart) {
  const series = prepared(chart);
  const kind = (index) => (series[index].other ? "series-other" : `series-${index % 7}`);
  if (series.length > 1) {
    const legend = element(host, "ul", { class: "legend" });
    series.forEach((each, index) => {
      const item = element(legend, "li");
      element(element(item, "svg", { width: 14, height: 10, "aria-hidden": "true" }), "rect", { width: 14, height: 10, rx: 2, class: kind(index) });
      element(item, "span", {}, each.name);
    });
  }
  const canvas = element(host, "div", { class: "timeline" });
  const stamps = [...new Set(series.flatMap((each) => [...each.values.keys()]))].sort((a, b) => a - b);
  onWidth(canvas, (width) => {
    canvas.replaceChildren();
    drawLines(canvas, chart, series, stamps, kind, width);
  });
}

function drawLines(canvas, chart, series, stamps, kind, width) {
  const { unit } = chart;
  const height = 270;
  const bottom = height - 40;
  const stacked = chart.step !== null;
  const step = stacked ? chart.step * 1000 : 0;
  const at = (each, time) => each.values.get(time) ?? (stacked ? 0 : null);
  const sums = stamps.map((time) => series.reduce((sum, each) => sum + (at(each, time) || 0), 0));
  const known = stacked ? sums : series.flatMap((each) => [...each.values.values()]);
  const high = Math.max(...known, stacked ? 1 : -Infinity);
  const least = Math.min(...known);
  // Lines with small changes would look flat on a scale from 0.
  const low = stacked || least < 0 || least < 0.6 * high ? Math.min(0, least) : least - (high - least || high * 0.01 || 1) * 0.5;
  const scale = ticks(low, high, unit, 4);
  const [floor, top] = [scale[0], scale[scale.length - 1]];
  const left = Math.max(...scale.map((value) => measure(formatTick(value, unit), 11))) + 10;
  const first = stamps[0];
  const last = stamps[stamps.length - 1] + step;
  const right = width - 18;
  const x = (time) => (last > first ? left + ((time - first) / (last - first)) * (right - left) : (left + right) / 2);
  const y = (value) => bottom - ((value - floor) / (top - floor || 1)) * (bottom - 12);
  const text = `${series.length} series from ${formatTime(first)} to ${formatTime(last)} UTC, at most ${formatValue(high, unit)}. All values are in the table below.`;
  const svg = drawing(canvas, width, height, chart.title, text);
  for (const value of scale) {
    element(svg, "line", { x1: left, x2: right, y1: y(value), y2: y(value), class: value === floor ? "axis" : "grid" });
    element(svg, "text", { x: left - 6, y: y(value) + 4, class: "tick", "text-anchor": "end" }, formatTick(value, unit));
  }
  drawTimes(svg, first, last, x, bottom, right - left);
  if (stacked) drawStacks(svg, series, stamps, kind, { x, y, step, at });
  else drawCurves(svg, series, kind, { x, y });
  follow(svg, { stamps, x, left, bottom, step }, (time) => {
    const lines = series.map((each) => [each.name, at(each, time)]).filter(([, value]) => value !== null && (value !== 0 || series.length === 1));
    return [`${formatTime(time)} UTC`, ...lines.map(([name, value]) => `${name}: ${formatValue(value, unit)}`)];
  });
}

function drawStacks(svg, series, stamps, kind, { x, y, step, at }) {
  const slot = x(stamps[0] + step) - x(stamps[0]);
  const gap = slot > 5 ? 1 : 0;
  for (const time of stamps) {
    let base = 0;
    series.forEach((each, index) => {
      const value = at(each, time);
      if (value <= 0) return;
      const from = y(base);
      base += value;
      element(svg, "rect", { x: x(time), y: y(base), width: Math.max(0.5, slot - gap), height: Math.max(0.3, from - y(base)), class: `mark ${kind(index)}` });
    });
  }
}

function drawCurves(svg, series, kind, { x, y }) {
  series.forEach((each, index) => {
    const points = [...each.values].sort((a, b) => a[0] - b[0]).map(([time, value]) => [x(time), y(value)]);
    const path = points.map(([left, top], order) => `${order ? "L" : "M"}${left.toFixed(1)} ${top.toFixed(1)}`).join("");
    element(svg, "path", { d: path, class: `mark line ${kind(index)}` });
    if (points.length > 40) return;
    for (const [left, top] of points) element(svg, "circle", { cx: left, cy: top, r: 3, class: `mark dot ${kind(index)}` });
  });
}

// Marks at midnight, or at hours for a range of less than three days.
function drawTimes(svg, first, last, x, bottom, room) {
  const hours = [1, 2, 3, 6, 12].map((count) => count * 3600000);
  const days = [1, 2, 7, 14, 30, 91, 182, 365].map((count) => count * DAY);
  const most = Math.max(2, Math.floor(room / 64));
  const every = [...(last - first < 3 * DAY ? hours : []), ...days].find((step) => (last - first) / step <= most) || 730 * DAY;
  let day = "";
  for (let time = Math.ceil(first / every) * every; time <= last; time += every) {
    const left = x(time);
    element(svg, "line", { x1: left, x2: left, y1: bottom, y2: bottom + 4, class: "axis" });
    const clock = every < DAY;
    const main = clock ? formatTime(time, false) : formatTime(time, true, false).slice(5);
    element(svg, "text", { x: left, y: bottom + 17, class: "tick", "text-anchor": "middle" }, main);
    const under = clock ? formatTime(time, true, false).slice(5) : formatTime(time, true, false).slice(0, 4);
    if (under !== day) element(svg, "text", { x: left, y: bottom + 32, class: "tick strong", "text-anchor": "middle" }, under);
    day = under;
  }
}

// The values at the time under the pointer.
function follow(svg, { stamps, x, left, bottom, step }, linesAt) {
  const cross = element(svg, "line", { y1: 8, y2: bottom, class: "cross", visibility: "hidden" });
  svg.addEventListener("pointermove", (event) => {
    const along = event.clientX - svg.getBoundingClientRect().left;
    const middle = (time) => (x(time) + x(time + step)) / 2;
    const near = stamps.reduce((best, time) => (Math.abs(middle(time) - along) < Math.abs(middle(best) - along) ? time : best), stamps[0]);
    if (along < left - 20) return;
    for (const end of ["x1", "x2"]) cross.setAttribute(end, middle(near));
    cross.setAttribute("visibility", "visible");
    tip.show(event, linesAt(near));
  });
  svg.addEventListener("pointerleave", () => {
    cross.setAttribute("visibility", "hidden");
    tip.hide();
  });
}
