/** The ribbons themselves: which are drawn, where, how thick; the ones in hand, changed and gone. */

import { unitAt } from "../data/record.js";
import { put, s } from "../drawing/dom.js";
import { weight as written } from "../drawing/number.js";

const FAINTEST = 0.03; // weights below it have no ribbon
const TOLD = 0.05; // weights from here on have their number written while one word is lit

/**
 * @typedef {import("../data/table.js").Table} Table
 * @typedef {import("./ribbons.js").Scene} Scene
 * @typedef {{x: number, y: number}} Point
 * @typedef {{row: number, column: number, to: number, at: Point}} Held a ribbon in hand: where it was, and is
 * @typedef {{row: number, column: number, value: number, key: string, head?: number}} Link `head`: among several
 */

/**
 * @param {Scene} scene
 * @param {Table} table
 * @param {import("../data/store.js").State} state
 * @param {{held: Held | null, old: Table | null}} more
 */
export function drawLines(scene, table, state, { held, old }) {
  const { drawing, stage, above, below } = scene;
  if (above.children.length !== table.columns.length || below.children.length !== table.rows.length) return;
  const upright = stage.dataset.layout === "lines";
  scene.ends ??= anchors(scene, upright);
  const { above: ends, below: starts } = scene.ends;
  if (table.several) {
    paintSeveral(drawing, table, state, { starts, ends, upright });
    return paintGrips(drawing, state, table, [], null, { starts, ends, upright });
  }
  const place = (/** @type {Link} */ link) => curve(starts[link.row], ends[link.column], upright);
  const edited = changedRows(table, old);
  const drawn = links(table, state, held);
  for (const link of ghosts(table, old, edited, state)) drawn.push(link);
  paint(drawing, drawn, (link) => ({
    d: place(link),
    class: ["ribbon", link.key, edited.has(link.row) && link.key !== "ghost" && "edited"].filter(Boolean).join(" "),
    "stroke-width": (1.5 + 12.5 * Math.min(link.value, 1)).toFixed(2),
    "stroke-opacity": link.key === "ghost" ? "1" : (0.16 + (link.key === "chosen" ? 0.72 : 0.5) * Math.min(link.value, 1)).toFixed(3),
  }));
  paintGrips(drawing, state, table, drawn, held, { starts, ends, upright });
}

/**
 * The ribbons of several heads, each in its colour, side by side.
 * @param {SVGElement} drawing
 * @param {Table} table
 * @param {import("../data/store.js").State} state
 * @param {{starts: Point[], ends: Point[], upright: boolean}} places
 */
function paintSeveral(drawing, table, state, { starts, ends, upright }) {
  const several = table.several ?? [];
  const drawn = several.flatMap(({ weights }, head) => links({ ...table, weights }, state, null).map((link) => ({ ...link, head })));
  const aside = (/** @type {Point} */ { x, y }, /** @type {number} */ head) => {
    const by = (head - (several.length - 1) / 2) * 4;
    return upright ? { x: x + by, y } : { x, y: y + by };
  };
  paint(drawing, drawn, ({ row, column, value, key, head = 0 }) => ({
    d: curve(aside(starts[row], head), aside(ends[column], head), upright),
    class: `ribbon ${key} head-${head + 1}`,
    "stroke-width": (1.5 + 6 * Math.min(value, 1)).toFixed(2),
    "stroke-opacity": (0.3 + 0.6 * Math.min(value, 1)).toFixed(3),
  }));
}

/**
 * Where ribbons end at all words; the drawing is made as large as its stage.
 * @param {Scene} scene
 * @param {boolean} upright
 */
function anchors({ drawing, stage, above, below }, upright) {
  drawing.setAttribute("width", "0"); // so that its own old size is not measured
  drawing.setAttribute("height", "0");
  const frame = stage.getBoundingClientRect();
  const shift = { x: stage.scrollLeft - frame.x - stage.clientLeft, y: stage.scrollTop - frame.y - stage.clientTop };
  const ends = {
    above: [...above.children].map((word) => anchor(word, upright, shift, "source")),
    below: [...below.children].map((word) => anchor(word, upright, shift, "target")),
  };
  const [width, height] = [stage.scrollWidth, stage.scrollHeight];
  drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
  drawing.setAttribute("width", String(width));
  drawing.setAttribute("height", String(height));
  return ends;
}

/**
 * The end of a ribbon at a word, outside of its letters.
 * @param {Element} word
 * @param {boolean} upright
 * @param {Point} shift
 * @param {"source" | "target"} side
 * @returns {Point}
 */
function anchor(word, upright, shift, side) {
  const box = word.getBoundingClientRect();
  if (upright) return { x: box.x + box.width / 2 + shift.x, y: (side === "source" ? box.bottom + 2 : box.top - 2) + shift.y };
  const x = side === "source" ? box.right + 4 : box.left - 4;
  return { x: x + shift.x, y: box.y + box.height / 2 + shift.y };
}

/**
 * @param {Point} from
 * @param {Point} to
 * @param {boolean} upright
 */
export function curve(from, to, upright) {
  const half = upright ? (from.y + to.y) / 2 : (from.x + to.x) / 2;
  const points = upright ? [from.x, half, to.x, half, to.x, to.y] : [half, from.y, half, to.y, to.x, to.y];
  const text = points.map((each) => each.toFixed(1)).join(" ");
  return `M${from.x.toFixed(1)} ${from.y.toFixed(1)}C${text}`;
}

/**
 * Which links are drawn: of the lit word, to the source word pointed at, or the overview.
 * @param {Table} table
 * @param {import("../data/store.js").State} state
 * @param {Held | null} held
 * @returns {Link[]}
 */
function links(table, state, held) {
  const lit = state.lit ? unitAt(table.rows, state.step) : -1;
  const column = unitAt(table.columns, state.from);
  const active = held?.row ?? lit;
  /** @type {Link[]} */
  const found = [];
  table.weights.forEach((row, t) => {
    if (state.reveal !== null && t >= state.reveal) return;
    const best = row.indexOf(Math.max(...row));
    row.forEach((value, j) => {
      if (value < FAINTEST || (held && t === held.row && j === held.column)) return;
      const strong = j === best || (state.threshold > 0 && value >= state.threshold);
      if (active >= 0 ? t === active : column >= 0 && j === column) found.push({ row: t, column: j, value, key: "chosen" });
      else if (strong) found.push({ row: t, column: j, value, key: active >= 0 || column >= 0 ? "quiet" : "rest" });
    });
  });
  return found;
}

/**
 * The rows whose words or weights are no longer the original's.
 * @param {Table} table
 * @param {Table | null} old
 */
function changedRows(table, old) {
  const rows = new Set();
  if (old === null) return rows;
  const edits = table.look.intervention?.edits ?? [];
  table.rows.forEach((unit, t) => {
    const edited = edits.some((edit) => edit.kind === table.view.kind && unit.pieces.includes(edit.step ?? -1));
    if (edited || unit.label !== old.rows[t]?.label) rows.add(t);
  });
  return rows;
}

/**
 * The original's strongest ribbons of changed rows.
 * @param {Table} table
 * @param {Table | null} old
 * @param {Set<number>} changed
 * @param {import("../data/store.js").State} state
 * @returns {Link[]}
 */
function ghosts(table, old, changed, state) {
  if (old === null || state.reveal !== null) return [];
  const lit = state.lit ? unitAt(table.rows, state.step) : -1;
  return [...changed].filter((t) => (lit < 0 || lit === t) && old.weights[t]).flatMap((t) => {
    const best = old.weights[t].indexOf(Math.max(...old.weights[t]));
    const column = table.columns.findIndex((unit) => unit.pieces[0] === old.columns[best]?.pieces[0]);
    const now = table.weights[t].indexOf(Math.max(...table.weights[t]));
    return column < 0 || column === now ? [] : [{ row: t, column, value: old.weights[t][best], key: "ghost" }];
  });
}

/**
 * Keep a path for each link, so that it moves and fades instead of jumping.
 * @param {SVGElement} drawing
 * @param {Link[]} drawn
 * @param {(link: Link) => Record<string, string>} looks
 */
function paint(drawing, drawn, looks) {
  const group = child(drawing, "g.lines", () => s("g", { class: "lines" }));
  /** @type {Map<string, Element>} */
  const known = new Map([...group.children].map((path) => [path.getAttribute("data-link") ?? "", path]));
  for (const link of drawn) {
    const name = [link.key === "ghost" && "ghost", link.row, link.column, link.head].filter((part) => part !== false && part !== undefined).join(" ");
    const path = known.get(name) ?? s("path", { "data-link": name, pathLength: 1 });
    known.delete(name);
    put(path, looks(link));
    if (!path.parentNode) group.append(path);
    else if (link.key === "chosen" && path !== group.lastElementChild && !group.querySelector(".chosen ~ .quiet, .chosen ~ .rest")) continue;
  }
  for (const path of known.values()) path.remove();
}

/**
 * What can be taken hold of: a wide invisible copy of each ribbon and, for the lit word, a knob and a number at its end.
 * @param {SVGElement} drawing
 * @param {import("../data/store.js").State} state
 * @param {Table} table
 * @param {Link[]} drawn
 * @param {Held | null} held
 * @param {{starts: Point[], ends: Point[], upright: boolean}} places
 */
function paintGrips(drawing, state, table, drawn, held, { starts, ends, upright }) {
  const group = child(drawing, "g.grips", () => s("g", { class: "grips" }));
  const made = [];
  const { invitation, live } = state;
  for (const link of drawn) {
    if (link.key === "ghost" || link.key === "quiet") continue;
    const { row, column, value } = link;
    const end = ends[column];
    if (live && !held) {
      const grip = { "data-row": row, "data-column": column };
      made.push(s("path", { ...grip, class: "grip", d: curve(starts[row], end, upright) }));
      const invited = invitation !== null && table.rows[row].pieces.includes(invitation.step) &&
        table.columns[column].pieces.includes(invitation.from);
      if (link.key === "chosen" || invited) {
        made.push(s("circle", { ...grip, class: invited ? "knob invited" : "knob", cx: end.x, cy: end.y + (upright ? 5 : 0), r: 5 }));
      }
    }
    if (link.key === "chosen" && value >= TOLD && state.from === null) {
      const at = upright ? { x: end.x + 10, y: end.y + 12 } : { x: end.x + 10, y: end.y - 8 };
      made.push(s("text", { ...at, class: "link-weight" }, written(value)));
    }
  }
  if (held) {
    made.push(s("path", { class: "ribbon in-hand", d: curve(starts[held.row], held.at, upright) }),
      s("circle", { class: "knob in-hand", cx: held.at.x, cy: held.at.y, r: 8 }));
  }
  group.replaceChildren(...made);
}

/**
 * @param {SVGElement} drawing
 * @param {string} selector
 * @param {() => SVGElement} make
 * @returns {SVGElement}
 */
function child(drawing, selector, make) {
  const found = drawing.querySelector(selector);
  if (found) return /** @type {SVGElement} */ (found);
  const made = make();
  drawing.append(made);
  return made;
}
