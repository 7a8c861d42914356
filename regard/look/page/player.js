/** The player: the five stages of every target step, played or stepped. */

import { h, replace, stillness } from "./dom.js";
import { icon } from "./icon.js";
import { say } from "./language.js";
import { hasAttention, traceAt } from "./record.js";
import { STAGES, drawStep, showStage, tellStage } from "./stages.js";
import { shown } from "./store.js";

const STAGE_TIME = 1500; // milliseconds at speed 1
const SPEEDS = [0.5, 1, 2, 4];

/** @typedef {import("./store.js").Store} Store */

/**
 * @param {HTMLElement} place
 * @param {Store} store
 */
export function mountPlayer(place, store) {
  const play = h("button", { class: "play", click: () => toggle(store) });
  const said = h("p", { class: "telling", "aria-live": "polite" });
  const word = h("p", { class: "at-word" });
  const stages = h("ol", { class: "stages" }, STAGES.map((name, index) =>
    h("li", {}, h("button", { "data-stage": index, click: () => go(store, at(store), index) }, say(`stage_${name}`)))));
  const speed = h("select", { "aria-label": say("speed"), change: (/** @type {Event} */ event) =>
    store.set({ speed: Number(/** @type {HTMLSelectElement} */ (event.target).value) }) },
    SPEEDS.map((value) => h("option", { value, selected: value === 1 }, `${value}×`)));
  const body = h("div", { class: "step-body" });
  place.append(
    h("h3", { id: "player-title" }, say("player")),
    h("p", { class: "hint" }, say("player_hint")),
    h("div", { class: "controls", role: "toolbar", "aria-labelledby": "player-title" },
      button("first", "first", () => go(store, 0, 0)), button("back", "previous", () => walk(store, -1)), play,
      button("on", "next", () => walk(store, 1)), speed, word),
    stages, said, body);
  place.addEventListener("keydown", (event) => keys(store, event));
  let drawn = "";
  /** @type {import("./record.js").Look | null} */
  let of = null;
  store.listen((state) => {
    const look = shown(state);
    place.hidden = look === null || !canPlay(look);
    if (look === null || place.hidden) return;
    [...stages.children].forEach((each, index) => each.toggleAttribute("hidden", !hasAttention(look) && index < 3));
    const vector = say(hasAttention(look) ? "stage_context" : "fixed_title");
    write(/** @type {HTMLElement} */ (stages.querySelector('[data-stage="3"]')), vector);
    replace(play, icon(state.playing ? "pause" : "play"));
    play.setAttribute("aria-label", say(state.playing ? "pause" : "play"));
    const step = at(store);
    const trace = traceAt(look, step, state);
    const wanted = `${step} ${trace?.layer} ${trace?.head}`;
    if (wanted !== drawn || of !== look) drawStep(body, look, step, trace);
    [drawn, of] = [wanted, look];
    showStage(body, state.stage);
    const pieces = look.steps.length;
    write(word, say("at_word", { word: step + 1, words: pieces, piece: look.steps[step].piece }));
    write(said, tellStage(look, step, trace, state.stage));
    for (const each of stages.querySelectorAll("button")) {
      each.setAttribute("aria-current", Number(each.dataset.stage) === state.stage ? "step" : "false");
    }
  });
  run(store);
}

/**
 * Whether the record has a trace; custom models may have none.
 * @param {import("./record.js").Look} look
 */
function canPlay(look) {
  return look.steps.length > 0 && (!hasAttention(look) || look.steps.some((each) => each.attention.length > 0));
}

/**
 * Write text only if it changed, so a screen reader announces it once.
 * @param {HTMLElement} element
 * @param {string} text
 */
function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * @param {import("./icon.js").Icon} sign
 * @param {import("./language.js").Phrase} name
 * @param {() => void} click
 */
function button(sign, name, click) {
  return h("button", { class: "round", "aria-label": say(name), title: say(name), click }, icon(sign));
}

/**
 * The current target step.
 * @param {Store} store
 */
function at({ state }) {
  const last = (shown(state)?.steps.length ?? 1) - 1;
  return state.kind === "encoder-self" ? 0 : Math.min(state.step ?? 0, last);
}

/**
 * @param {Store} store
 * @param {number} step
 * @param {number} stage
 */
function go(store, step, stage) {
  const kind = store.state.kind === "encoder-self" ? { kind: "cross", layer: null, head: null } : {};
  store.set({ ...kind, step, stage, position: null, pinned: false });
}

/**
 * Go one stage forward or back; false at the end.
 * @param {Store} store
 * @param {number} direction
 */
function walk(store, direction) {
  const look = shown(store.state);
  if (!look) return false;
  const { stage } = store.state;
  const step = store.state.step === null ? 0 : at(store);
  // Without attention there are no stages between vector and word.
  const first = hasAttention(look) ? 0 : 3;
  const next = stage + direction;
  if (store.state.step === null && direction > 0) go(store, 0, first);
  else if (next >= first && next < STAGES.length) go(store, step, next);
  else if (step + direction < 0 || step + direction >= look.steps.length) return false;
  else go(store, step + direction, direction > 0 ? first : STAGES.length - 1);
  return true;
}

/** @param {Store} store */
function toggle(store) {
  const { playing, step, stage } = store.state;
  const last = (shown(store.state)?.steps.length ?? 1) - 1;
  const ended = step === null || (step >= last && stage === STAGES.length - 1);
  if (!playing && ended) go(store, 0, 0);
  store.set({ playing: !playing });
}

/**
 * @param {Store} store
 * @param {KeyboardEvent} event
 */
function keys(store, event) {
  const target = /** @type {Element} */ (event.target);
  if (target.matches("select") || event.ctrlKey || event.metaKey || event.altKey) return;
  const on = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (event.key === " " && !target.matches("button:not(.play)")) toggle(store);
  else if (on && event.shiftKey) {
    const last = (shown(store.state)?.steps.length ?? 1) - 1;
    go(store, Math.max(0, Math.min(last, at(store) + on)), store.state.stage);
  } else if (on) walk(store, on);
  else return;
  event.preventDefault();
}

/**
 * Advance while playing.
 * @param {Store} store
 */
function run(store) {
  let timer = 0;
  store.listen((state, before) => {
    const clock = /** @type {const} */ (["playing", "speed", "stage", "step"]);
    if (clock.every((name) => state[name] === before[name])) return;
    clearTimeout(timer);
    if (!state.playing) return;
    const pause = (stillness() ? 1.4 : 1) * (STAGE_TIME / state.speed);
    timer = setTimeout(() => {
      if (!walk(store, 1)) store.set({ playing: false });
    }, pause);
  });
}
