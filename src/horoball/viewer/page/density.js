// Contours of the density of points per unit of hyperbolic area: they belong to the points, and move as these do.

const SHARES = [0.95, 0.8, 0.6, 0.35, 0.12]; // of the points that lie within each contour, the outermost first
const DENSITY_ROWS = 3000; // that tell the density, a fair sample
const CELLS = 150; // along the longer side of the grid
const KERNEL_PIXELS = 16; // that a kernel reaches at least

// The kernel at distance d is (1 − sinh²(d/2) / wide)² where that is above 0, on a plane (1 − d² / wide)². Its width follows the distances to near
// neighbors, so that a table of ten groups shows ten hills; levels are densities at the points themselves.
const spreadOf = (distance) => (isFlat ? (distance / reach) ** 2 : Math.sinh(distance / 2) ** 2);
function densityOf() {
  const rows = [];
  for (let k = 0, i = 0; k < n && rows.length < DENSITY_ROWS; k++, i = (i + stride) % n) if (allowed(i)) rows.push(i);
  const spots = rows.slice(0, 250);
  const gaps = spots.map((i) => Float64Array.from(rows, (j) => spreadOf(apart(i, j))));
  const near = Float64Array.from(gaps, (row) => row.slice().sort()[Math.min(rows.length - 1, 4 + Math.round(0.005 * rows.length))]).sort();
  const wide = Math.max(isFlat ? 1e-9 : 1e-4, 8 * near[near.length >> 1]);
  const heights = gaps.map((row) => row.reduce((sum, u) => sum + Math.max(0, 1 - u / wide) ** 2, 0)).sort((a, b) => b - a);
  const levels = SHARES.map((share) => heights[Math.floor(share * (heights.length - 1))]);
  return { rows, wide, levels: levels.filter((level, k) => k === 0 || level > 1.05 * levels[k - 1]) };
}

// The density on a grid over what is seen of the shown disc, a part of a window beyond its edges too.
function densityGrid({ rows, wide }) {
  const margin = 0.15 * size.width;
  const [left, top] = toDisc([-margin, -margin]).map((x) => Math.max(-1, Math.min(1, x)));
  const [right, bottom] = toDisc([size.width + margin, size.height + margin]).map((x) => Math.max(-1, Math.min(1, x)));
  const step = Math.max(right - left, top - bottom, 1e-9) / CELLS;
  const [across, down] = [right - left, top - bottom].map((side) => Math.ceil(side / step) + 1);
  const at = (a, b) => [left + a * step, bottom + b * step];
  const values = new Float64Array(across * down);
  const least = KERNEL_PIXELS / unit();
  const distance = isFlat ? reach * Math.sqrt(wide) : 2 * Math.asinh(Math.sqrt(wide));
  for (const i of rows) {
    const w = shownAt(i);
    const own = circleAround(w, distance);
    const small = own.radius < least; // then points melt together as the eye has it, the more the closer to the rim
    const { center, radius } = small ? { center: w, radius: least } : own;
    const span = (middle, start, count) => [
      Math.max(0, Math.ceil((middle - radius - start) / step)),
      Math.min(count - 1, Math.floor((middle + radius - start) / step)),
    ];
    const [[a0, a1], [b0, b1]] = [span(center[0], left, across), span(center[1], bottom, down)];
    for (let b = b0; b <= b1; b++) {
      const y = bottom + b * step;
      for (let a = a0; a <= a1; a++) {
        const x = left + a * step;
        const rest = isFlat ? 1 : 1 - x * x - y * y;
        const k = 1 - ((x - w[0]) ** 2 + (y - w[1]) ** 2) / (small ? least * least : rest * w[2] * wide);
        if (k > 0 && rest > 0) values[a + across * b] += k * k;
      }
    }
  }
  return { values, across, down, at };
}

// Marching squares: where a level crosses the sides of a cell, joined by straight lines.
function isolines({ values, across, down, at }, level) {
  const lines = [];
  for (let b = 0; b + 1 < down; b++) {
    for (let a = 0; a + 1 < across; a++) {
      const m = a + across * b;
      const above = (values[m] > level) + (values[m + 1] > level) + (values[m + across] > level) + (values[m + across + 1] > level);
      if (above % 4 === 0) continue;
      const corners = [[a, b], [a + 1, b], [a + 1, b + 1], [a, b + 1]];
      const v = corners.map(([x, y]) => values[x + across * y] - level);
      const found = [];
      for (let k = 0; k < 4; k++) {
        const next = (k + 1) % 4;
        if (v[k] > 0 === v[next] > 0) continue;
        const s = v[k] / (v[k] - v[next]);
        found.push(at(...add(corners[k], times(sub(corners[next], corners[k]), s))));
      }
      for (let k = 0; k < found.length; k += 2) lines.push([found[k], found[k + 1]]);
    }
  }
  return lines;
}

// Lines for the view as it is. While it moves they move along; at rest they are made anew, as fine as the screen.
const contours = { rows: "", view: "", g: IDENTITY, levels: [] };
function seenContours(moving = false) {
  const rows = state.hidden.size ? `${state.color}:${[...state.hidden]}` : "all";
  const view = JSON.stringify([rows, state.g, state.zoom, state.offset, size]);
  if (contours.rows !== rows) Object.assign(contours, { rows, density: densityOf(), view: "" });
  if (contours.view !== view && !(moving && contours.view)) {
    const grid = densityGrid(contours.density);
    Object.assign(contours, { view, g: state.g, levels: contours.density.levels.map((level) => isolines(grid, level)) });
  }
  const g = compose(state.g, inverse(contours.g));
  return contours.levels.map((lines) => lines.map((line) => line.map((w) => toScreen(apply(g, w)))));
}

const contourColor = (k) => mix(rgb(palette.branch), rgb(palette.disc), 0.55 - 0.1 * k);

function drawContours(ratio, moving) {
  seenContours(moving).forEach((lines, k) => {
    const corners = [];
    for (const [p, q] of lines) {
      const normal = times([p[1] - q[1], q[0] - p[0]], 1 / Math.max(1e-9, abs(sub(q, p))));
      along(corners, [p, q], [normal, normal], 0.6 + 0.5 / ratio);
    }
    if (corners.length) renderer.strip(corners, contourColor(k).map((x) => x / 255), 0.5 + 0.6 * ratio);
  });
}
