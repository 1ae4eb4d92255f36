// Pointer, wheel and keys.

const pointers = new Map();
let drag = null;
let lassoOn = false;

const placeOf = (event) => {
  const box = stage.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};

// The pointer's place in the disc, kept off the rim, where a pixel is worth infinitely much.
const held = (p) => {
  const w = toDisc(p);
  if (isFlat) return w;
  return times(w, Math.min(1, 0.97 / Math.max(abs(w), 1e-9)));
};

function setLasso(on) {
  lassoOn = on;
  element("lasso").setAttribute("aria-pressed", String(on));
  stage.classList.toggle("lasso", on);
}

stage.addEventListener("pointerdown", (event) => {
  if (event.target.closest(".tools, .tip") || event.button > 0) return;
  const p = placeOf(event);
  cancelAnimationFrame(flight);
  stage.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, p);
  hover(-1, p);
  if (lassoOn || event.shiftKey) state.lasso = [p];
  drag = { start: p, g: state.g, offset: state.offset, moved: false, outside: abs(toDisc(p)) > 1 };
});

stage.addEventListener("pointermove", (event) => {
  const p = placeOf(event);
  if (!pointers.has(event.pointerId)) {
    if (event.target.closest(".tools, .tip")) hover(-1, p);
    else if (event.pointerType !== "touch") {
      const label = labelAt(p);
      stage.classList.toggle("over-name", Boolean(label));
      if (label) hoverLabel(label, p);
      else hover(pick(p), p);
    }
    return;
  }
  const before = pointers.get(event.pointerId);
  pointers.set(event.pointerId, p);
  if (pointers.size === 2) return pinch(event.pointerId, before, p);
  if (!drag || pointers.size > 2) return;
  if (abs(sub(p, drag.start)) > 3) drag.moved = true;
  if (!drag.moved) return;
  if (state.lasso) {
    state.lasso.push(p);
    requestDraw();
  } else if (isFlat) {
    pan(drag.offset, sub(p, drag.start));
  } else if (drag.outside) {
    const turn = (q) => Math.atan2(toDisc(q)[1], toDisc(q)[0]);
    setView(compose(rotation(turn(p) - turn(drag.start)), drag.g));
  } else {
    // From where the drag began, not step by step: going back undoes it exactly.
    setView(compose(transvection(held(drag.start), held(p)), drag.g));
  }
});

// Moves the plane by some pixels.
function pan(offset, [x, y]) {
  setView(state.g, state.zoom, add(offset, [x / size.radius, -y / size.radius]));
}

function pinch(id, before, now) {
  const other = [...pointers].find(([key]) => key !== id)[1];
  const factor = abs(sub(now, other)) / Math.max(1, abs(sub(before, other)));
  zoomAbout(times(add(now, other), 0.5), factor);
  drag = null;
}

function release(event) {
  if (!pointers.delete(event.pointerId)) return;
  const done = drag;
  drag = null;
  if (state.lasso) {
    const polygon = state.lasso;
    state.lasso = null;
    if (polygon.length > 2) selectIn(polygon);
    else select(null);
    setLasso(false);
    changed();
  } else if (done && !done.moved && event.type === "pointerup") {
    const label = labelAt(done.start);
    if (label) keepGroup(label.column, label.k);
    else pin(pick(done.start));
  }
}
stage.addEventListener("pointerup", release);
stage.addEventListener("pointercancel", release);
stage.addEventListener("pointerleave", (event) => hover(-1, placeOf(event)));

stage.addEventListener("dblclick", (event) => {
  if (event.target.closest(".tools, .tip")) return;
  const p = placeOf(event);
  const i = pick(p);
  if (i >= 0) {
    pin(i);
    goTo(i);
  } else if (isFlat || abs(toDisc(p)) < 1) {
    recenter(held(p));
  }
});

stage.addEventListener(
  "wheel",
  (event) => {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    cancelAnimationFrame(flight);
    zoomAbout(placeOf(event), Math.exp(-Math.max(-200, Math.min(200, event.deltaY * lines)) * 0.0016));
  },
  { passive: false },
);

const ARROWS = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

stage.addEventListener("keydown", (event) => {
  if (event.target !== stage || event.ctrlKey || event.metaKey || event.altKey) return;
  if (ARROWS[event.key] && isFlat) {
    const [x, y] = times(ARROWS[event.key], (event.shiftKey ? 0.6 : 0.2) * size.radius);
    pan(state.offset, [x, -y]);
  } else if (ARROWS[event.key]) {
    // The middle of the screen moves, by a tenth of what is seen there.
    const w = held(middle());
    const step = times(ARROWS[event.key], ((event.shiftKey ? 0.3 : 0.1) * (1 - abs2(w))) / Math.max(1, state.zoom));
    setView(compose(transvection(w, held(toScreen(add(w, step)))), state.g));
  } else if (event.key === "+" || event.key === "=") zoomAbout(middle(), 1.25);
  else if (event.key === "-" || event.key === "_") zoomAbout(middle(), 0.8);
  else if (event.key === "0" || event.key === "Home") reset();
  else if (event.key === "Enter") pin(pick(middle(), size.radius));
  else if (event.key === "l") setLasso(!lassoOn);
  else return;
  event.preventDefault();
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest("input, select");
  if (event.key === "/" && !typing) {
    box.focus();
    box.select();
    event.preventDefault();
  } else if (event.key === "?" && !typing) {
    showHelp();
    event.preventDefault();
  } else if (event.key === "Escape" && !element("help").open) {
    state.lasso = null;
    setLasso(false);
    clearSearch();
    select(null);
    pin(-1);
    if (document.activeElement !== element("tree")) stage.focus();
  }
});
