// What is drawn over the points: rings, circles, the lasso and thumbnails.

function begin(context, ratio) {
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, size.width, size.height);
  context.lineCap = context.lineJoin = "round";
}

function circle(context, center, radius) {
  const [x, y] = toScreen(center);
  context.beginPath();
  context.arc(x, y, Math.max(0, radius * unit()), 0, 2 * Math.PI);
}

// A circle of the grid is labeled where it is lowest; one that is too small to read is not.
function distances(context) {
  context.fillStyle = palette.muted;
  context.font = "10px system-ui, sans-serif";
  for (const { distance, center, radius } of grid().rings) {
    const lowest = [center[0], center[1] - radius];
    const [x, y] = toScreen(lowest);
    if (radius * unit() > 22 && (isFlat || abs(lowest) < 0.985)) context.fillText(formatted(distance), x + 3, y - 3);
  }
}

function ring(context, i, color, width, gap) {
  const w = shownAt(i);
  const [x, y] = toScreen(w);
  const r = (pointSize() * Math.max(0.4, Math.sqrt(w[2]))) / 2 + gap;
  context.beginPath();
  context.arc(x, y, r, 0, 2 * Math.PI);
  context.strokeStyle = color;
  context.lineWidth = width;
  context.stroke();
}

// One and two posterior scales around a point: circles of the geometry, which the disc shows off their center.
function uncertainty(context, i) {
  const w = shownAt(i);
  const sigma = scaleOf(i) * rootC;
  for (const [k, alpha] of [[2, 0.1], [1, 0.16]]) {
    const shape = circleAround(w, k * sigma);
    circle(context, shape.center, shape.radius);
    context.globalAlpha = alpha;
    context.fillStyle = palette.accent;
    context.fill();
    context.globalAlpha = 0.75;
    context.strokeStyle = palette.accent;
    context.lineWidth = 1;
    context.setLineDash(k === 2 ? [3, 4] : []);
    context.stroke();
  }
  context.setLineDash([]);
  context.globalAlpha = 1;
}

function caption(context, i) {
  const text = nameOf(i);
  const [x, y] = toScreen(shownAt(i));
  context.font = "600 12px system-ui, sans-serif";
  context.lineWidth = 4;
  context.strokeStyle = palette.disc;
  const shown = text.length > 40 ? `${text.slice(0, 39)}…` : text;
  context.strokeText(shown, x + 12, y - 10);
  context.fillStyle = palette.ink;
  context.fillText(shown, x + 12, y - 10);
}

function drawOver(context, ratio, moving = false) {
  begin(context, ratio);
  if (!moving) distances(context);
  if (meta.images && state.thumbnails) drawThumbnails(context);
  for (const i of state.found) if (allowed(i)) ring(context, i, palette.ink, 1.5, 2.5);
  for (const i of new Set([state.pinned, state.hover])) {
    if (i < 0 || !allowed(i)) continue;
    if (scaleSteps) uncertainty(context, i);
    ring(context, i, palette.accent, 2, 2);
    if (i === state.pinned) caption(context, i);
  }
  if (state.names) drawGroupNames(context);
  if (clades && state.skeleton) drawJoint(context);
  if (!state.lasso || state.lasso.length < 2) return;
  context.beginPath();
  for (const [x, y] of state.lasso) context.lineTo(x, y);
  context.closePath();
  context.globalAlpha = 0.12;
  context.fillStyle = palette.accent;
  context.fill();
  context.globalAlpha = 1;
  context.setLineDash([5, 4]);
  context.strokeStyle = palette.accent;
  context.lineWidth = 1.5;
  context.stroke();
  context.setLineDash([]);
}

// Some of the thumbnails, none over another: always the same candidates in the same order.
const sheets = [];
const candidates = Array.from({ length: meta.images ? Math.min(n, 2000) : 0 }, (_, k) => (k * stride) % n);

function sheetOf(i) {
  const k = Math.floor(i / meta.images.per);
  if (!sheets[k]) {
    sheets[k] = new Image();
    sheets[k].onload = () => {
      showPinned();
      requestDraw();
    };
    sheets[k].src = meta.images.sheets[k];
  }
  return sheets[k].complete && sheets[k].naturalWidth ? sheets[k] : null;
}

function drawThumbnail(context, i, x, y, width) {
  const { width: w, height: h, across, per } = meta.images;
  const sheet = sheetOf(i);
  const k = i % per;
  if (sheet) context.drawImage(sheet, (k % across) * w, Math.floor(k / across) * h, w, h, x, y, width, (width * h) / w);
}

function drawThumbnails(context) {
  const taken = new Set();
  const { lookup, index } = coloring(columns[state.color]);
  context.lineWidth = 2;
  for (const i of candidates) {
    if (!allowed(i) || (state.selected && !state.selected[i])) continue;
    const w = shownAt(i);
    const [x, y] = toScreen(w);
    const width = 34 * Math.sqrt(w[2]);
    if (width < 11 || x < -40 || y < -40 || x > size.width + 40 || y > size.height + 40) continue;
    // Cells of 20 pixels that a thumbnail covers are taken.
    const cells = [];
    const height = (width * meta.images.height) / meta.images.width;
    for (let a = Math.floor((x - width / 2) / 20); a <= Math.floor((x + width / 2) / 20); a++) {
      for (let b = Math.floor((y - height / 2) / 20); b <= Math.floor((y + height / 2) / 20); b++) cells.push(`${a},${b}`);
    }
    if (cells.some((cell) => taken.has(cell))) continue;
    for (const cell of cells) taken.add(cell);
    drawThumbnail(context, i, x - width / 2, y - height / 2, width);
    context.strokeStyle = css(lookup[index(i)]);
    context.strokeRect(x - width / 2, y - height / 2, width, height);
  }
}
