// Which points are shown, how strongly and in which color.

function allowed(i) {
  const column = columns[state.color];
  return column.kind !== "category" || !state.hidden.has(column.get(i));
}

// How strongly a point is drawn: not at all, faintly beside those that were chosen, or fully.
function strength(i, lit = state.lit) {
  if (!allowed(i)) return 0;
  const other = state.emphasis >= 0 && columns[state.color].get(i) !== state.emphasis;
  const unlit = lit && (clades.placeOf[i] < lit[0] || clades.placeOf[i] >= lit[1]);
  return other || unlit || (state.selected && !state.selected[i]) ? 0.12 : 1;
}

// Colors of all points and branches; done when the coloring changes, never in a frame.
function recolor() {
  if (clades) {
    colorBranches();
    requestTree();
  }
  recolorDisc();
}

function recolorDisc() {
  if (!renderer) return;
  const column = columns[state.color];
  const values = new Uint8Array(4 * n);
  const strong = n > 500000 ? 130 : n > 50000 ? 190 : 225;
  const { lookup, index } = coloring(column);
  for (let k = 0, i = 0; k < n; k++, i = (i + stride) % n) {
    const color = lookup[index(i)];
    values[4 * k] = color[0];
    values[4 * k + 1] = color[1];
    values[4 * k + 2] = color[2];
    values[4 * k + 3] = Math.round(strong * strength(i));
  }
  const seen = new Uint8Array(EDGE_ROW * Math.ceil(edges.length / 2 / EDGE_ROW));
  for (let k = 0; k < edges.length / 2; k++) {
    seen[k] = Math.round(255 * Math.min(strength(edges[2 * k]), strength(edges[2 * k + 1])));
  }
  renderer.colors(values, seen);
  requestDraw();
}

// A table of colors, and each point's place in it.
function coloring(column) {
  const mode = theme();
  if (column.kind === "category") {
    const color = column.categories.length > LISTED && hasDisc ? turnColors(column, mode) : (k) => categoryColor(k, mode);
    const lookup = column.categories.map((_, k) => (k === column.missing ? MISSING[mode] : color(k)));
    return { lookup, index: column.get };
  }
  const [low, high] = rangeOf(column);
  const lookup = Array.from({ length: 256 }, (_, k) => scaleColor(k / 255, mode)).concat([MISSING[mode]]);
  const factor = high > low ? 255 / (high - low) : 0;
  const index = (i) => {
    const x = column.get(i);
    return Number.isFinite(x) ? Math.max(0, Math.min(255, Math.round((x - low) * factor))) : 256;
  };
  return { lookup, index };
}

// More categories than can be told apart by color: hues go round the disc, so that groups of one branch look related.
function turnColors(column, mode) {
  const groups = [...groupsOf(column)].sort((a, b) => Math.atan2(a.sum[1], a.sum[0]) - Math.atan2(b.sum[1], b.sum[0]));
  const rank = new Map(groups.map((group, place) => [group.k, place]));
  return (k) => hueColor((360 * (rank.get(k) ?? 0)) / groups.length, (rank.get(k) ?? 0) % 3, mode);
}

// From the lowest to the highest finite value; kept, since it takes a pass over the column.
function rangeOf(column) {
  if (!column.range) {
    let [low, high] = [Infinity, -Infinity];
    for (let i = 0; i < n; i++) {
      const x = column.get(i);
      if (!Number.isFinite(x)) continue;
      if (x < low) low = x;
      if (x > high) high = x;
    }
    column.range = low <= high ? [low, high] : [0, 0];
  }
  return column.range;
}
