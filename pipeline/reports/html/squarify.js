// Squarified treemap (Bruls, Huizing, van Wijk 2000): rectangles of areas proportional to `values`, which are positive
// and sorted from large to small. They fill `box` and are as square as this greedy order allows.
function squarify(values, box) {
  const total = values.reduce((sum, value) => sum + value, 0);
  let { x, y, width, height } = box;
  const scale = total > 0 ? (width * height) / total : 0;
  const areas = values.map((value) => value * scale);
  const placed = [];
  let start = 0;
  while (start < areas.length) {
    const side = Math.min(width, height);
    let sum = areas[start];
    let end = start + 1;
    let worst = worstRatio(areas[start], areas[start], sum, side);
    while (end < areas.length) {
      const next = worstRatio(areas[start], areas[end], sum + areas[end], side);
      if (next > worst) break;
      worst = next;
      sum += areas[end];
      end += 1;
    }
    const thickness = end === areas.length ? Math.max(width, height) : side > 0 ? sum / side : 0;
    let along = 0;
    for (let index = start; index < end; index += 1) {
      const length = sum > 0 ? (areas[index] / sum) * side : 0;
      placed.push(
        width >= height
          ? { x, y: y + along, width: thickness, height: length }
          : { x: x + along, y, width: length, height: thickness },
      );
      along += length;
    }
    if (width >= height) {
      x += thickness;
      width = Math.max(0, width - thickness);
    } else {
      y += thickness;
      height = Math.max(0, height - thickness);
    }
    start = end;
  }
  return placed;
}

// The largest aspect ratio in a row, which is that of its largest or smallest rectangle.
function worstRatio(largest, smallest, sum, side) {
  if (sum <= 0 || side <= 0 || smallest <= 0) return Infinity;
  const square = side * side;
  return Math.max((square * largest) / (sum * sum), (sum * sum) / (square * smallest));
}
