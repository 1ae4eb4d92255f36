// The row of a point: beside the pointer while it is over it, and in the panel once it is pinned.

const tip = element("tip");
const say = (text) => (element("status").textContent = text);

function make(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

const FEW = 8; // columns beside the pointer

function rowOf(i, most) {
  const box = document.createDocumentFragment();
  box.append(make("p", nameOf(i), "name"));
  if (meta.images) {
    const { width, height } = meta.images;
    const canvas = make("canvas", "", "thumb");
    const factor = Math.max(1, Math.round(84 / Math.max(width, height)));
    canvas.width = width * factor;
    canvas.height = height * factor;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `Picture of ${nameOf(i)}`);
    const context = canvas.getContext("2d");
    context.imageSmoothingEnabled = false;
    drawThumbnail(context, i, 0, 0, canvas.width);
    box.append(canvas);
  }
  const list = make("dl");
  for (const column of columns.slice(0, most)) {
    const name = column.own ? term(column.name) : make("dt", column.name);
    if (column === columns[state.color]) name.className = "current";
    const said = make("dd", column.text(i));
    if (most > FEW && meta.levels && column.derived && column.values[i] !== column.missing) {
      // Why the row is here: the card of its group says it.
      const group = groupEntry(column, column.values[i], 0);
      const link = make("button", Number.isNaN(group.support) ? group.name : `${group.name}, support ${group.support.toFixed(2)}`);
      link.type = "button";
      link.title = "What sets its rows apart";
      link.addEventListener("click", () => visitGroup(group));
      said.replaceChildren(link);
      said.className = "examples";
    }
    list.append(name, said);
  }
  const more = columns.length - most;
  box.append(list);
  if (more > 0) box.append(make("p", `and ${more} more`, "hint"));
  return box;
}

const rowText = (i) => `${nameOf(i)}: ${columns.map((column) => `${column.name} ${column.text(i)}`).join(", ")}`;

function hover(i, p) {
  leaveLabel();
  if (i !== state.hover) {
    state.hover = i;
    tip.hidden = i < 0;
    if (i >= 0) tip.replaceChildren(rowOf(i, FEW));
    requestDraw();
    if (clades) requestTree(false);
  }
  if (i >= 0) putBeside(tip, p, size.width, size.height);
}

// Beside the pointer, inside a window of a width and height.
function putBeside(tip, p, width, height) {
  const box = tip.getBoundingClientRect();
  const left = p[0] + 18 + box.width > width ? p[0] - 18 - box.width : p[0] + 18;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${Math.max(8, Math.min(p[1] + 14, height - box.height - 8))}px`;
}

// What sets a lasso's rows apart; a branch says it in its own card.
function showSelection() {
  const shown = state.selected && state.kept < 0 && !state.group;
  element("apart").replaceChildren(shown ? apartCard(selectedRows()) : "");
}

function showPinned() {
  const { pinned, kept, group } = state;
  element("pinned").hidden = pinned < 0 && kept < 0 && !group;
  element("sigma").hidden = !scaleSteps || pinned < 0;
  element("row").classList.toggle("whole", pinned < 0); // a point's list scrolls, a branch's card does not
  element("row").replaceChildren(pinned >= 0 ? rowOf(pinned, 60) : kept >= 0 ? branchRow(kept, true) : group ? groupRow(group, true) : "");
  if (clades) requestTree(false);
}

function pin(i) {
  state.pinned = i;
  state.kept = -1;
  state.group = null;
  showPinned();
  showSelection();
  if (i >= 0) say(rowText(i));
  changed();
}
