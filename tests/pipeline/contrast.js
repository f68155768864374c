// Texts that stand out too little from what is behind them (WCAG 2.2, 1.4.3), and how many texts there are.
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const under = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) {
      if (at.classList.contains("part")) layers.push(rgba(getComputedStyle(at.querySelector("rect")).fill));
      else if (at.classList.contains("tile")) layers.push(rgba(getComputedStyle(at.querySelector(".mark")).fill));
      else layers.push(rgba(getComputedStyle(at).backgroundColor));
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !node.checkVisibility() || node.closest("script, style, .unseen, .skip, title, desc")) continue;
    const style = getComputedStyle(node);
    const ground = under(node);
    const ink = over(rgba(node.ownerSVGElement ? style.fill : style.color), ground);
    const [high, low] = [light(ink), light(ground)].sort((a, b) => b - a);
    seen += 1;
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) poor.push(`${ratio.toFixed(2)} ${node.className.baseVal ?? node.className} ${walker.currentNode.textContent.slice(0, 40)}`);
  }
  return { seen, poor };
}
