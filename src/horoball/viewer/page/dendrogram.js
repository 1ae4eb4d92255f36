// The drawing of the tree: depth to the right, ends from top to bottom. Only what is larger than a pixel is drawn.

const pane = element("tree");
const sheetsOfTree = { lines: element("branches"), over: element("marks") };
// What is shown: from top to bottom in the units of `shape`, and past which part of the depth.
const window_ = { low: 0, high: 1, past: 0 };
const plot = { width: 1, height: 1, ratio: 1, left: 22, right: 1, top: 54, bottom: 1, reach: 1, names: 0 };

const LEAST = 1.5; // pixels below which a branch is drawn as one line
const READABLE = 11; // pixels that a name needs

const unitOf = () => (plot.bottom - plot.top) / (window_.high - window_.low);
const across = (depth) => {
  const part = ((depth - clades.depth[clades.root]) / plot.reach - window_.past) / (1 - window_.past);
  return Math.max(-20, plot.left + part * (plot.right - plot.left));
};
const down = (u) => plot.top + (u - window_.low) * unitOf();
const unitAt = (y) => window_.low + (y - plot.top) / unitOf();
const clampY = (y) => Math.max(plot.top - 20, Math.min(plot.bottom + 20, y));

// Rows in steps of their logarithm, so that one more row is not drawn and a tenfold is; never wider than its room.
function widthOf(v, room) {
  const most = Math.log2(Math.max(2, clades.rows[clades.root]));
  const wide = 1 + (3.5 * Math.log2(Math.max(1, clades.rows[v]))) / most;
  return Math.max(1, Math.round(2 * Math.min(wide, room / 2)) / 2);
}

function resizeTree() {
  const box = pane.getBoundingClientRect();
  plot.width = Math.max(1, box.width);
  plot.height = Math.max(1, box.height);
  plot.ratio = Math.min(2, window.devicePixelRatio || 1);
  plot.bottom = Math.max(plot.top + 10, plot.height - 30);
  plot.right = Math.max(plot.left + 40, plot.width - plot.names - 26);
  plot.reach = clades.deepest[clades.root] - clades.depth[clades.root] || 1;
  for (const canvas of Object.values(sheetsOfTree)) {
    canvas.width = Math.round(plot.width * plot.ratio);
    canvas.height = Math.round(plot.height * plot.ratio);
  }
  requestTree();
}

const NAME_FONT = "11px system-ui, sans-serif";

// Room for names: as wide as a sample of them and the categories need, within limits.
function measureNames() {
  const context = flat(sheetsOfTree.lines);
  context.font = NAME_FONT;
  const step = Math.max(1, Math.floor(clades.leaves / 200));
  const sample = columns.flatMap((column) => (column.kind === "category" ? column.categories.slice(0, 30) : []));
  for (let v = 0; v < clades.leaves; v += step) sample.push(clades.nameOf(v));
  plot.names = Math.min(130, Math.max(46, ...sample.map((name) => context.measureText(name.slice(0, 40)).width)));
}

// A text that is too long for a width ends in an ellipsis.
function fitted(context, text, width) {
  if (text.length <= 60 && context.measureText(text).width <= width) return text;
  let shown = text.slice(0, 60);
  while (shown && context.measureText(`${shown}…`).width > width) shown = shown.slice(0, -1);
  return `${shown}…`;
}

let waitingTree = 0;
let linesToo = false;
function requestTree(lines = true) {
  linesToo ||= lines;
  waitingTree ||= requestAnimationFrame(() => {
    waitingTree = 0;
    if (pane.hidden) return;
    if (linesToo) drawLines(flat(sheetsOfTree.lines), plot.ratio);
    linesToo = false;
    drawMarks(flat(sheetsOfTree.over), plot.ratio);
  });
}

// Calls `visit` for each node in the window, with the pixels of its room; below one that returns false it does not go.
function walk(visit) {
  const { order, end, low, high, y, up } = shape;
  for (let k = 0; k < shape.count; ) {
    const v = order[k];
    const [top, bottom] = [down(low[v]), down(high[v])];
    const from = up[v] < 0 ? top : down(y[up[v]]);
    const seen = Math.max(bottom, from) >= plot.top && Math.min(top, from) <= plot.bottom;
    const inside = seen && visit(v, top, bottom) && bottom >= plot.top && top <= plot.bottom;
    k = inside ? k + 1 : end[v];
  }
}

const corner = (v) => [across(clades.depth[v]), clampY(down(shape.y[v]))];

// From the parent's place down or up, then right: the branch of a node.
function elbow(path, v, from = shape.up[v] < 0 ? [corner(v)[0] - 10, corner(v)[1]] : corner(shape.up[v]), to = corner(v)) {
  path.moveTo(...from);
  path.lineTo(from[0], to[1]);
  path.lineTo(...to);
}

function drawLines(context, ratio) {
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, plot.width, plot.height);
  context.save();
  context.beginPath();
  context.rect(0, plot.top - 8, plot.width, plot.bottom - plot.top + 16);
  context.clip();
  context.lineCap = "butt";
  context.lineJoin = "miter";
  const styles = new Map(); // branches of one look are one path
  const labels = [];
  const strips = [];
  const triangles = [];
  const drawnTo = new Array(clades.nodes); // the last corner drawn on the way to a node: steps of less than a pixel are taken together
  let [line, start] = [-1, Infinity]; // the line of pixels that a small branch was last drawn in, and from where
  walk((v, top, bottom) => {
    const small = bottom - top < LEAST;
    if (small) {
      const [now, from] = [Math.floor(top * ratio), across(clades.depth[shape.up[v]])];
      if (now === line && from >= start) return false; // a line that is already there
      [line, start] = [now, from];
    }
    const end = small || isEnd(v);
    const [from, to] = [drawnTo[shape.up[v]], small ? [across(clades.deepest[v]), corner(v)[1]] : corner(v)];
    const step = from ? Math.abs(to[0] - from[0]) + Math.abs(to[1] - from[1]) : 1;
    drawnTo[v] = step < 1 ? from : to;
    if (step < 1 && !end) return true;
    const weak = isChance(v);
    const wide = widthOf(v, bottom - top);
    const key = `${tint.strong[v]}${weak ? "-" : "="}${tint.css[v]}|${wide}`;
    if (!styles.has(key)) styles.set(key, { path: new Path2D(), v, wide, weak });
    elbow(styles.get(key).path, v, from, to);
    if (end) {
      strips.push([v, top, bottom]);
      if (v >= clades.leaves && !small) triangles.push([v, top, bottom]);
    }
    if (clades.support && isInner(v) && !weak && !small) labels.push([v, top]);
    return !end;
  });
  const looks = [...styles.values()].sort((a, b) => tint.strong[a.v] - tint.strong[b.v] || b.wide - a.wide);
  for (const { path, v, wide, weak } of looks) {
    context.strokeStyle = tint.css[v];
    context.globalAlpha = (tint.strong[v] ? 1 : 0.16) * (weak ? 0.75 : 1);
    context.lineWidth = wide;
    context.setLineDash(weak ? [3, 2] : []);
    context.stroke(path);
  }
  context.setLineDash([]);
  context.lineCap = "round";
  for (const [v, top, bottom] of triangles) {
    context.beginPath();
    context.moveTo(across(clades.depth[v]), down(shape.y[v]));
    context.lineTo(across(clades.deepest[v]), top + 1);
    context.lineTo(across(clades.deepest[v]), bottom - 1);
    context.closePath();
    context.fillStyle = tint.css[v];
    context.globalAlpha = tint.strong[v] ? 0.55 : 0.12;
    context.fill();
  }
  for (const [v, top, bottom] of strips) {
    context.fillStyle = tint.css[v];
    context.globalAlpha = tint.strong[v] ? 1 : 0.16;
    const gap = bottom - top > 6 ? 0.5 : 0;
    context.fillRect(plot.right + 5, top + gap, 6, Math.max(0.75, bottom - top - 2 * gap));
  }
  context.globalAlpha = 1;
  drawNames(context, strips);
  drawSupport(context, labels);
  context.restore();
  drawAxis(context);
}

// Names of the ends where they can be read; elsewhere the category of the largest branches that are nearly all of it.
function drawNames(context, ends) {
  const write = (text, top, bottom, strong) => {
    context.globalAlpha = strong ? 1 : 0.3;
    const place = (Math.max(top, plot.top) + Math.min(bottom, plot.bottom)) / 2; // of the part in sight
    if (Math.min(bottom, plot.bottom) - Math.max(top, plot.top) < READABLE / 2) return;
    context.fillText(fitted(context, text, plot.width - plot.right - 22), plot.right + 16, place);
  };
  context.font = NAME_FONT;
  context.textBaseline = "middle";
  context.fillStyle = palette.ink;
  const column = columns[state.color];
  const readable = unitOf() >= READABLE;
  if (readable) {
    context.strokeStyle = palette.line;
    context.lineWidth = 1;
    context.beginPath();
    for (const [v, top, bottom] of ends) {
      const [x, y] = [across(clades.deepest[v]) + 3, Math.round((top + bottom) / 2) + 0.5];
      if (x >= plot.right - 4) continue;
      context.moveTo(x, y); // from an end that lies less deep than others to its name
      context.lineTo(plot.right, y);
    }
    context.stroke();
  }
  const caption = (v) => {
    const many = clades.rows[v].toLocaleString("en-GB");
    return column.kind === "category" && tint.share[v] > 0.5 ? `${column.categories[tint.top[v]]} (${many})` : `${many} rows`;
  };
  for (const [v, top, bottom] of ends) {
    if (v >= clades.leaves ? bottom - top >= READABLE : readable) write(v < clades.leaves ? clades.nameOf(v) : caption(v), top, bottom, tint.strong[v]);
  }
  if (!readable && column.kind === "category") {
    walk((v, top, bottom) => {
      if (bottom - top < READABLE + 3 || isEnd(v)) return false;
      if (tint.share[v] < 0.8) return true;
      write(column.categories[tint.top[v]], top, bottom, tint.strong[v]);
      return false;
    });
  }
  context.globalAlpha = 1;
}

// A number stands over a branch that is long enough for it and has room above.
function drawSupport(context, branches) {
  context.font = "10px system-ui, sans-serif";
  context.textBaseline = "alphabetic";
  context.textAlign = "right";
  context.fillStyle = palette.muted;
  for (const [v, top] of branches) {
    const [y, x] = [down(shape.y[v]), across(clades.depth[v])];
    if (y - top < 15 || y < plot.top || y > plot.bottom || x - across(clades.depth[shape.up[v]]) < 30) continue;
    context.globalAlpha = tint.strong[v] ? 1 : 0.3;
    context.fillText(clades.support[v].toFixed(2), x - 3, y - 4);
  }
  context.globalAlpha = 1;
  context.textAlign = "left";
}

function drawAxis(context) {
  const y = plot.bottom + 9;
  const start = clades.depth[clades.root] + plot.reach * window_.past;
  const reach = plot.reach * (1 - window_.past);
  const rough = reach / Math.max(2, (plot.right - plot.left) / 90);
  const power = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = power * [1, 2, 5, 10].find((k) => k * power >= rough);
  context.strokeStyle = palette.rim;
  context.fillStyle = palette.muted;
  context.font = "10px system-ui, sans-serif";
  context.textBaseline = "top";
  context.textAlign = "center";
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(plot.left, y);
  context.lineTo(plot.right, y);
  for (let k = Math.ceil(start / step - 1e-9); k * step <= start + reach * (1 + 1e-9); k++) {
    const x = across(k * step);
    context.moveTo(x, y);
    context.lineTo(x, y + 3);
    context.fillText(formatted(Number((k * step).toPrecision(12))), x, y + 6);
  }
  context.stroke();
  context.textAlign = "left";
  context.fillText("depth", plot.right + 16, y + 6);
}

// Over the lines: the branch under the pointer or at hand, the paths to rows, what was found, what part is seen.
function drawMarks(context, ratio) {
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, plot.width, plot.height);
  context.save();
  context.beginPath();
  context.rect(0, plot.top - 8, plot.width, plot.bottom - plot.top + 16);
  context.clip();
  context.lineJoin = context.lineCap = "round";
  context.strokeStyle = context.fillStyle = palette.accent;
  for (const v of new Set([state.kept, state.branch])) {
    if (v < 0) continue;
    const [s, x] = [shownNode(v), across(clades.depth[shownNode(v)])];
    const [top, bottom] = [clampY(down(shape.low[s])), clampY(down(shape.high[s]))];
    context.globalAlpha = v === state.branch ? 0.13 : 0.08;
    context.fillRect(x, top, plot.width - x, Math.max(1, bottom - top));
    context.globalAlpha = 1;
    context.lineWidth = widthOf(s, bottom - top) + 1;
    context.beginPath();
    elbow(context, s);
    context.stroke();
  }
  for (const i of new Set([state.pinned, state.hover])) {
    if (i < 0) continue;
    context.lineWidth = 2;
    context.beginPath();
    for (let v = shownNode(clades.leafOf(i)); v >= 0; v = shape.up[v]) elbow(context, v);
    context.stroke();
    dot(context, shownNode(clades.leafOf(i)), 4);
  }
  context.fillStyle = palette.ink;
  for (const i of state.found) dot(context, shownNode(clades.leafOf(i)), 2.5);
  context.restore();
  const seen = (window_.high - window_.low) / shape.total;
  if (seen > 0.999) return;
  const room = plot.bottom - plot.top;
  context.fillStyle = palette.rim;
  context.fillRect(plot.width - 5, plot.top + (room * window_.low) / shape.total, 3, Math.max(6, room * seen));
}

function dot(context, v, radius) {
  context.beginPath();
  context.arc(across(clades.depth[v]), down(shape.y[v]), radius, 0, 2 * Math.PI);
  context.fill();
}
