/** The controls under the ribbons: play, step, and a scrubber over the words of what is selected. */

import { hasAttention, unitAt, unitsOf } from "../data/record.js";
import { shown } from "../data/store.js";
import { h, hide, put, replace, stillness, write } from "../drawing/dom.js";
import { icon } from "../drawing/icon.js";
import { say } from "../language/language.js";
import { STAGES } from "./stages.js";

const STAGE_TIME = 1300; // milliseconds at speed 1
const WORD_TIME = 800;
const SPEEDS = [0.5, 1, 2, 4];

/** @typedef {import("../data/store.js").Store} Store */

/**
 * @param {HTMLElement} place
 * @param {Store} store
 * @param {import("../data/table.js").Tables} tables
 */
export function mountPlayer(place, store, tables) {
  const film = new Film(store, tables);
  const play = h("button", { class: "play", click: () => film.toggle() });
  const word = h("p", { class: "at-word", "aria-live": "off" });
  const scrub = /** @type {HTMLInputElement} */ (
    h("input", { type: "range", min: 0, step: 1, "aria-label": say("scrub"), class: "scrub" }));
  scrub.addEventListener("input", () => film.go(Number(scrub.value), store.state.stage));
  const speed = h("select", { "aria-label": say("speed"), change: (/** @type {Event} */ event) =>
    store.set({ speed: Number(/** @type {HTMLSelectElement} */ (event.target).value) }) },
    SPEEDS.map((value) => h("option", { value, selected: value === 1 }, `${value}×`)));
  place.append(h("div", { class: "controls", role: "toolbar", "aria-label": say("player") },
    button("back", "previous", () => film.walk(-1)), play, button("on", "next", () => film.walk(1)), scrub, word, speed));
  document.addEventListener("keydown", (event) => keys(film, event, place));
  const show = (/** @type {import("../data/store.js").State} */ state) => {
    const rows = film.rows();
    hide(place, rows.length < 2);
    if (place.hidden) return;
    if (play.dataset.playing !== String(state.playing)) {
      play.dataset.playing = String(state.playing);
      replace(play, icon(state.playing ? "pause" : "play"));
      play.setAttribute("aria-label", say(state.playing ? "pause" : "play"));
      play.title = say("play_key");
    }
    const row = Math.max(0, film.row());
    put(scrub, { max: String(rows.length - 1) });
    scrub.value = String(row);
    const told = say("at_word", { word: row + 1, words: rows.length, piece: rows[row]?.label ?? "" });
    write(word, told);
    put(scrub, { "aria-valuetext": told });
  };
  store.listen(show);
  tables.listen(() => show(store.state));
  film.run();
}

/**
 * @param {import("../drawing/icon.js").Icon} sign
 * @param {import("../language/language.js").Phrase} name
 * @param {() => void} click
 */
function button(sign, name, click) {
  return h("button", { class: "round", "aria-label": say(name), title: say(name), click }, icon(sign));
}

/** The rows of the selected map, one after the other; each in its stages while the steps are open. */
class Film {
  /**
   * @param {Store} store
   * @param {import("../data/table.js").Tables} tables
   */
  constructor(store, tables) {
    this.store = store;
    this.tables = tables;
  }

  /** The words that are played: the rows of the map, or the target of a model without one. */
  rows() {
    const { unit, specials } = this.store.state;
    const look = shown(this.store.state);
    if (this.store.state.panel === "steps" && look && this.staged()) return unitsOf(look.target, "pieces", true);
    return this.tables.current?.rows ?? (look ? unitsOf(look.target, unit, specials) : []);
  }

  row() {
    return unitAt(this.rows(), this.store.state.step);
  }

  /** Whether each word has stages: the steps are open, and the record has the numbers of what is selected. */
  staged() {
    const { panel, kind, moment } = this.store.state;
    return panel === "steps" && (kind === "cross" || !hasAttention(/** @type {any} */ (shown(this.store.state)))) && moment === null;
  }

  /** Without attention there are no stages between vector and word. */
  first() {
    const look = shown(this.store.state);
    return look && hasAttention(look) ? 0 : 3;
  }

  /**
   * @param {number} row
   * @param {number} stage
   */
  go(row, stage) {
    const unit = this.rows()[row];
    if (!unit) return;
    this.store.set({ step: unit.pieces[0], stage, lit: true, from: null, position: null, pinned: false });
  }

  /**
   * One stage or one word on or back; false at the end.
   * @param {number} direction
   */
  walk(direction) {
    const rows = this.rows();
    const row = this.row();
    const { stage } = this.store.state;
    if (row < 0) {
      if (direction > 0) this.go(0, this.first());
      return direction > 0 && rows.length > 0;
    }
    const next = stage + direction;
    if (this.staged() && next >= this.first() && next < STAGES.length) this.go(row, next);
    else if (row + direction < 0 || row + direction >= rows.length) return false;
    else this.go(row + direction, direction > 0 ? this.first() : STAGES.length - 1);
    return true;
  }

  toggle() {
    const { playing, stage, reveal } = this.store.state;
    if (reveal !== null) this.store.set({ reveal: null });
    const row = this.row();
    const over = row >= this.rows().length - 1 && (!this.staged() || stage === STAGES.length - 1);
    if (!playing && (row < 0 || over)) this.go(0, this.first());
    this.store.set({ playing: !playing, lit: !playing, held: false });
  }

  /** Advance while playing. */
  run() {
    let timer = 0;
    this.store.listen((state, before) => {
      const clock = /** @type {const} */ (["playing", "speed", "stage", "step", "panel"]);
      if (clock.every((name) => state[name] === before[name])) return;
      clearTimeout(timer);
      if (!state.playing) return;
      const pause = (stillness() ? 1.4 : 1) * ((this.staged() ? STAGE_TIME : WORD_TIME) / state.speed);
      timer = setTimeout(() => {
        if (!this.walk(1)) this.store.set({ playing: false, lit: false });
      }, pause);
    });
  }
}

/**
 * Space plays everywhere outside of fields; the arrows step where nothing else uses them.
 * @param {Film} film
 * @param {KeyboardEvent} event
 * @param {HTMLElement} place
 */
function keys(film, event, place) {
  const target = /** @type {Element} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || place.hidden || event.defaultPrevented) return;
  if (target.closest("textarea, input, select, summary, .cells") || film.rows().length === 0) return;
  const on = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (event.key === " " && !target.closest("button, a")) film.toggle();
  else if (on && !target.closest(".cell, .matrix")) {
    if (event.shiftKey) film.go(Math.max(0, film.row() + on), film.store.state.stage);
    else film.walk(on);
  } else return;
  event.preventDefault();
}
