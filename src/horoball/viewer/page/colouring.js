// Which points are shown, how strongly and in which colour.

function allowed(i) {
  const column = columns[state.colour];
  return column.kind !== "category" || !state.hidden.has(column.get(i));
}

// How strongly a point is drawn: not at all, faintly beside those that were chosen, or fully.
function strength(i) {
  if (!allowed(i)) return 0;
  const other = state.emphasis >= 0 && columns[state.colour].get(i) !== state.emphasis;
  return other || (state.selected && !state.selected[i]) ? 0.12 : 1;
}

// Colours of all points; done when the colouring changes, never in a frame.
function recolour() {
  const column = columns[state.colour];
  const values = new Uint8Array(4 * n);
  const strong = n > 500000 ? 130 : n > 50000 ? 190 : 225;
  const { lookup, index } = colouring(column);
  for (let k = 0, i = 0; k < n; k++, i = (i + stride) % n) {
    const colour = lookup[index(i)];
    values[4 * k] = colour[0];
    values[4 * k + 1] = colour[1];
    values[4 * k + 2] = colour[2];
    values[4 * k + 3] = Math.round(strong * strength(i));
  }
  const seen = new Uint8Array(EDGE_ROW * Math.ceil(edges.length / 2 / EDGE_ROW));
  for (let k = 0; k < edges.length / 2; k++) {
    seen[k] = Math.round(255 * Math.min(strength(edges[2 * k]), strength(edges[2 * k + 1])));
  }
  renderer.colours(values, seen);
  requestDraw();
}

// A table of colours, and each point's place in it.
function colouring(column) {
  const mode = theme();
  if (column.kind === "category") {
    const lookup = column.categories.map((_, k) => (k === column.missing ? MISSING[mode] : categoryColour(k, mode)));
    return { lookup, index: column.get };
  }
  const [low, high] = rangeOf(column);
  const lookup = Array.from({ length: 256 }, (_, k) => scaleColour(k / 255, mode)).concat([MISSING[mode]]);
  const factor = high > low ? 255 / (high - low) : 0;
  const index = (i) => {
    const x = column.get(i);
    return Number.isFinite(x) ? Math.max(0, Math.min(255, Math.round((x - low) * factor))) : 256;
  };
  return { lookup, index };
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
