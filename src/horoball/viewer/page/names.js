// Names of groups on the map, as many as fit: coarse ones from afar, finer ones as the map comes closer.

const SAMPLE = 40; // rows that tell where a group is densest and how far it reaches

// The groups of a column of categories: a row where each is densest, to write the name at, and how far it reaches.
function groupsOf(column) {
  if (column.groups) return column.groups;
  const groups = column.categories.map((name, k) => ({ name, k, count: 0, sum: [0, 0], rows: [], anchor: -1, spread: 0 }));
  const klein = (i) => polar(isFlat ? radii[i] / reach : Math.tanh(radii[i]), angleOf(i)); // where straight lines are straight, and means make sense
  for (let i = 0; i < n; i++) {
    const group = groups[column.get(i)];
    group.sum = add(group.sum, klein(i));
    group.count++;
  }
  for (let k = 0, i = 0; k < n; k++, i = (i + stride) % n) {
    const group = groups[column.get(i)];
    if (group.rows.length < SAMPLE) group.rows.push(i);
  }
  column.groups = groups.filter((group) => group.count && group.k !== column.missing).sort((a, b) => b.count - a.count);
  column.groups.forEach(settle);
  return column.groups;
}

// Levels from coarse to fine: those that were given, otherwise the categories of the coloring.
function namedColumns() {
  if (meta.levels) return meta.levels.map((k) => columns[k]);
  const column = columns[state.color];
  return column.kind === "category" && column.categories.length > 1 && column.categories.length <= 200 ? [column] : [];
}

// The distance of two rows, in units of the disc of curvature −1.
function apart(i, j) {
  if (isFlat) return abs(sub(polar(radii[i], angleOf(i)), polar(radii[j], angleOf(j))));
  const [a, b] = [Math.min(radii[i], 300), Math.min(radii[j], 300)];
  const [gap, turn] = [Math.sinh((a - b) / 2), Math.sin((angleOf(i) - angleOf(j)) / 2)];
  return 2 * Math.asinh(Math.sqrt(gap * gap + Math.sinh(a) * Math.sinh(b) * turn * turn));
}

// A group may lie in several places: its name goes to the row with the nearest third of the others.
function settle(group) {
  let least = Infinity;
  for (const i of group.rows) {
    const gaps = group.rows.map((j) => apart(i, j)).sort((a, b) => a - b);
    const third = gaps[Math.floor(gaps.length / 3)];
    if (third < least) [least, group.anchor, group.spread] = [third, i, gaps[gaps.length >> 1]];
  }
}

// The names that fit, none over another; larger groups first, coarser levels before finer ones.
function placedNames(context) {
  const levels = namedColumns();
  const [taken, placed] = [[], []];
  levels.forEach((column, level) => {
    const height = Math.max(11, 16 - 2 * level - (levels.length === 1 ? 2 : 0));
    const font = `${level === 0 ? 650 : 550} ${height}px system-ui, sans-serif`;
    context.font = font;
    for (const group of groupsOf(column)) {
      if (!allowed(group.anchor)) continue;
      const w = shownAt(group.anchor);
      const [x, y] = toScreen(w);
      if (x < 0 || y < 0 || x > size.width || y > size.height) continue;
      const reach = circleAround(w, group.spread).radius * unit();
      // A group that is a speck has no room for its name; one that fills the window needs none, if finer ones follow.
      if (reach < (level === 0 ? 4 : 14) || (level < levels.length - 1 && reach > size.radius)) continue;
      const text = short(group.name);
      const half = context.measureText(text).width / 2 + 4;
      const at = Math.max(half, Math.min(size.width - half, x)); // whole, at the edge of the window too
      const box = [at - half, y - height * 0.7, at + half, y + height * 0.7];
      if (taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) continue;
      taken.push(box);
      placed.push({ text, x: at, y: y + height * 0.35, font, height, box, column, k: group.k });
    }
  });
  return placed;
}

let labels = []; // as drawn last
function drawGroupNames(context) {
  context.save();
  labels = placedNames(context);
  context.textAlign = "center";
  context.lineWidth = 4;
  for (const { text, x, y, font } of labels) {
    context.font = font;
    context.globalAlpha = 0.85;
    context.strokeStyle = palette.disc;
    context.strokeText(text, x, y);
    context.globalAlpha = 1;
    context.fillStyle = palette.ink;
    context.fillText(text, x, y);
  }
  context.restore();
}
