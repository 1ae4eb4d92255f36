// A page that is the text of a frame (srcdoc), as in a notebook's widget, tells the page around it which rows are selected,
// and selects rows when asked to. Whoever made such a frame has the rows anyway; a page with an address talks to nobody.

const around = location.protocol === "about:" && window.parent !== window ? window.parent : null;
let heard = false; // the page around has asked for a selection, so it wants to know of others

function tellSelection() {
  if (heard) around.postMessage({ horoball: "selected", rows: state.selected ? selectedRows() : new Uint32Array(0) }, "*");
}

function selectAsAsked(rows) {
  const chosen = new Uint8Array(n);
  let count = 0;
  for (const i of rows) {
    if (!Number.isInteger(i) || i < 0 || i >= n || chosen[i]) continue;
    chosen[i] = 1;
    count++;
  }
  if (state.selected ? state.selected.every((value, i) => value === chosen[i]) : !count) return;
  state.kept = -1;
  heard = false; // what was asked for is not told
  select(count ? chosen : null, count);
  showPinned();
  changed();
}

window.addEventListener("message", ({ source, data }) => {
  if (!around || source !== around || !data || data.horoball !== "select" || !Array.isArray(data.rows)) return;
  selectAsAsked(data.rows);
  heard = true;
});
