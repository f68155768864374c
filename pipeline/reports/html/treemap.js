// A treemap of two levels at a time. A click, tap or key opens a tile with parts; the breadcrumb leads back.
const TINTS = 8;
const REST = "(files here and smaller directories)";

// The parts of a node from large to small, then the rest of its value.
function partsOf(node) {
  const parts = node.children.filter((part) => part.value > 0).sort((a, b) => b.value - a.value);
  const rest = node.value - parts.reduce((sum, part) => sum + part.value, 0);
  return { parts, rest: Math.max(0, rest) };
}

function tilesOf(node, box) {
  const { parts, rest } = partsOf(node);
  const tiles = parts.map((part, index) => ({ node: part, value: part.value, tint: index % TINTS }));
  if (rest > 0) tiles.push({ node: null, value: rest, tint: "rest" });
  tiles.sort((a, b) => b.value - a.value);
  const boxes = squarify(tiles.map((tile) => tile.value), box);
  return tiles.map((tile, index) => ({ ...tile, box: boxes[index] }));
}

function drawTreemap(host, chart) {
  const { unit } = chart;
  let trail = [chart.root];
  const crumbs = element(host, "nav", { class: "crumbs", "aria-label": `${chart.title}: where you are` });
  const stage = element(host, "div", { class: "treemap" });
  const canvas = element(stage, "div", { class: "treemap-map" });
  const list = element(stage, "ol", { class: "treemap-list", "aria-label": `${chart.title}: parts` });
  const status = element(host, "p", { class: "unseen", role: "status" });
  let width = 0;

  function nameOf(node, parent) {
    return node ? node.name : parent.children.length ? REST : "(files)";
  }

  function go(next) {
    const inside = stage.contains(document.activeElement) || crumbs.contains(document.activeElement);
    trail = next;
    tip.hide();
    redraw();
    const here = trail[trail.length - 1];
    status.textContent = `${here.name}, ${formatValue(here.value, unit)}, ${here.children.length} parts`;
    if (inside) (list.querySelector("button") || crumbs.querySelector("button"))?.focus({ preventScroll: true });
  }

  function redraw() {
    drawCrumbs();
    drawMap();
    drawList();
  }

  function drawCrumbs() {
    crumbs.replaceChildren();
    trail.forEach((node, depth) => {
      if (depth) element(crumbs, "span", { class: "slash", "aria-hidden": "true" }, "\u203a");
      if (depth === trail.length - 1) {
        element(crumbs, "span", { class: "here", "aria-current": "location" }, node.name);
        return;
      }
      element(crumbs, "button", { type: "button" }, node.name).addEventListener("click", () => go(trail.slice(0, depth + 1)));
    });
    const here = trail[trail.length - 1];
    const share = trail.length > 1 ? ` \u00b7 ${formatShare(here.value, chart.root.value)} of ${chart.root.name}` : "";
    element(crumbs, "span", { class: "crumb-size" }, formatValue(here.value, unit) + share);
  }

  function drawMap() {
    const here = trail[trail.length - 1];
    const height = Math.round(Math.min(520, Math.max(320, width * (width < 560 ? 1.1 : 0.56))));
    canvas.replaceChildren();
    const svg = drawing(canvas, width, height, chart.title, `Areas show how ${here.name} (${formatValue(here.value, unit)}) divides; the list next to it shows the same values.`);
    svg.setAttribute("role", "group");
    for (const tile of tilesOf(here, { x: 0, y: 0, width, height })) drawTile(svg, tile, here);
  }

  function drawTile(svg, tile, here) {
    const { node, box } = tile;
    const name = nameOf(node, here);
    const opens = node !== null && node.children.length > 0;
    const group = element(svg, "g", { class: `tile tint-${tile.tint}${opens ? " opens" : ""}` });
    const inner = { x: box.x + 1, y: box.y + 1, width: Math.max(0.5, box.width - 2), height: Math.max(0.5, box.height - 2) };
    const frame = element(group, "rect", { ...inner, rx: Math.min(4, inner.width / 4, inner.height / 4), class: "mark" });
    const head = inner.height > 22 && inner.width > 40 ? 22 : 0;
    if (opens && head && inner.height > 58 && inner.width > 70) {
      const room = { x: inner.x + 4, y: inner.y + head + 2, width: inner.width - 8, height: inner.height - head - 6 };
      for (const part of tilesOf(node, room)) drawPart(group, part, node, name);
    } else if (inner.height > 44) label(group, inner, formatValue(tile.value, unit), 36, "size", 400);
    if (head) {
      const size = formatValue(tile.value, unit);
      const both = opens && measure(name, 12, 600) + measure(size) + 28 <= inner.width;
      label(group, inner, name, 16, "name", 600);
      if (both && inner.height > 58) element(group, "text", { x: inner.x + inner.width - 7, y: inner.y + 16, class: "size", "text-anchor": "end" }, size);
    }
    const share = formatShare(tile.value, here.value);
    withTip(group, [name, `${formatValue(tile.value, unit)} \u00b7 ${share}`]);
    if (!opens) return;
    group.setAttribute("role", "button");
    group.setAttribute("tabindex", "0");
    group.setAttribute("aria-label", `Open ${name}, ${formatValue(tile.value, unit)}, ${share}`);
    group.addEventListener("click", () => go([...trail, node]));
    group.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      go([...trail, node]);
    });
    frame.setAttribute("pointer-events", "all");
  }

  function drawPart(group, part, parent, parentName) {
    const { box } = part;
    if (box.width < 3 || box.height < 3) return;
    const inner = { x: box.x + 0.75, y: box.y + 0.75, width: box.width - 1.5, height: box.height - 1.5 };
    const own = element(group, "g", { class: part.node ? "part" : "part part-rest" });
    element(own, "rect", { ...inner, rx: 2 });
    const name = nameOf(part.node, parent);
    if (inner.height > 20 && inner.width > 36 && part.node) label(own, inner, name, 14, "part-name", 400, 11);
    if (inner.height > 38 && part.node) label(own, inner, formatValue(part.value, unit), 28, "size", 400, 11);
    own.addEventListener("pointermove", (event) => {
      event.stopPropagation();
      tip.show(event, [`${parentName} \u203a ${name}`, `${formatValue(part.value, unit)} \u00b7 ${formatShare(part.value, parent.value)} of ${parentName}`]);
    });
  }

  function label(group, box, text, down, kind, weight, size = 12) {
    const shown = fitted(text, box.width - 12, size, weight);
    if (shown) element(group, "text", { x: box.x + 7, y: box.y + down, class: kind }, shown);
  }

  function drawList() {
    const here = trail[trail.length - 1];
    list.replaceChildren();
    for (const tile of tilesOf(here, { x: 0, y: 0, width: 1, height: 1 })) {
      const item = element(list, "li");
      const opens = tile.node !== null && tile.node.children.length > 0;
      const row = element(item, opens ? "button" : "div", opens ? { type: "button", class: "part-row" } : { class: "part-row" });
      element(row, "span", { class: `swatch tint-${tile.tint}`, "aria-hidden": "true" });
      element(row, "span", { class: "part-title" }, nameOf(tile.node, here));
      element(row, "span", { class: "part-size" }, formatValue(tile.value, unit));
      element(row, "span", { class: "part-share" }, formatShare(tile.value, here.value));
      if (opens) row.addEventListener("click", () => go([...trail, tile.node]));
    }
  }

  host.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && trail.length > 1) go(trail.slice(0, -1));
  });
  redraw();
  onWidth(canvas, (now) => {
    width = now;
    drawMap();
  });
}
