// Everything put together.

const MAP = isFlat ? "Map" : "Poincaré disc";

function setTheme(next) {
  state.theme = next;
  readPalette();
  showLegend();
  showPinned();
  recolor();
}

function start() {
  readPalette();
  document.title = element("title").textContent = meta.title || (hasDisc ? MAP : "Tree");
  const rows = `${n.toLocaleString("en-GB")} ${hasDisc ? "point" : "row"}${n === 1 ? "" : "s"}`;
  const links = edges.length ? `, ${(edges.length / 2).toLocaleString("en-GB")} edges` : "";
  const leaves = clades ? `, tree of ${clades.leaves.toLocaleString("en-GB")} leaves` : "";
  element("about").textContent = `${rows}${links}${isFlat ? ", flat (curvature 0)" : hasDisc ? `, curvature −${formatted(meta.c)}` : ""}${leaves}`;
  element("note").textContent = meta.note;
  element("note").hidden = !meta.note;
  stage.setAttribute(
    "aria-label",
    `Map of ${rows} ${isFlat ? "on a plane" : "in the Poincaré disc"}. Arrow keys move, plus and minus zoom, Enter reads the point nearest to the ` +
      "middle, slash searches, question mark shows help.",
  );
  element("link").hidden = location.protocol === "about:"; // a notebook's frame has no address of its own
  element("edges-switch").hidden = !edges.length;
  element("thumbnails-switch").hidden = !meta.images;
  const named = hasDisc && (meta.levels || columns.some((column) => column.kind === "category"));
  element("names-switch").hidden = !named;
  element("density").checked = state.density;
  element("density-switch").hidden = !hasDisc || n < 20;
  element("options").hidden = !clades && (!hasDisc || (n < 20 && !edges.length && !meta.images && !named));
  welcome();
  fillTerms();
  for (const part of document.querySelectorAll(".of-disc")) part.hidden = isFlat;
  for (const part of document.querySelectorAll(".of-plane")) part.hidden = !isFlat;
  for (const part of document.querySelectorAll(".of-tree")) part.hidden = !clades;
  for (const part of document.querySelectorAll(".of-map")) part.hidden ||= !hasDisc;
  element("hint").hidden = !hasDisc;
  box.placeholder = names ? "Search by name" : "Search by row";
  box.setAttribute("aria-label", box.placeholder);
  renderer = hasDisc ? createRenderer(canvases.points) : null;
  element("failure").hidden = Boolean(renderer);
  fillPicker();
  showLegend();
  if (clades) startTree();
  startContents();
  resize();
  recolor();
  restore();
  new ResizeObserver(resize).observe(stage);
  if (meta.images) sheetOf(0);
  if (hasDisc) setTimeout(() => (kdTree ||= buildTree()), 200); // before the first hover needs it
  prepareCards();
}

// From its beginning, though the focus goes to the button at its end.
function showHelp() {
  element("help").showModal();
  element("help").scrollTop = 0;
}

// Three lines for those who have not seen a disc before, until the first move.
function welcome() {
  if (!hasDisc || location.hash) return; // a link leads to something, and should show it
  element("welcome").hidden = false;
  // A press in the panel does not count: what is under the pointer would move away before it is released.
  for (const event of ["pointerdown", "wheel", "keydown"]) {
    for (const part of event === "keydown" ? [window] : [stage, element("tree")]) {
      part.addEventListener(event, () => (element("welcome").hidden = true), { once: true, passive: true });
    }
  }
}

picker.addEventListener("change", () => colorBy(Number(picker.value)));
element("theme").addEventListener("click", () => {
  setTheme(theme() === "dark" ? "light" : "dark");
  changed();
});
dark.addEventListener("change", () => setTheme(state.theme));
element("lasso").addEventListener("click", () => setLasso(!lassoOn));
element("reset").addEventListener("click", reset);
element("in").addEventListener("click", () => zoomAbout(middle(), 1.4));
element("out").addEventListener("click", () => zoomAbout(middle(), 1 / 1.4));
element("png").addEventListener("click", exportPng);
element("svg").addEventListener("click", exportSvg);
element("link").addEventListener("click", copyLink);
element("keys").addEventListener("click", showHelp);
element("close").addEventListener("click", () => element("help").close());
element("all").addEventListener("click", () => showAll(true));
element("none").addEventListener("click", () => showAll(false));
element("csv").addEventListener("click", () => download(fileName("csv"), new Blob([csv()], { type: "text/csv" })));
element("clear").addEventListener("click", () => {
  select(null);
  if (state.kept >= 0 || state.pinned < 0) pin(-1);
});
element("unpin").addEventListener("click", () => pin(-1));
element("edges").addEventListener("change", (event) => {
  state.edges = event.target.checked;
  requestDraw();
});
element("names").addEventListener("change", (event) => {
  state.names = event.target.checked;
  requestDraw();
});
element("density").addEventListener("change", (event) => {
  state.density = event.target.checked;
  requestDraw();
});
element("thumbnails").addEventListener("change", (event) => {
  state.thumbnails = event.target.checked;
  requestDraw();
});
canvases.points.addEventListener("webglcontextlost", (event) => event.preventDefault());
canvases.points.addEventListener("webglcontextrestored", () => {
  renderer.rebuild();
  recolor();
});

start();

// A handle for the console and for tests; it only reads. `frame` draws all points, waits for the picture and says how long it took.
window.horoball = {
  n,
  positions: (ids) => ids.map((i) => shownAt(i).slice(0, 2)),
  pixels: (ids) => ids.map((i) => toScreen(shownAt(i))),
  nearest: (p, reach) => pick(p, reach),
  get drawn() {
    return budget.points;
  },
  names: () => placedNames(flat(canvases.over)).map(({ text, x, y }) => [text, x, y]),
  contours: () => (state.density ? seenContours() : []),
  visible: () => Array.from({ length: n }, (_, i) => i).filter(allowed).length,
  get view() {
    const { g, zoom, offset, hover: hovered, pinned, color } = state;
    return { ...centerOf(g), zoom, offset, hover: hovered, pinned, color, theme: theme(), found: state.found.length };
  },
  // What sets rows apart, and how long it took to find.
  apart(rows) {
    const began = performance.now();
    const found = differences(Uint32Array.from(rows));
    const some = typical(Uint32Array.from(rows));
    const plainly = (list) => list.map(({ name, here, rest, by }) => ({ name, here, rest, by }));
    const [numbers, categories, words] = [found.numbers, found.categories, found.words].map(plainly);
    return { numbers, categories, words, typical: some, time: performance.now() - began };
  },
  get selected() {
    return state.selected ? Array.from(state.selected.keys()).filter((i) => state.selected[i]) : [];
  },
  frame() {
    const began = performance.now();
    drawMap(size.ratio);
    drawOver(flat(canvases.over), size.ratio);
    renderer.gl.readPixels(0, 0, 1, 1, renderer.gl.RGBA, renderer.gl.UNSIGNED_BYTE, new Uint8Array(4));
    return performance.now() - began;
  },
  tree: clades && treeHandle(),
};
if (around) around.postMessage({ horoball: "ready" }, "*");
