// A frame: what is drawn, when, and of how many points.

function clipSpace() {
  const sx = (2 * size.radius) / size.width;
  const sy = (2 * size.radius) / size.height;
  return [sx * state.zoom, sy * state.zoom, sx * state.offset[0], sy * state.offset[1] - size.top / size.height];
}

const parts = (hex) => rgb(hex).map((x) => x / 255);

function drawMap(ratio, count = n, moving = false) {
  drawGround(ratio);
  if (state.density) drawContours(ratio, moving);
  if (clades && state.skeleton) drawSkeleton(ratio);
  const screen = clipSpace();
  const fine = Math.min(0.42, Math.max(0.06, 20 / Math.sqrt(edges.length + 1)));
  if (edges.length && state.edges) renderer.edges({ frame, screen, ink: [...parts(palette.muted), fine] });
  renderer.points({ frame, screen, count, diameter: pointSize() * ratio, ground: parts(palette.disc) });
}

// A few thin lines are drawn faster by the processor than by a graphics card, and much faster where there is none.
const flat = (canvas) => canvas.getContext("2d", { willReadFrequently: true });

let waiting = 0;
function requestDraw() {
  waiting ||= requestAnimationFrame(draw);
}

function draw() {
  waiting = 0;
  if (!renderer || stage.hidden) return;
  const moving = isMoving();
  drawMap(size.ratio, moving ? budget.points : n, moving);
  // An empty canvas costs a frame as much as a full one.
  const marks = state.pinned >= 0 || state.hover >= 0 || state.found.length || state.lasso || state.kept >= 0;
  const named = state.names && budget.points >= n && namedColumns().length; // where points have to wait, names do too
  const bare = moving && !marks && !(meta.images && state.thumbnails) && !named;
  canvases.over.style.visibility = bare ? "hidden" : "visible";
  if (!bare) drawOver(flat(canvases.over), size.ratio, moving);
  if (moving) watch();
}

// While the disc moves, a machine that takes long for a frame draws a part of the points: any first part is a fair
// sample. A moment after the last move all are drawn.
const budget = { points: n, least: 5000, moved: -1e9, watching: false, settle: 0 };
const isMoving = () => performance.now() - budget.moved < 150;

function moved() {
  budget.moved = performance.now();
  clearTimeout(budget.settle);
  budget.settle = setTimeout(requestDraw, 170);
}

function watch() {
  if (budget.watching || n <= budget.least) return;
  budget.watching = true;
  const { gl } = renderer;
  const [began, fence] = [performance.now(), gl.fenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0)];
  gl.flush();
  const look = () => {
    const time = performance.now() - began;
    if (fence && gl.getSyncParameter(fence, gl.SYNC_STATUS) !== gl.SIGNALED && time < 3000) return setTimeout(look, 4);
    gl.deleteSync(fence);
    budget.watching = false;
    if (time > 75) budget.points = Math.max(Math.min(n, budget.least), Math.round(budget.points * Math.max(0.2, 55 / time)));
    else if (time < 40) budget.points = Math.min(n, Math.round(budget.points * 1.25));
  };
  setTimeout(look, 4);
}
