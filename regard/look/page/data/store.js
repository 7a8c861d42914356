/** The state of the page. */

/**
 * @typedef {import("./record.js").Look} Look
 * @typedef {import("./record.js").Edit} Edit
 * @typedef {{prefix: number[], ban: number[], edits: Edit[]}} Change what was asked of the model beyond the sentence
 * @typedef {"text" | "image"} Mode what is looked at: a sentence or an image
 * @typedef {{blob: Blob, sample: string | null}} Upload an image; `sample` names one that the server drew
 * @typedef {{status: "loading" | "ready" | "error", error?: string, original?: Look,
 *   seen?: import("../images/seen.js").Seen, history: Changed[], busy?: boolean, preview?: Changed | null,
 *   tree?: Look | null}} Entry one model's looks, or what a classifier saw; `preview`: under a change still in hand
 * @typedef {{change: Change, look: Look}} Changed
 * @typedef {{kind: string, text: string}} Example a sentence to begin with, and what it shows
 * @typedef {{step: number, from: number, to: number, word: string, source: string, other: string}} Invitation
 *   a change that shows what a change can do: the ribbon of a word, moved from one source piece to another
 * @typedef {{name: string, kind: string, can_look: boolean, source: Mode, task?: "translate" | "caption" | "classify",
 *   parameters?: number, figure?: {metric: string, value: number, data: string} | null, source_language?: string,
 *   target_language?: string, examples?: Example[], sample?: "scenes" | "two-ears" | null}} Served a model of the server
 * @typedef {"matrix" | "steps" | "map" | "beam"} Panel
 * @typedef {Object} State
 * @property {boolean} live with a server behind it, or a file that only shows
 * @property {Served[]} models
 * @property {Record<string, number>} limits of a request
 * @property {Mode} mode
 * @property {Upload | null} picture the image that was last looked at
 * @property {string} text the sentence that was last translated
 * @property {string[]} chosen names of the models to translate with
 * @property {string | null} focus the model that is looked into
 * @property {string | null} beside the model it is compared with
 * @property {Record<string, Entry>} entries
 * @property {"words" | "pieces"} unit
 * @property {boolean} specials
 * @property {string} kind
 * @property {number | null} layer
 * @property {number | null} head
 * @property {{layer: number, head: number}[]} several heads shown at once, each in its colour; empty: one map
 * @property {boolean} many whether a click adds a head to those shown
 * @property {number | null} step the target piece in view (a source piece for encoder-self attention)
 * @property {boolean} lit whether only that word's ribbons are drawn; else the overview
 * @property {boolean} held whether the word was clicked, so that it stays lit
 * @property {number | null} from the source piece pointed at: who attends to it
 * @property {number | null} position the piece looked at, when a cell is in view
 * @property {boolean} pinned whether that cell was chosen
 * @property {number | null} reveal how many target units are on stage while the sentence is written; null: all
 * @property {Invitation | null} invitation
 * @property {boolean} peek whether the original is shown while a button is held
 * @property {Panel} panel what is shown under the ribbons
 * @property {import("../images/cells.js").Overlay} overlay how attention is drawn over an image
 * @property {number} threshold the least weight of a ribbon in the overview; 0: the strongest of each word
 * @property {number} stage of the player, 0 to 4
 * @property {boolean} playing
 * @property {number} speed
 * @property {number} beam width of the tree
 * @property {number | null} moment which validation of training is shown
 * @property {string} notice a line for everyone, read aloud too
 * @property {string} spoken a line that is only read aloud: the screen shows it already
 */

/** @type {Change} */
export const UNCHANGED = Object.freeze({ prefix: [], ban: [], edits: [] });

/** Nothing in view: what a new sentence starts with. */
export const NOWHERE = /** @type {const} */ ({
  step: null, lit: false, held: false, from: null, position: null, pinned: false, playing: false,
});

/** @type {State} */
export const START = {
  live: true,
  models: [],
  limits: {},
  mode: "text",
  picture: null,
  text: "",
  chosen: [],
  focus: null,
  beside: null,
  entries: {},
  unit: "words",
  specials: false,
  kind: "cross",
  layer: null,
  head: null,
  several: [],
  many: false,
  step: null,
  lit: false,
  held: false,
  from: null,
  position: null,
  pinned: false,
  reveal: null,
  invitation: null,
  peek: false,
  panel: "matrix",
  overlay: "contours",
  threshold: 0,
  stage: 0,
  playing: false,
  speed: 1,
  beam: 4,
  moment: null,
  notice: "",
  spoken: "",
};

/** A store that passes the previous state to its listeners. */
export class Store {
  /** @param {State} state */
  constructor(state) {
    this.state = state;
    /** @type {((state: State, before: State) => void)[]} */
    this.listeners = [];
  }

  /** @param {Partial<State>} patch */
  set(patch) {
    const before = this.state;
    this.state = { ...before, ...patch };
    for (const listener of this.listeners) listener(this.state, before);
  }

  /**
   * Change the entry of one model.
   * @param {string} name
   * @param {Partial<Entry>} patch
   */
  setEntry(name, patch) {
    const entry = this.state.entries[name] ?? { status: "loading", history: [] };
    this.set({ entries: { ...this.state.entries, [name]: { ...entry, ...patch } } });
  }

  /** @param {(state: State, before: State) => void} listener */
  listen(listener) {
    this.listeners.push(listener);
  }
}

/**
 * The models for text, or for images.
 * @param {State} state
 * @param {Mode} mode
 */
export function readers({ models }, mode) {
  return models.filter((model) => model.source === mode);
}

/**
 * Whether a model fits the current mode; a file shows all of its records.
 * @param {State} state
 * @param {string} name
 */
export function isShown(state, name) {
  return !state.live || state.models.some((model) => model.name === name && model.source === state.mode);
}

/**
 * The record of the opened classifier.
 * @param {State} state
 */
export function seenIn(state) {
  return (state.focus === null ? null : state.entries[state.focus]?.seen) ?? null;
}

/**
 * The opened entry, once loaded.
 * @param {State} state
 */
export function focused(state) {
  const entry = state.focus === null ? undefined : state.entries[state.focus];
  return entry?.original ? entry : null;
}

/**
 * What is on screen: under the change in hand, or the last change; null: the original.
 * @param {State} state
 */
function latest(state) {
  const entry = focused(state);
  if (!entry || state.peek) return null;
  return entry.preview ?? entry.history.at(-1) ?? null;
}

/**
 * The shown look: under the last change, or the original.
 * @param {State} state
 * @returns {Look | null}
 */
export function shown(state) {
  return latest(state)?.look ?? focused(state)?.original ?? null;
}

/**
 * What a model says now: under its last change, or the original.
 * @param {State} state
 * @param {string} name
 * @returns {Look | null}
 */
export function lookOf({ entries }, name) {
  return entries[name]?.history.at(-1)?.look ?? entries[name]?.original ?? null;
}

/**
 * The shown change.
 * @param {State} state
 * @returns {Change}
 */
export function changeOf(state) {
  return latest(state)?.change ?? UNCHANGED;
}

/**
 * The look before any change, if there is one.
 * @param {State} state
 */
export function originalOf(state) {
  return latest(state) === null ? null : (focused(state)?.original ?? null);
}
