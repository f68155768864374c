// Shared by all charts: SVG and HTML elements made from data (never from markup), the tooltip, and redrawing on resize.
const SVG = "http://www.w3.org/2000/svg";

function element(parent, name, attributes = {}, text = null) {
  const made = parent.namespaceURI === SVG || name === "svg" ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  parent.append(made);
  return made;
}

function drawing(parent, width, height, title, description) {
  const svg = element(parent, "svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img" });
  const key = `chart-text-${(drawing.count = (drawing.count || 0) + 1)}`;
  element(svg, "title", { id: `${key}-title` }, title);
  element(svg, "desc", { id: `${key}-desc` }, description);
  svg.setAttribute("aria-labelledby", `${key}-title`);
  svg.setAttribute("aria-describedby", `${key}-desc`);
  return svg;
}

const measure = (() => {
  const context = document.createElement("canvas").getContext("2d");
  return (text, size = 12, weight = 400) => {
    context.font = `${weight} ${size}px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif`;
    return context.measureText(text).width;
  };
})();

// Returns `text` shortened to `width` pixels, or "". A path loses its middle.
function fitted(text, width, size = 12, weight = 400) {
  if (measure(text, size, weight) <= width) return text;
  const path = text.startsWith("/");
  const cut = (length) => {
    const front = path ? Math.floor(length * 0.35) : length;
    return `${text.slice(0, front)}\u2026${front < length ? text.slice(front - length) : ""}`;
  };
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (measure(cut(middle), size, weight) <= width) low = middle;
    else high = middle - 1;
  }
  return low >= 3 ? cut(low) : "";
}

const tip = {
  box: null,
  show(event, lines) {
    if (!this.box) this.box = element(document.body, "div", { class: "tip", "aria-hidden": "true" });
    this.box.replaceChildren();
    lines.forEach((line, index) => element(this.box, index ? "span" : "strong", {}, line));
    this.box.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = this.box;
    const right = event.clientX + 14 + width > document.documentElement.clientWidth;
    const below = event.clientY + 14 + height > window.innerHeight;
    this.box.style.left = `${Math.max(4, right ? event.clientX - width - 10 : event.clientX + 14)}px`;
    this.box.style.top = `${Math.max(4, below ? event.clientY - height - 10 : event.clientY + 14)}px`;
  },
  hide() {
    if (this.box) this.box.hidden = true;
  },
};

function withTip(mark, lines) {
  mark.addEventListener("pointermove", (event) => tip.show(event, lines));
  mark.addEventListener("pointerleave", () => tip.hide());
}

// Calls draw(width) now and whenever the width of the element changes.
function onWidth(target, draw) {
  let last = 0;
  const check = () => {
    const width = Math.floor(target.clientWidth);
    if (width > 0 && width !== last) {
      last = width;
      draw(width);
    }
  };
  check();
  new ResizeObserver(() => requestAnimationFrame(check)).observe(target);
}
