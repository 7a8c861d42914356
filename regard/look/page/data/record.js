/** Units (words or pieces) and maps derived from a look record (regard-look/1). */

/**
 * @typedef {{text: string, word: number | null, unit?: number | null}} Piece
 * @typedef {{text: string, words: string[], units?: {text: string, word: number, unfamiliar?: string | null}[], pieces: Piece[]}} Side
 * @typedef {{piece: string, id: number, probability: number}} Candidate
 * @typedef {{kind: string, layer: number, head: number, query: number[], scores: (number | null)[],
 *   weights: number[], weighted_values: number[][], context: number[], centre: number | null,
 *   window: [number, number] | null, gaussian: number[] | null, asked?: number[] | null,
 *   rest?: (number | null)[] | null}} Trace
 * @typedef {{kind: string, layer: number, head: number, additive: boolean, size: number, dimensions: number[],
 *   factor: number[], keys: number[][]}} HeadKeys
 * @typedef {{piece: string, id: number, probability: number, candidates: Candidate[], attention: Trace[]}} Step
 * @typedef {{id: number, parent: number | null, step: number, piece: string, token: number, log_probability: number,
 *   score: number, state: "kept" | "pruned" | "finished" | "best"}} Node
 * @typedef {{kind: string, layer: number | null, head: number | null, step: number | null,
 *   position: number | null, replace?: number | null, multiply?: number | null}} Edit
 * @typedef {{width: number, height: number, rows: number, columns: number, png: string}} Picture
 * @typedef {{format: string, model: any, source: Side, target: Side, score: number, log_probability: number,
 *   finished: boolean, mean_probability?: number | null, doubtful?: boolean, forced: boolean, prefix: number, alignment: number[][] | null,
 *   attention: Record<string, number[][][][]>, steps: Step[], keys?: HeadKeys[], shown_dimensions: number, dimensions?: any,
 *   fixed_vector: number[] | null, image?: Picture | null, intervention: {ban: number[], edits: Edit[]} | null,
 *   beam: {nodes: Node[]} | null, over_time: any[] | null,
 *   gold?: {target: string, sure: [number, number][], possible: [number, number][]} | null,
 *   measures?: Record<string, {words: [number[], number[]], pieces: [number[], number[]]}>}} Look
 * @typedef {{label: string, pieces: number[], special: boolean}} Unit a word or a piece, and the pieces it is made of
 * @typedef {{kind: string, layer: number | null, head: number | null}} View which map is shown; null: not one alone
 */

/**
 * The rows or columns: words (with their pieces) or single pieces, with or without special tokens.
 * @param {Side} side
 * @param {"words" | "pieces"} unit
 * @param {boolean} specials
 * @returns {Unit[]}
 */
export function unitsOf(side, unit, specials) {
  /** @type {Unit[]} */
  const units = unit === "words" ? labelsOf(side).map((label) => ({ label, pieces: [], special: false })) : [];
  side.pieces.forEach((piece, index) => {
    const special = piece.word === null;
    if (special && !specials) return;
    if (unit === "words" && !special) units[/** @type {number} */ (piece.unit ?? piece.word)]?.pieces.push(index);
    else units.push({ label: piece.text, pieces: [index], special });
  });
  return units.filter((each) => each.pieces.length > 0).sort((one, other) => one.pieces[0] - other.pieces[0]);
}

/**
 * The words of a sentence, punctuation apart.
 * @param {Side} side
 */
export function labelsOf(side) {
  return side.units?.map((each) => each.text) ?? side.words;
}

/**
 * The probability of a word: the geometric mean over its pieces.
 * @param {Look} look
 * @param {Unit} unit
 */
export function probabilityOf(look, unit) {
  const product = unit.pieces.reduce((all, piece) => all * (look.steps[piece]?.probability ?? 1), 1);
  return product ** (1 / unit.pieces.length);
}

/**
 * The sentences of queries (rows) and keys (columns) for a kind of attention.
 * @param {Look} look
 * @param {string} kind
 */
export function sidesOf(look, kind) {
  return {
    rows: kind === "encoder-self" ? look.source : look.target,
    columns: kind === "decoder-self" ? readSoFar(look.target) : look.source,
  };
}

/**
 * The decoder's inputs: <s>, then each target piece but the last.
 * @param {Side} target
 * @returns {Side}
 */
function readSoFar(target) {
  return { ...target, pieces: [{ text: "<s>", word: null, unit: null }, ...target.pieces.slice(0, -1)] };
}

/**
 * The weights between pieces of the selected map: a head, the mean of a layer, or the alignment.
 * @param {Look} look
 * @param {View} view
 * @returns {number[][] | null}
 */
export function mapOf(look, view) {
  const layers = look.attention[view.kind];
  if (view.kind === "cross" && view.layer === null && look.alignment) return look.alignment;
  if (!layers) return null;
  const chosen = view.layer === null ? layers : [layers[Math.min(view.layer, layers.length - 1)]];
  const maps = chosen.flatMap((heads) =>
    view.head === null ? heads : [heads[Math.min(view.head, heads.length - 1)]],
  );
  return maps.length === 1 ? maps[0] : mean(maps);
}

/** @param {number[][][]} maps */
function mean(maps) {
  return maps[0].map((row, t) => row.map((_, j) => maps.reduce((sum, map) => sum + map[t][j], 0) / maps.length));
}

/**
 * A map between units: summed over key pieces, averaged over query pieces.
 * @param {number[][]} map
 * @param {Unit[]} rows
 * @param {Unit[]} columns
 */
export function gather(map, rows, columns) {
  return rows.map((row) =>
    columns.map((column) => {
      let sum = 0;
      for (const t of row.pieces) for (const j of column.pieces) sum += map[t]?.[j] ?? 0;
      return sum / row.pieces.length;
    }),
  );
}

/**
 * Entropy of the shown rows and coverage of the shown columns, from the record; null if missing.
 * @param {Look} look
 * @param {string} name of the map in `look.measures`
 * @param {"words" | "pieces"} unit
 * @param {Unit[]} rows
 * @param {Unit[]} columns
 */
export function measuresOf(look, name, unit, rows, columns) {
  const [entropy, coverage] = look.measures?.[name]?.[unit] ?? [null, null];
  if (!entropy || !coverage) return null;
  return { entropy: rows.map((row) => entropy[row.pieces[0]]), coverage: columns.map((one) => coverage[one.pieces[0]]) };
}

/**
 * The key of the selected map in `look.measures`.
 * @param {Look} look
 * @param {View} view
 */
export function nameOf(look, view) {
  if (view.kind === "cross" && view.layer === null && look.alignment) return "alignment";
  const layers = look.attention[view.kind] ?? [];
  const layer = view.layer === null ? [] : [Math.min(view.layer, layers.length - 1)];
  const head = view.head === null ? [] : [Math.min(view.head, (layers[0]?.length ?? 1) - 1)];
  return [view.kind, ...layer, ...head].join("/");
}

/**
 * The unit that holds a piece, or -1.
 * @param {Unit[]} units
 * @param {number | null} piece
 */
export function unitAt(units, piece) {
  return piece === null ? -1 : units.findIndex((unit) => unit.pieces.includes(piece));
}

/**
 * The trace of the selected head at a step; without a selected head, the one closest to the alignment over the sentence.
 * @param {Look} look
 * @param {number} step
 * @param {View} view
 * @returns {Trace | null}
 */
export function traceAt(look, step, view) {
  const traces = tracesOf(look, step);
  if (traces.length === 0 || view.kind !== "cross") return null;
  const wanted = view.layer !== null && view.head !== null ? view : { ...closestHead(look, view.layer) };
  return traces.find((trace) => trace.layer === wanted.layer && trace.head === wanted.head) ?? traces[0];
}

/**
 * @param {Look} look
 * @param {number} step
 */
function tracesOf(look, step) {
  return (look.steps[step]?.attention ?? []).filter((trace) => trace.kind === "cross");
}

/** @type {WeakMap<Look, Map<number | null, {layer: number, head: number}>>} */
const closest = new WeakMap();

/**
 * One head for the whole sentence, of one layer or of all, so that playing does not jump between heads.
 * @param {Look} look
 * @param {number | null} layer
 */
function closestHead(look, layer) {
  const known = closest.get(look) ?? new Map();
  closest.set(look, known);
  if (!known.has(layer)) {
    /** @type {Map<string, {layer: number, head: number, distance: number}>} */
    const heads = new Map();
    look.steps.forEach((_, step) => {
      const row = look.alignment?.[step] ?? [];
      for (const trace of tracesOf(look, step)) {
        if (layer !== null && trace.layer !== layer) continue;
        const name = `${trace.layer} ${trace.head}`;
        const distance = trace.weights.reduce((sum, weight, j) => sum + Math.abs(weight - (row[j] ?? 0)), 0);
        const before = heads.get(name)?.distance ?? 0;
        heads.set(name, { layer: trace.layer, head: trace.head, distance: before + distance });
      }
    });
    known.set(layer, [...heads.values()].sort((one, other) => one.distance - other.distance)[0] ?? { layer: 0, head: 0 });
  }
  return /** @type {{layer: number, head: number}} */ (known.get(layer));
}

const MOST_PLACES = 14; // keys whose numbers are shown at a time

/**
 * The keys of a step: the source pieces in their order, or those or the image cells with the largest weights.
 * @param {Look} look
 * @param {Trace} trace
 * @returns {{label: string, position: number}[]}
 */
export function placesOf(look, trace) {
  const all = trace.weights.map((value, position) => ({ value, position }));
  const kept = all.length <= MOST_PLACES ? all : all.toSorted((one, other) => other.value - one.value).slice(0, MOST_PLACES);
  if (!look.image) {
    return kept.sort((one, other) => one.position - other.position)
      .map(({ position }) => ({ label: look.source.pieces[position]?.text ?? "", position }));
  }
  const { columns } = look.image;
  return kept.map(({ position }) => ({ label: `${Math.floor(position / columns) + 1}, ${(position % columns) + 1}`, position }));
}

/** @param {Look} look */
export function hasAttention(look) {
  return look.alignment !== null || Object.keys(look.attention).length > 0;
}

/**
 * The number of layers and heads of a kind of attention.
 * @param {Look} look
 * @param {string} kind
 */
export function headsOf(look, kind) {
  const layers = look.attention[kind] ?? [];
  return { layers: layers.length, heads: layers[0]?.length ?? 0 };
}

/**
 * The true size of the fixed vector.
 * @param {Look} look
 */
export function vectorSize(look) {
  return look.dimensions?.summary ?? look.fixed_vector?.length ?? 0;
}
