// Histograms as columns if their labels fit, otherwise as rows; bars always as rows.
const ROW = 30;

function drawHistogram(host, chart) {
  const items = chart.bins;
  const labels = Math.max(...items.map((bin) => measure(bin.label)), 30);
  onWidth(host, (width) => {
    host.replaceChildren();
    if ((width - 56) / items.length >= labels + 8) drawColumns(host, chart, items, width);
    else drawRows(host, chart, items, width);
  });
}

function drawBars(host, chart) {
  onWidth(host, (width) => {
    host.replaceChildren();
    drawRows(host, chart, chart.bars, width);
  });
}

function describe(items, unit) {
  const largest = items.reduce((best, item) => (item.value > best.value ? item : best), items[0]);
  return `${items.length} bars; the largest is ${largest.label} with ${formatValue(largest.value, unit)}. All values are in the table below.`;
}

function tipLines(item, items, unit) {
  const total = items.reduce((sum, each) => sum + Math.abs(each.value), 0);
  return [item.label, `${formatValue(item.value, unit)} \u00b7 ${formatShare(Math.abs(item.value), total)}`];
}

function drawColumns(host, chart, items, width) {
  const { unit } = chart;
  const height = 260;
  const scale = ticks(0, Math.max(...items.map((item) => item.value), 1), unit, 4);
  const top = scale[scale.length - 1];
  const left = Math.max(...scale.map((value) => measure(formatTick(value, unit), 11))) + 10;
  const bottom = height - 26;
  const y = (value) => bottom - (value / top) * (bottom - 20);
  const svg = drawing(host, width, height, chart.title, describe(items, unit));
  for (const value of scale) {
    element(svg, "line", { x1: left, x2: width, y1: y(value), y2: y(value), class: value ? "grid" : "axis" });
    element(svg, "text", { x: left - 6, y: y(value) + 4, class: "tick", "text-anchor": "end" }, formatTick(value, unit));
  }
  const slot = (width - left) / items.length;
  const thick = Math.min(64, slot * 0.72);
  items.forEach((item, index) => {
    const middle = left + slot * (index + 0.5);
    const group = element(svg, "g", { class: "column" });
    element(group, "rect", { x: middle - slot / 2, y: 12, width: slot, height: bottom - 12, class: "reach" });
    const tall = item.value > 0 ? Math.max(1, bottom - y(item.value)) : 0;
    if (tall) element(group, "rect", { x: middle - thick / 2, y: bottom - tall, width: thick, height: tall, rx: Math.min(2, tall / 2), class: "mark series-0" });
    const text = formatTick(item.value, unit);
    if (item.value > 0 && measure(text, 11) < slot) element(group, "text", { x: middle, y: bottom - tall - 5, class: "value", "text-anchor": "middle" }, text);
    element(group, "text", { x: middle, y: height - 8, class: "tick", "text-anchor": "middle" }, item.label);
    withTip(group, tipLines(item, items, unit));
  });
}

function drawRows(host, chart, items, width) {
  const { unit } = chart;
  const height = items.length * ROW + 4;
  const names = Math.min(Math.max(...items.map((item) => measure(item.label)), 30) + 4, width * 0.42);
  const room = Math.max(...items.map((item) => measure(formatValue(item.value, unit)))) + 12;
  const low = Math.min(0, ...items.map((item) => item.value));
  const high = Math.max(0, ...items.map((item) => item.value));
  const left = names + 8 + (low < 0 ? room : 0);
  const right = width - (high > 0 ? room : 4);
  const x = (value) => left + ((value - low) / (high - low || 1)) * (right - left);
  const svg = drawing(host, width, height, chart.title, describe(items, unit));
  items.forEach((item, index) => {
    const top = index * ROW + 2;
    const group = element(svg, "g", { class: "row" });
    element(group, "rect", { x: 0, y: top, width, height: ROW, class: "reach" });
    element(group, "text", { x: names, y: top + 19, class: "bar-name", "text-anchor": "end" }, fitted(item.label || "(none)", names));
    const [from, to] = [x(Math.min(0, item.value)), x(Math.max(0, item.value))];
    if (item.value) {
      const wide = Math.max(1.5, to - from);
      element(group, "rect", { x: from, y: top + 6, width: wide, height: ROW - 12, rx: Math.min(2, wide / 2), class: `mark ${item.value < 0 ? "series-1" : "series-0"}` });
    }
    const at = item.value < 0 ? { x: from - 6, "text-anchor": "end" } : { x: to + 6 };
    element(group, "text", { ...at, y: top + 19, class: "value" }, formatValue(item.value, unit));
    withTip(group, tipLines(item, items, unit));
  });
  element(svg, "line", { x1: x(0), x2: x(0), y1: 2, y2: height - 2, class: "axis" });
}
