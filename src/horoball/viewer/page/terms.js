// The words on the page, a sentence each: beside a word that has the pointer or the focus, and all of them behind "?".

const TERMS = {
  support: "How often a branch comes back when the rows are drawn anew, from 0 (never) to 1 (always).",
  chance: "The support that flat data, which have the same covariance and no groups, give a branch of this size; a branch with no more is dashed.",
  verdict: "What the whole tree shows beside flat data: no structure, clusters, nested groups or a branching tree.",
  branch: "A place where the tree splits, with all rows beyond it.",
  leaf: "An end of the tree: a row, or a group of rows.",
  depth: "How far from the root of the tree a branch splits.",
  level: "One of several sets of groups, from coarse to fine.",
  group: "Rows that carry the same name, of a level or of a category.",
  rim: "The edge of the disc, which is infinitely far away: near it things look small.",
  spread: "One standard deviation of a column over all rows; differences are given in spreads, so that columns can be compared.",
  medoid: "The row nearest to the average of its rows: the first of the typical rows.",
  "posterior scale": "How unsure the model is of a point's place: circles show one and two of them.",
  "distance from origin": "How far a point is from the place that the map starts at, in units of the geometry.",
  density: "Points per unit of area of the geometry; lines enclose 95, 80, 60, 35 and 12 % of the points.",
  here: "Among these rows: the mean of a number, or the share that has a category or a word.",
  rest: "The same among all other rows.",
};
const PLURALS = { branches: "branch", leaves: "leaf", levels: "level", groups: "group" };
const meaning = (word) => TERMS[PLURALS[word] || word];

// A term in a list; a word that has a meaning here can be reached by the keyboard too.
function term(word, tag = "dt", className = "") {
  const made = make(tag, undefined, className);
  const said = Object.hasOwn(TERMS, PLURALS[word] || word) ? meaning(word) : "";
  if (!said) {
    made.textContent = word;
    return made;
  }
  const mark = make("span", word, "term");
  mark.tabIndex = 0;
  mark.title = said;
  mark.setAttribute("aria-description", said);
  made.append(mark);
  return made;
}

// Browsers show titles to the pointer only: what has the focus is explained in the panel.
function explain(text) {
  element("meaning").textContent = text;
  element("meaning").hidden = !text;
}
document.addEventListener("focusin", (event) => explain(event.target.classList.contains("term") ? event.target.title : ""));

// Words that this page uses; without a tree there is no support.
function fillTerms() {
  const ofTree = ["support", "chance", "verdict", "branch", "leaf", "depth"];
  const ofDisc = ["rim", "distance from origin", "density"];
  const unused = new Set([
    ...(clades ? [] : ofTree),
    ...(clades && !clades.support ? ["support"] : []),
    ...(clades && !clades.chance ? ["chance"] : []),
    ...(clades && !clades.verdict ? ["verdict"] : []),
    ...(hasDisc ? [] : ofDisc),
    ...(isFlat ? ["rim", "distance from origin"] : []),
    ...(meta.levels ? [] : ["level"]),
    ...(scaleSteps ? [] : ["posterior scale"]),
  ]);
  const list = element("terms");
  for (const [word, said] of Object.entries(TERMS)) if (!unused.has(word)) list.append(make("dt", word), make("dd", said));
}
