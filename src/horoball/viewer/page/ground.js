// The disc and its grid, under the points. Curves are cut to what is seen, so that they stay true at any zoom.

// Distances from the origin at which the grid has circles, in the data's units: at most eight.
function gridRadii() {
  const farthest = rangeOf(columns.find((column) => column.own))[1];
  const rough = Math.max(farthest, 1e-6) / 8;
  const power = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = power * [1, 2, 5, 10].find((k) => k * power >= rough);
  return Array.from({ length: Math.min(8, Math.max(1, Math.ceil(farthest / step))) }, (_, k) => (k + 1) * step);
}

// The grid in the shown disc: circles around the origin, and lines through it.
function grid() {
  const origin = place(frame, 0, 0);
  const rings = gridRadii().map((distance) => ({ distance, ...circleAround(origin, distance * rootC) }));
  const spokes = [0, 1, 2, 3, 4, 5].map((k) => {
    if (isFlat) return [0, Math.PI].map((turn) => polar(1, turn + (k * Math.PI) / 6));
    const ends = [0, Math.PI].map((turn) => apply(state.g, polar(1, turn + (k * Math.PI) / 6)));
    return ends.map((end) => times(end, 1 / abs(end)));
  });
  return { rings, spokes };
}

// Angles along a circle in pixels: all of it, or of a large one the part near the window.
function angles(center, radius, from = -Math.PI, to = Math.PI) {
  const reach = Math.hypot(size.width, size.height);
  let [low, high] = [from, to];
  if (radius > 2 * reach) {
    const middle = Math.atan2(size.height / 2 - center[1], size.width / 2 - center[0]);
    const turn = 2 * Math.PI * Math.round(((from + to) / 2 - middle) / (2 * Math.PI));
    low = Math.max(from, middle + turn - reach / radius);
    high = Math.min(to, middle + turn + reach / radius);
    if (low >= high) return [];
  }
  const count = Math.ceil(Math.min(160, Math.max(24, ((high - low) * radius) / 12)));
  return Array.from({ length: count + 1 }, (_, k) => low + ((high - low) * k) / count);
}

// A strip along points, `wide` pixels to both sides; joined to the strip before it by triangles of no area.
function along(corners, places, normals, wide) {
  places.forEach(([x, y], k) => {
    const [nx, ny] = normals[k];
    const pair = [x + nx * wide, y + ny * wide, 1, x - nx * wide, y - ny * wide, -1];
    if (k === 0 && corners.length) corners.push(...corners.slice(-3), pair[0], pair[1], pair[2]);
    corners.push(...pair);
  });
}

function alongCircle(corners, center, radius, wide, from, to) {
  const normals = angles(center, radius, from, to).map((angle) => [Math.cos(angle), Math.sin(angle)]);
  along(corners, normals.map((u) => add(center, times(u, radius))), normals, wide);
}

function alongGeodesic(corners, p, q, wide) {
  const [from, to] = [toScreen(p), toScreen(q)];
  const arc = circleThrough(p, q);
  if (!arc) {
    const normal = times([from[1] - to[1], to[0] - from[0]], 1 / Math.max(1e-9, abs(sub(to, from))));
    return along(corners, [from, to], [normal, normal], wide);
  }
  const center = toScreen(arc.center);
  const start = Math.atan2(from[1] - center[1], from[0] - center[0]);
  const sweep = Math.atan2(to[1] - center[1], to[0] - center[0]) - start;
  const turn = Math.atan2(Math.sin(sweep), Math.cos(sweep)); // a geodesic is never more than half of its circle
  alongCircle(corners, center, arc.radius * unit(), wide, Math.min(start, start + turn), Math.max(start, start + turn));
}

function drawGround(ratio) {
  renderer.clear(parts(isFlat ? palette.disc : palette.ground));
  const [center, radius] = [toScreen([0, 0]), unit()];
  const fill = [];
  for (const angle of angles(center, radius)) {
    const u = [Math.cos(angle), Math.sin(angle)];
    const inner = Math.max(0, radius - 4 * Math.hypot(size.width, size.height));
    fill.push(...add(center, times(u, radius)), 0, ...add(center, times(u, inner)), 0);
  }
  if (fill.length && !isFlat) renderer.strip(fill, parts(palette.disc), 0);
  const { rings, spokes } = grid();
  const lines = [];
  for (const ring of rings) alongCircle(lines, toScreen(ring.center), ring.radius * unit(), 0.5 + 0.5 / ratio);
  for (const [p, q] of spokes) alongGeodesic(lines, p, q, 0.5 + 0.5 / ratio);
  if (lines.length) renderer.strip(lines, parts(palette.grid), 0.5 + 0.5 * ratio);
  const rim = [];
  alongCircle(rim, center, radius, 0.7 + 0.5 / ratio);
  if (rim.length && !isFlat) renderer.strip(rim, parts(palette.rim), 0.5 + 0.7 * ratio);
}
