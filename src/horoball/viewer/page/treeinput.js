// Pointer, wheel and keys in the tree, and its switches.

const fingers = new Map();
let pull = null;

const placeInTree = (event) => {
  const box = pane.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};

pane.addEventListener("pointerdown", (event) => {
  if (event.target.closest(".tools") || event.button > 0) return;
  const p = placeInTree(event);
  cancelAnimationFrame(treeFlight);
  pane.setPointerCapture(event.pointerId);
  fingers.set(event.pointerId, p);
  pull = { start: p, low: window_.low, high: window_.high, moved: false };
});

pane.addEventListener("pointermove", (event) => {
  const p = placeInTree(event);
  if (!fingers.has(event.pointerId)) {
    if (event.pointerType !== "touch") hoverBranch(event.target.closest(".tools") ? -1 : branchAt(p), p);
    return;
  }
  const before = fingers.get(event.pointerId);
  fingers.set(event.pointerId, p);
  if (fingers.size === 2) {
    const other = [...fingers].find(([key]) => key !== event.pointerId)[1];
    zoomTree((p[1] + other[1]) / 2, abs(sub(p, other)) / Math.max(1, abs(sub(before, other))));
    pull = null;
  }
  if (!pull) return;
  if (Math.abs(p[1] - pull.start[1]) > 3) pull.moved = true;
  if (!pull.moved) return;
  hoverBranch(-1);
  const shift = (p[1] - pull.start[1]) / unitOf();
  setWindow(pull.low - shift, pull.high - shift);
});

function letGo(event) {
  if (!fingers.delete(event.pointerId)) return;
  const done = pull;
  pull = null;
  if (done && !done.moved && event.type === "pointerup") keepBranch(branchAt(done.start));
}
pane.addEventListener("pointerup", letGo);
pane.addEventListener("pointercancel", letGo);
pane.addEventListener("pointerleave", () => hoverBranch(-1));

pane.addEventListener("dblclick", (event) => {
  if (!event.target.closest(".tools")) fold(branchAt(placeInTree(event)));
});

pane.addEventListener(
  "wheel",
  (event) => {
    event.preventDefault();
    cancelAnimationFrame(treeFlight);
    const turned = event.shiftKey ? event.deltaX || event.deltaY : event.deltaY; // browsers swap them with Shift
    const factor = Math.exp(-0.0022 * Math.max(-200, Math.min(200, turned * (event.deltaMode === 1 ? 16 : 1))));
    if (event.shiftKey) stretchTree(factor);
    else zoomTree(placeInTree(event)[1], factor);
    hoverBranch(-1);
  },
  { passive: false },
);

// To the branch above, the first below, or a sibling: the shown one.
function step(v, key) {
  const up = shape.up[v];
  if (key === "ArrowLeft") return up < 0 ? v : up;
  if (key === "ArrowRight") return isEnd(v) ? v : shape.order[shape.at[v] + 1];
  if (up < 0) return v;
  if (key === "ArrowDown") return shape.end[v] < shape.end[up] ? shape.order[shape.end[v]] : v;
  let before = v;
  for (let k = shape.at[up] + 1; k < shape.at[v]; k = shape.end[shape.order[k]]) before = shape.order[k];
  return before;
}

pane.addEventListener("keydown", (event) => {
  if (event.target !== pane || event.ctrlKey || event.metaKey || event.altKey) return;
  const at = state.branch >= 0 ? state.branch : state.kept >= 0 ? state.kept : clades.root;
  if (event.key.startsWith("Arrow")) {
    const next = step(shownNode(at), event.key);
    hoverBranch(next);
    element("branch-tip").hidden = true; // it is read out, and there is no pointer to stand beside
    if (down(shape.y[next]) < plot.top || down(shape.y[next]) > plot.bottom) {
      const half = (window_.high - window_.low) / 2;
      setWindow(shape.y[next] - half, shape.y[next] + half);
    }
    say(branchText(next));
  } else if (event.key === "Enter") keepBranch(at);
  else if (event.key === " " || event.key === "c") fold(at);
  else if (event.key === "+" || event.key === "=") zoomTree(down(shape.y[shownNode(at)]), 1.4);
  else if (event.key === "-" || event.key === "_") zoomTree(down(shape.y[shownNode(at)]), 1 / 1.4);
  else if (event.key === "0" || event.key === "Home") wholeTree();
  else return;
  event.preventDefault();
});

const treeMiddle = () => (plot.top + plot.bottom) / 2;
element("tree-reset").addEventListener("click", wholeTree);
element("tree-in").addEventListener("click", () => zoomTree(treeMiddle(), 1.6));
element("tree-out").addEventListener("click", () => zoomTree(treeMiddle(), 1 / 1.6));
element("tree-png").addEventListener("click", exportTree);
element("support").addEventListener("input", (event) => setSupport(Number(event.target.value)));
element("expand").addEventListener("click", () => {
  state.folded.clear();
  reshape();
});
element("disc-pane").addEventListener("change", (event) => showPanes(event.target.checked, !pane.hidden));
element("tree-pane").addEventListener("change", (event) => showPanes(!stage.hidden, event.target.checked));
element("skeleton").addEventListener("change", (event) => {
  state.skeleton = event.target.checked;
  requestDraw();
});

// The tree as it is seen, at twice the size.
function exportTree() {
  const sheet = make("canvas");
  [sheet.width, sheet.height] = [plot.width * 2, plot.height * 2];
  const lines = make("canvas");
  [lines.width, lines.height] = [sheet.width, sheet.height];
  drawLines(flat(lines), 2);
  const context = sheet.getContext("2d");
  context.fillStyle = palette.disc;
  context.fillRect(0, 0, sheet.width, sheet.height);
  context.drawImage(lines, 0, 0);
  context.font = "600 32px system-ui, sans-serif";
  context.fillStyle = palette.ink;
  context.fillText(meta.title, 40, 60);
  sheet.toBlob((blob) => download(fileName("tree.png"), blob), "image/png");
}
