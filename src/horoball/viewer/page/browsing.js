// Moving about in the tree, and what it has to do with the disc.

function setWindow(low, high, past = window_.past) {
  const least = Math.min(shape.total, 3);
  const range = Math.max(least, Math.min(shape.total, high - low));
  const start = Math.max(0, Math.min(shape.total - range, (low + high - range) / 2));
  [window_.low, window_.high, window_.past] = [start, start + range, Math.max(0, Math.min(0.99, past))];
  requestTree();
  changed();
}

function zoomTree(y, factor) {
  const u = unitAt(Math.max(plot.top, Math.min(plot.bottom, y)));
  setWindow(u - (u - window_.low) / factor, u + (window_.high - u) / factor);
}

const wholeTree = () => setWindow(0, shape.total, 0);

// Depths near the leaves, where most branches of a large tree are, get more room.
const stretchTree = (factor) => setWindow(window_.low, window_.high, 1 - (1 - window_.past) / factor);

// What is folded or weak has changed: the same part stays in sight, as far as it is still there.
function reshape() {
  const before = shape.total;
  const [low, high] = [window_.low / before, window_.high / before];
  layOut();
  setWindow(low * shape.total, high * shape.total);
  countBranches();
  requestDraw();
}

function fold(v) {
  if (v < clades.leaves || v === clades.root) return;
  const y = down(shape.y[shownNode(v)]);
  if (!state.folded.delete(v)) state.folded.add(v);
  reshape();
  const moved = shape.y[shownNode(v)] - unitAt(y); // the branch stays under the pointer
  setWindow(window_.low + moved, window_.high + moved);
  say(`${branchName(v)} ${state.folded.has(v) ? "collapsed" : "expanded"}`);
}

function countBranches() {
  let shown = 0;
  for (let k = 0; k < shape.count; k++) if (shape.order[k] >= clades.leaves) shown++;
  const all = (clades.nodes - clades.leaves).toLocaleString("en-GB");
  element("branch-count").textContent = `${shown.toLocaleString("en-GB")} of ${all} branches shown`;
  element("expand").disabled = !state.folded.size;
}

function setSupport(least) {
  state.support = least;
  element("support").value = String(least);
  element("support-value").textContent = least.toFixed(2);
  reshape();
}

// Opens what is folded above a node and brings it into sight, near enough to read its name.
function reveal(v) {
  let opened = false;
  for (let p = clades.parent[v]; p >= 0; p = clades.parent[p]) opened = state.folded.delete(p) || opened;
  if (opened) reshape();
  const y = shape.y[shownNode(v)];
  const range = Math.min(window_.high - window_.low, (plot.bottom - plot.top) / (READABLE + 5));
  let around = shownNode(v); // the least branch that fills the window
  while (shape.up[around] >= 0 && shape.high[around] - shape.low[around] < range) around = shape.up[around];
  const goal = (0.9 * (clades.depth[around] - clades.depth[clades.root])) / plot.reach;
  const { low, high, past } = window_;
  animateTree((t) => setWindow(low + (y - range / 2 - low) * t, high + (y + range / 2 - high) * t, past + (goal - past) * t));
}

let treeFlight = 0;
function animateTree(step) {
  cancelAnimationFrame(treeFlight);
  if (still.matches) return step(1);
  const start = performance.now();
  const tick = (now) => {
    const t = Math.min(1, Math.max(0, (now - start) / 350));
    step(t * t * (3 - 2 * t));
    if (t < 1) treeFlight = requestAnimationFrame(tick);
  };
  treeFlight = requestAnimationFrame(tick);
}

// The branch at a place: the one whose room it is in and whose depth it has not yet reached; −1 left of the root.
function branchAt([x, y]) {
  if (y < plot.top - 8 || y > plot.bottom + 4 || x < across(clades.depth[clades.root]) - 12) return -1;
  const u = unitAt(y);
  const { order, at, end, low, high } = shape;
  let v = clades.root;
  while (!isEnd(v) && x > across(clades.depth[v]) && (high[v] - low[v]) * unitOf() >= LEAST) {
    let k = at[v] + 1;
    while (k < end[v] && u >= high[order[k]]) k = end[order[k]];
    if (k >= end[v]) break; // at the very lower end
    v = order[k];
  }
  return v;
}

// The rows of the branch under the pointer stand out in the disc, after a moment's rest where there are many.
let lighting = 0;
function light(v) {
  clearTimeout(lighting);
  lighting = setTimeout(() => {
    const next = v < 0 || v === clades.root ? null : clades.range(v);
    if (String(next) === String(state.lit)) return;
    state.lit = next;
    recolorDisc();
  }, n > 200000 ? 150 : 30);
}

function hoverBranch(v, p) {
  const box = element("branch-tip");
  if (v !== state.branch) {
    state.branch = v;
    box.hidden = v < 0;
    if (v >= 0) box.replaceChildren(branchRow(v));
    light(v);
    requestTree(false);
    if (renderer) requestDraw();
  }
  if (v >= 0 && p) putBeside(box, p, plot.width, plot.height);
}

// Keeps a branch in the panel and selects its rows, as a lasso around them would.
function keepBranch(v) {
  state.pinned = -1;
  state.group = null;
  state.kept = v;
  if (v < 0) {
    select(null);
  } else {
    const chosen = new Uint8Array(n);
    const [from, to] = clades.range(v);
    let count = 0;
    for (let k = from; k < to; k++) {
      if (!allowed(clades.inOrder[k])) continue;
      chosen[clades.inOrder[k]] = 1;
      count++;
    }
    select(count ? chosen : null, count);
    say(branchText(v));
  }
  showPinned();
  changed();
}

// Either pane can be put away, not both.
function showPanes(disc, withTree) {
  stage.hidden = !disc;
  pane.hidden = !withTree;
  document.body.classList.toggle("two", disc && withTree);
  const [discSwitch, treeSwitch] = [element("disc-pane"), element("tree-pane")];
  [discSwitch.checked, treeSwitch.checked] = [disc, withTree];
  [discSwitch.disabled, treeSwitch.disabled] = [!withTree, !disc];
  (disc ? element("tools") : element("tree-tools")).append(element("common-tools"));
  element("skeleton-switch").hidden = !disc;
  // The next pointer event may come before the observers of their sizes do.
  if (disc) resize();
  if (withTree) resizeTree();
}

function startTree() {
  element("tree-options").hidden = false;
  element("support-line").hidden = !clades.support;
  for (const name of ["panes", "tree-help", "skeleton-switch"]) element(name).hidden = false;
  element("panes").hidden = !hasDisc;
  pane.setAttribute(
    "aria-label",
    `Tree of ${clades.leaves} leaves. Arrow keys go to the branch above, to the first one below and to its siblings, Enter ` +
      "selects its rows, Space collapses or expands it, plus and minus zoom.",
  );
  layOut();
  window_.high = shape.total;
  countBranches();
  measureNames();
  showPanes(hasDisc, true);
  new ResizeObserver(resizeTree).observe(pane);
}

// What an address says of the tree; as with the disc, only numbers that make sense are taken.
function restoreTree(numbers) {
  const inner = (v) => Number.isInteger(v) && v >= clades.leaves && v < clades.root;
  state.folded = new Set(numbers("folded").filter(inner));
  const [least] = numbers("support");
  if (clades.support && least >= 0 && least <= 1) setSupport(least);
  else reshape();
  const [low, high, past = 0] = numbers("tree");
  if (low >= 0 && high > low && past >= 0) setWindow(low * shape.total, Math.min(1, high) * shape.total, past);
  const [kept] = numbers("branch");
  if (Number.isInteger(kept) && kept >= 0 && kept < clades.nodes) keepBranch(kept);
}

// For the console and for tests; it only reads. `frame` draws the whole pane and says how long it took.
function treeHandle() {
  return {
    leaves: clades.leaves,
    nodes: clades.nodes,
    at: branchAt,
    rows: (v) => Array.from(clades.inOrder.subarray(...clades.range(v))),
    // A pixel of the page on a node's branch, just before the node.
    pixel(v) {
      const box = pane.getBoundingClientRect();
      return [box.left + across(clades.depth[v]) - 1, box.top + down(shape.y[v])];
    },
    shown: () => Array.from(shape.order.subarray(0, shape.count)),
    color: (v) => tint.css[v],
    strong: (v) => Boolean(tint.strong[v]),
    place: (v) => [jointsOf().radius[v], (jointsOf().turn[v] / TURN) * 2 * Math.PI],
    drawn: () => seenBranches().map(({ v }) => v),
    get view() {
      return { ...window_, total: shape.total, unit: unitOf(), branch: state.branch, kept: state.kept, lit: state.lit };
    },
    frame() {
      const began = performance.now();
      drawLines(flat(sheetsOfTree.lines), plot.ratio);
      drawMarks(flat(sheetsOfTree.over), plot.ratio);
      flat(sheetsOfTree.lines).getImageData(0, 0, 1, 1);
      return performance.now() - began;
    },
  };
}
