// The lasso, and the rows in it as a CSV file.

function inside(polygon, x, y) {
  let odd = false;
  for (let k = 0, m = polygon.length - 1; k < polygon.length; m = k++) {
    const [ax, ay] = polygon[k];
    const [bx, by] = polygon[m];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) odd = !odd;
  }
  return odd;
}

function selectIn(polygon) {
  const xs = polygon.map((p) => p[0]);
  const ys = polygon.map((p) => p[1]);
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const chosen = new Uint8Array(n);
  let count = 0;
  for (let i = 0; i < n; i++) {
    if (!allowed(i)) continue;
    const [x, y] = toScreen(shownAt(i));
    if (x < left || x > right || y < top || y > bottom || !inside(polygon, x, y)) continue;
    chosen[i] = 1;
    count++;
  }
  state.kept = -1; // the card of a branch or a group gives way to that of these rows
  select(count ? chosen : null, count);
  showPinned();
}

function select(chosen, count = 0) {
  state.selected = chosen;
  state.group = null; // whoever selects a group says so afterwards
  element("selection").hidden = !chosen;
  element("chosen").textContent = `${count.toLocaleString("en-GB")} selected`;
  showSelection();
  say(chosen ? `${count} points selected` : "Nothing selected");
  recolor();
  tellSelection();
}

// A text that a spreadsheet would run as a formula gets an apostrophe before it, unless it is a number such as -1.5; cells
// with the separator of any locale are quoted. See OWASP, "CSV injection".
function cell(value) {
  const number = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(value);
  const text = /^[=+\-@\t\r\n＝＋－＠]/.test(value) && !number ? `'${value}` : value;
  return /[",;\t\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function csv() {
  const given = columns.filter((column) => !column.own);
  const groups = clades && clades.grouped ? ["leaf"] : [];
  const head = ["row", ...(names ? ["name"] : []), ...groups, ...(hasDisc ? ["x", "y"] : []), ...given.map((column) => column.name)];
  if (scaleSteps) head.push("posterior scale");
  const lines = [head.map(cell).join(",")];
  for (let i = 0; i < n; i++) {
    if (!state.selected[i]) continue;
    const row = [i, ...(names ? [cell(names[i])] : [])];
    if (groups.length) row.push(cell(clades.nameOf(clades.leafOf(i))));
    if (hasDisc) row.push(...ballOf(i));
    for (const column of given) row.push(column.kind === "number" ? plain(column.get(i)) : cell(column.text(i)));
    if (scaleSteps) row.push(scaleOf(i).toPrecision(6));
    lines.push(row.join(","));
  }
  return lines.join("\r\n") + "\r\n";
}

// A float32 with the digits it has, a missing value as an empty cell.
const plain = (x) => (Number.isNaN(x) ? "" : Number.isInteger(x) ? String(x) : String(Number(x.toPrecision(8))));

function download(name, blob) {
  const link = make("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const fileName = (ending) => `${(meta.title || "map").replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "") || "map"}.${ending}`;
