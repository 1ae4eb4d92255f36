// The state of the page: what is seen, from where, and how it is moved.

const element = (id) => document.getElementById(id);
const stage = element("stage");
const canvases = { points: element("points"), over: element("over") };
const still = window.matchMedia("(prefers-reduced-motion: reduce)");

const state = {
  g: IDENTITY, // the isometry from the data's disc to the shown one
  zoom: 1,
  offset: [0, 0], // of the disc's center, in radii
  color: Math.max(0, columns.findIndex((column) => column.name === meta.color)),
  hidden: new Set(), // categories of the coloring column
  emphasis: -1, // the category under the pointer in the legend
  selected: null, // Uint8Array, 1 for a selected point
  found: [], // points that match the search
  hover: -1,
  pinned: -1,
  lasso: null, // the polygon while it is drawn, in pixels
  theme: null, // null follows the system
  thumbnails: Boolean(meta.images),
  edges: true,
  names: true, // of groups
  density: n >= 500 && n <= 20000 && !edges.length && !meta.images && !meta.tree, // contours, where they are not too much
  skeleton: true, // the tree in the disc
  support: 0, // branches with less are left out of the tree
  folded: new Set(), // nodes whose branches are collapsed
  branch: -1, // the node under the pointer
  kept: -1, // the node in the panel
  group: null, // the group in the panel: a column and its category
  label: null, // the name under the pointer
  lit: null, // the range of rows that stand out, in the order of the tree
};

const size = { width: 1, height: 1, ratio: 1, radius: 1, top: 0 }; // in pixels; `top` is kept free for the tools
let renderer = null;
let kdTree = null;
let palette = {};

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const theme = () => state.theme || (dark.matches ? "dark" : "light");

function readPalette() {
  document.documentElement.dataset.theme = theme();
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ink", "muted", "line", "disc", "grid", "rim", "accent", "ground", "panel", "branch"]) {
    palette[name] = style.getPropertyValue(`--${name}`).trim();
  }
}

const middle = () => [size.width / 2, (size.height + size.top) / 2];

// Pixels of the stage ↔ the shown disc, y upwards.
const toScreen = (w) => [
  middle()[0] + (w[0] * state.zoom + state.offset[0]) * size.radius,
  middle()[1] - (w[1] * state.zoom + state.offset[1]) * size.radius,
];
const toDisc = (p) => [
  ((p[0] - middle()[0]) / size.radius - state.offset[0]) / state.zoom,
  ((middle()[1] - p[1]) / size.radius - state.offset[1]) / state.zoom,
];
const unit = () => size.radius * state.zoom; // pixels of the disc's radius

let frame = frameOf(state.g);
const shownAt = (i) => place(frame, radii[i], turns[i]);

function setView(g, zoom = state.zoom, offset = state.offset) {
  state.g = g;
  state.zoom = Math.min(500, Math.max(0.5, zoom));
  const reach = state.zoom + 0.5;
  state.offset = offset.map((x) => Math.min(reach, Math.max(-reach, x)));
  frame = frameOf(g);
  moved();
  changed();
}

function resize() {
  const box = stage.getBoundingClientRect();
  size.width = Math.max(1, box.width);
  size.height = Math.max(1, box.height);
  size.ratio = Math.min(2, window.devicePixelRatio || 1);
  size.top = size.width < 1.5 * size.height ? 44 : 0; // in a wide window the tools stand beside the disc
  size.radius = 0.5 * Math.max(40, Math.min(size.width, size.height - size.top) - 36);
  for (const canvas of Object.values(canvases)) {
    canvas.width = Math.round(size.width * size.ratio);
    canvas.height = Math.round(size.height * size.ratio);
  }
  requestDraw();
}

// Fewer points are drawn larger; zooming in makes them grow, but slower than the distances between them.
const pointSize = () => Math.min(22, Math.max(2, 24 * Math.pow(n, -0.2)) * Math.pow(Math.max(1, state.zoom), 0.3));

// Moves the view so that `step(t)` is shown at time t from 0 to 1, slow at both ends.
let flight = 0;
function animate(step, time = 450) {
  cancelAnimationFrame(flight);
  if (still.matches) return step(1);
  const start = performance.now();
  const tick = (now) => {
    const t = Math.min(1, Math.max(0, (now - start) / time));
    step(t * t * (3 - 2 * t));
    if (t < 1) flight = requestAnimationFrame(tick);
  };
  flight = requestAnimationFrame(tick);
}

// Brings what is shown at w to the middle; `goal`, where that is in the data's disc, makes the end exact.
function recenter(w, goal) {
  const [g, offset] = [state.g, state.offset];
  if (isFlat) {
    const end = times([w[0], w[1]], -state.zoom);
    return animate((t) => setView(g, state.zoom, add(times(offset, 1 - t), times(end, t))));
  }
  const start = times([w[0], w[1]], Math.min(1, (1 - 1e-13) / Math.max(abs([w[0], w[1]]), 1e-300)));
  animate((t) => {
    const there = compose(translation(partOf(start, 1 - t)), compose(translation(times(start, -1)), g));
    const exact = t === 1 && goal ? fromCenter({ ...goal, spin: centerOf(there).spin }) : there;
    setView(exact, state.zoom, times(offset, 1 - t));
  });
}

function goTo(i) {
  if (hasDisc) recenter(shownAt(i), { radius: Math.min(radii[i], FARTHEST), angle: angleOf(i) });
  if (clades) reveal(clades.leafOf(i));
}

function reset() {
  const [g, zoom, offset] = [state.g, state.zoom, state.offset];
  const origin = apply(g, [0, 0]);
  const { spin } = centerOf(compose(transvection(origin, [0, 0]), g));
  const turn = Math.atan2(Math.sin(spin), Math.cos(spin));
  animate((t) => {
    const moved = compose(transvection(origin, partOf(origin, 1 - t)), g);
    setView(t === 1 ? IDENTITY : compose(rotation(-turn * t), moved), Math.pow(zoom, 1 - t), times(offset, 1 - t));
  });
}

function zoomAbout(p, factor) {
  const w = toDisc(p);
  const zoom = Math.min(500, Math.max(0.5, state.zoom * factor));
  const offset = add(state.offset, times(w, state.zoom - zoom));
  setView(state.g, zoom, zoom <= 1 ? times(offset, 0.8) : offset); // zoomed out, the disc comes back to the middle
}

function pick(p, reach = 10) {
  kdTree ||= buildTree();
  const q = toDisc(p);
  const rho = (pointSize() / 2 + reach) / unit();
  return abs(q) > 1 + rho && !isFlat ? -1 : nearest(kdTree, state.g, q, rho, allowed);
}
