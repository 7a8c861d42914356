/** Both sentences, with ribbons from each target word to the source words it attends to. */

import { toggleBan } from "./actions.js";
import { h, onceAFrame, replace, s } from "./dom.js";
import { say } from "./language.js";
import { weight } from "./number.js";
import { traceAt, unitAt } from "./record.js";
import { changeOf } from "./store.js";

const FAINTEST = 0.03;

/**
 * @typedef {import("./record.js").Unit} Unit
 * @typedef {import("./table.js").Table} Table
 */

/**
 * @param {HTMLElement} place
 * @param {import("./store.js").Store} store
 * @param {import("./table.js").Tables} tables
 */
export function mountRibbons(place, store, tables) {
  const drawing = s("svg", { class: "ribbon-lines", "aria-hidden": "true" });
  const above = h("p", { class: "sentence", dir: "auto" });
  const below = h("p", { class: "sentence", dir: "auto" });
  const names = [h("span", { class: "side-name" }), h("span", { class: "side-name" })];
  const hint = h("p", { class: "hint" });
  const stage = h("div", { class: "ribbons" }, drawing, names[0], above, h("div", { class: "gap" }), below, names[1]);
  place.append(h("h3", {}, say("ribbons")), hint, stage);
  const redraw = onceAFrame(() => draw(drawing, stage, above, below, tables.current, store));
  new ResizeObserver(redraw).observe(stage);

  tables.listen((table) => {
    place.hidden = table === null;
    if (table === null) return;
    const ownWords = table.view.kind !== "cross";
    const mayBan = store.state.live && table.view.kind !== "decoder-self";
    hint.textContent = say("ribbons_hint") + (mayBan ? " " + say("ribbons_ban") : "");
    names[0].textContent = say(table.view.kind === "decoder-self" ? "to_target" : "from_source");
    names[1].textContent = say(table.view.kind === "encoder-self" ? "from_source" : "to_target");
    replace(above, ...spaced(table.columns.map((unit) => sourceWord(store, unit, mayBan))));
    replace(below, ...spaced(table.rows.map((unit) => targetWord(store, unit))));
    stage.classList.toggle("own-words", ownWords);
    mark(above, below, tables.current, store);
    redraw();
  });
  store.listen((state, before) => {
    if (state.step === before.step && state.position === before.position) return;
    mark(above, below, tables.current, store);
    redraw();
  });
  document.fonts?.ready.then(redraw);
}

/** @param {HTMLElement[]} words */
function spaced(words) {
  return words.flatMap((word) => [word, " "]);
}

/**
 * @param {import("./store.js").Store} store
 * @param {Unit} unit
 * @param {boolean} mayBan
 */
function sourceWord(store, unit, mayBan) {
  const { ban } = changeOf(store.state);
  const banned = unit.pieces.every((piece) => ban.includes(piece));
  const look = () => store.state.pinned || store.set({ position: unit.pieces[0] });
  const leave = () => store.state.pinned || store.set({ position: null });
  const pointing = { pointerenter: look, pointerleave: leave };
  if (!mayBan) return h("span", { class: "word", ...pointing }, h("bdi", {}, unit.label));
  const label = say(banned ? "allow_word" : "ban_word", { word: unit.label });
  return h(
    "button",
    {
      class: banned ? "word banned" : "word",
      "aria-pressed": banned,
      "aria-label": label,
      title: label,
      ...pointing,
      focus: look,
      blur: leave,
      click: () => toggleBan(store, unit),
    },
    h("bdi", {}, unit.label),
  );
}

/**
 * @param {import("./store.js").Store} store
 * @param {Unit} unit
 */
function targetWord(store, unit) {
  const look = () => {
    if (!store.state.playing) store.set({ step: unit.pieces[0], position: null, pinned: false });
  };
  return h(
    "button",
    { class: "word target", pointerenter: look, focus: look, click: look },
    h("bdi", {}, unit.label),
  );
}

/**
 * Mark the current words and the local window.
 * @param {HTMLElement} above
 * @param {HTMLElement} below
 * @param {Table | null} table
 * @param {import("./store.js").Store} store
 */
function mark(above, below, table, store) {
  if (table === null) return;
  const { step, position } = store.state;
  const row = unitAt(table.rows, step);
  const column = unitAt(table.columns, position);
  const weights = row >= 0 ? table.weights[row] : [];
  const trace = table.view.kind === "cross" && step !== null ? traceAt(table.look, step, table.view) : null;
  [...above.children].forEach((word, j) => {
    const unit = table.columns[j];
    const [first, last] = trace?.window ?? [0, -1];
    word.classList.toggle("in-window", unit.pieces.some((piece) => piece >= first && piece <= last));
    word.classList.toggle("here", j === column);
    /** @type {HTMLElement} */ (word).style.setProperty("--weight", String(Math.min(weights[j] ?? 0, 1)));
  });
  [...below.children].forEach((word, t) => {
    const here = t === row;
    word.classList.toggle("here", here);
    if (here) word.setAttribute("aria-current", "true");
    else word.removeAttribute("aria-current");
    word.setAttribute("aria-label", spoken(table, t));
  });
}

/**
 * "“chat” looked at “cat” 0.93, “the” 0.05."
 * @param {Table} table
 * @param {number} row
 */
export function spoken(table, row) {
  const places = table.weights[row]
    .map((value, j) => ({ value, word: table.columns[j].label }))
    .filter((each) => each.value >= 0.1)
    .sort((one, other) => other.value - one.value)
    .slice(0, 3)
    .map((each) => say("of_weight", { word: each.word, weight: weight(each.value) }));
  return say("looks_at", { word: table.rows[row].label, places: places.join(", ") || "–" });
}

/**
 * @param {SVGElement} drawing
 * @param {HTMLElement} stage
 * @param {HTMLElement} above
 * @param {HTMLElement} below
 * @param {Table | null} table
 * @param {import("./store.js").Store} store
 */
function draw(drawing, stage, above, below, table, store) {
  if (table === null || stage.offsetParent === null) return;
  const frame = stage.getBoundingClientRect();
  const ends = [...above.children].map((word) => word.getBoundingClientRect());
  const starts = [...below.children].map((word) => word.getBoundingClientRect());
  if (ends.length !== table.columns.length || starts.length !== table.rows.length) return;
  drawing.setAttribute("viewBox", `0 0 ${frame.width} ${frame.height}`);
  drawing.setAttribute("width", String(frame.width));
  drawing.setAttribute("height", String(frame.height));
  const active = unitAt(table.rows, store.state.step);
  const column = unitAt(table.columns, store.state.position);
  const quiet = [];
  const loud = [];
  table.weights.forEach((row, t) =>
    row.forEach((value, j) => {
      if (value < FAINTEST) return;
      const chosen = active >= 0 ? t === active : column < 0 || j === column;
      const from = { x: starts[t].x + starts[t].width / 2 - frame.x, y: starts[t].y - frame.y };
      const to = { x: ends[j].x + ends[j].width / 2 - frame.x, y: ends[j].bottom - frame.y };
      (chosen ? loud : quiet).push(ribbon(from, to, value, chosen && active >= 0));
    }),
  );
  replace(drawing, ...quiet.map((line) => (line.classList.add("quiet"), line)), ...loud);
}

/**
 * @param {{x: number, y: number}} from
 * @param {{x: number, y: number}} to
 * @param {number} value
 * @param {boolean} chosen
 */
function ribbon(from, to, value, chosen) {
  const middle = (from.y + to.y) / 2;
  const points = [from.x, from.y, from.x, middle, to.x, middle, to.x, to.y].map((each) => each.toFixed(1));
  const strength = Math.min(value, 1);
  return s("path", {
    d: `M${points.slice(0, 2).join(" ")}C${points.slice(2).join(" ")}`,
    class: chosen ? "ribbon chosen" : "ribbon",
    "stroke-width": (1 + 11 * strength).toFixed(2),
    "stroke-opacity": (0.12 + (chosen ? 0.78 : 0.42) * strength).toFixed(3),
  });
}
