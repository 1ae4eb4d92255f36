// The map as a picture: PNG as it is seen, at twice the size; SVG with true circles and arcs.

function legendRows() {
  const column = columns[state.color];
  if (column.kind !== "category") return null;
  const { lookup } = coloring(column);
  return column.categories.flatMap((name, k) => (state.hidden.has(k) ? [] : [{ name, color: css(lookup[k]) }])).slice(0, 24);
}

const short = (text) => (text.length > 26 ? `${text.slice(0, 25)}…` : text);
const MARGIN = 200; // pixels right of the map for the legend

function exportPng() {
  const ratio = 2;
  const sheet = make("canvas");
  sheet.width = (size.width + MARGIN) * ratio;
  sheet.height = size.height * ratio;
  const context = sheet.getContext("2d");
  context.fillStyle = palette.ground;
  context.fillRect(0, 0, sheet.width, sheet.height);
  const layers = [() => drawMap(ratio), () => drawOver(flat(canvases.over), ratio)];
  Object.values(canvases).forEach((canvas, k) => {
    const { width, height } = canvas;
    canvas.width = size.width * ratio;
    canvas.height = size.height * ratio;
    // Copied at once: WebGL gives its picture away at the end of the task.
    layers[k]();
    context.drawImage(canvas, 0, 0);
    canvas.width = width;
    canvas.height = height;
  });
  draw();
  context.scale(ratio, ratio);
  const write = (text, x, y, font, color) => {
    context.font = `${font} system-ui, sans-serif`;
    context.fillStyle = color;
    context.fillText(text, x, y);
  };
  write(meta.title, 20, 32, "600 18px", palette.ink);
  write(columns[state.color].name, size.width + 8, 60, "600 12px", palette.ink);
  const rows = legendRows();
  if (rows) {
    rows.forEach(({ name, color }, k) => {
      context.fillStyle = color;
      context.beginPath();
      context.arc(size.width + 13, 78 + 20 * k, 5, 0, 2 * Math.PI);
      context.fill();
      write(short(name), size.width + 26, 82 + 20 * k, "12px", palette.ink);
    });
  } else {
    const [{ said }, range] = [columns[state.color], rangeOf(columns[state.color])];
    for (let k = 0; k < 160; k++) {
      context.fillStyle = css(scaleColor(k / 159, theme()));
      context.fillRect(size.width + 8 + k, 70, 1.5, 10);
    }
    write(said(range[0]), size.width + 8, 96, "11px", palette.muted);
    write(said(range[1]), size.width + 140, 96, "11px", palette.muted);
  }
  sheet.toBlob((blob) => download(fileName("png"), blob), "image/png");
}

function exportSvg() {
  download(fileName("svg"), new Blob([svg()], { type: "image/svg+xml" }));
}

const round = (x) => Math.round(x * 100) / 100;
const pair = (w) => toScreen(w).map(round).join(" ");

function arcPath(p, q) {
  const arc = circleThrough(p, q);
  if (!arc) return `M${pair(p)}L${pair(q)}`;
  const [u, v, r] = [sub(p, arc.center), sub(q, arc.center), round(arc.radius * unit())];
  // y points down on paper, so a turn to the left in the disc is SVG's sweep 0.
  return `M${pair(p)}A${r} ${r} 0 0 ${u[0] * v[1] - u[1] * v[0] > 0 ? 0 : 1} ${pair(q)}`;
}

// Built as nodes, so that names are escaped by the serializer.
function svg() {
  const SPACE = "http://www.w3.org/2000/svg";
  const node = (parent, tag, attributes, text) => {
    const made = document.createElementNS(SPACE, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    // XML has no place for control characters and half surrogate pairs.
    if (text !== undefined) made.textContent = text.toWellFormed().replace(/[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/g, "\ufffd");
    parent.append(made);
    return made;
  };
  const [width, height] = [Math.round(size.width + MARGIN), Math.round(size.height)];
  const root = document.createElementNS(SPACE, "svg");
  const about = { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "system-ui, sans-serif" };
  for (const [name, value] of Object.entries(about)) root.setAttribute(name, value);
  node(root, "title", {}, meta.title || MAP);
  node(root, "rect", { width, height, fill: isFlat ? palette.disc : palette.ground });
  const disc = (parent, center, radius, paint) => {
    const [cx, cy] = toScreen(center).map(round);
    node(parent, "circle", { cx, cy, r: round(radius * unit()), ...paint });
  };
  if (!isFlat) disc(root, [0, 0], 1, { fill: palette.disc, stroke: palette.rim, "stroke-width": 1.25 });
  const clip = node(node(root, "defs", {}), "clipPath", { id: "disc" });
  disc(clip, [0, 0], 1, {});
  const inner = node(root, "g", { ...(isFlat ? {} : { "clip-path": "url(#disc)" }), fill: "none" });
  const { rings, spokes } = grid();
  for (const ring of rings) disc(inner, ring.center, ring.radius, { stroke: palette.grid });
  node(inner, "path", { d: spokes.map(([p, q]) => arcPath(p, q)).join(""), stroke: palette.grid });
  if (state.density) {
    seenContours().forEach((lines, k) => {
      const d = lines.map(([p, q]) => `M${p.map(round).join(" ")}L${q.map(round).join(" ")}`).join("");
      node(inner, "path", { d, stroke: css(contourColor(k)), "stroke-linecap": "round" });
    });
  }
  if (state.edges && edges.length) {
    const paths = [];
    for (let k = 0; k < edges.length; k += 2) {
      if (!allowed(edges[k]) || !allowed(edges[k + 1])) continue;
      paths.push(arcPath(shownAt(edges[k]), shownAt(edges[k + 1])));
    }
    node(inner, "path", { d: paths.join(""), stroke: palette.muted, "stroke-opacity": 0.4, "stroke-width": 0.75 });
  }
  if (clades && state.skeleton) {
    for (const { v, from, to } of seenBranches()) {
      const paint = { stroke: tint.css[v], "stroke-opacity": tint.strong[v] ? 1 : 0.25, "stroke-width": widthOf(v, 9) };
      node(inner, "path", { d: arcPath(from, to), ...paint });
    }
  }
  // Points of one color and nearly one size are one path: a dot is a line of no length with a round end.
  const { lookup, index } = coloring(columns[state.color]);
  const groups = new Map();
  for (let i = 0; i < n; i++) {
    if (!allowed(i)) continue;
    const w = shownAt(i);
    const faint = state.selected && !state.selected[i] ? 0.1 : 0.85;
    const wide = Math.round(4 * pointSize() * Math.max(0.4, Math.sqrt(w[2]))) / 4;
    const key = `${css(lookup[index(i)])}|${wide}|${faint}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(`M${pair(w)}h0`);
  }
  const dots = node(root, "g", { fill: "none", "stroke-linecap": "round" });
  for (const [key, places] of groups) {
    const [stroke, wide, opacity] = key.split("|");
    node(dots, "path", { d: places.join(""), stroke, "stroke-width": wide, "stroke-opacity": opacity });
  }
  for (const { text, x, y, height } of state.names ? placedNames(flat(canvases.over)) : []) {
    const paint = { fill: palette.ink, stroke: palette.disc, "stroke-width": 3, "paint-order": "stroke", "font-weight": 600 };
    node(root, "text", { x: round(x), y: round(y), "font-size": height, "text-anchor": "middle", ...paint }, text);
  }
  node(root, "text", { x: 20, y: 32, "font-size": 18, "font-weight": 600, fill: palette.ink }, meta.title);
  const x = Math.round(size.width) + 8;
  node(root, "text", { x, y: 60, "font-size": 12, "font-weight": 600, fill: palette.ink }, columns[state.color].name);
  (legendRows() || rangeRows()).forEach(({ name, color }, k) => {
    node(root, "circle", { cx: x + 5, cy: 78 + 20 * k, r: 5, fill: color });
    node(root, "text", { x: x + 18, y: 82 + 20 * k, "font-size": 12, fill: palette.ink }, short(name));
  });
  return new XMLSerializer().serializeToString(root);
}

// Five values of a scale, for a legend of dots.
function rangeRows() {
  const column = columns[state.color];
  const [low, high] = rangeOf(column);
  return [0, 1, 2, 3, 4].map((k) => ({
    name: column.said(low + ((high - low) * k) / 4),
    color: css(scaleColor(k / 4, theme())),
  }));
}
