/** The server's own API: which models there are, and a look at a sentence. */

/**
 * @typedef {import("./record.js").Look} Look
 * @typedef {import("./store.js").Change} Change
 */

/** A refusal of the server, in its own words. */
export class Refusal extends Error {
  /**
   * @param {string} message
   * @param {number} status 0 when no answer came
   */
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

let key = "";

/**
 * Send this key with every request from now on.
 * @param {string} value
 */
export function useKey(value) {
  key = value;
}

/** @returns {Promise<{models: import("./store.js").Served[], limits: Record<string, number>}>} */
export function askModels() {
  return ask("api/models");
}

/**
 * @param {string} model
 * @param {string} text
 * @param {Change} change
 * @param {{tree?: boolean, beam?: number, signal?: AbortSignal}} [options]
 * @returns {Promise<Look>}
 */
export function askLook(model, text, change, { tree = false, beam, signal } = {}) {
  const { prefix, ban, edits } = change;
  /** @type {Record<string, unknown>} */
  const body = { model, text, candidates: 5 };
  if (prefix.length > 0) body.prefix = prefix;
  if (ban.length > 0 || edits.length > 0) body.intervention = { ban, edits };
  if (tree) Object.assign(body, { tree, beam });
  return ask("api/look", body, signal);
}

/**
 * @param {string} path
 * @param {unknown} [body]
 * @param {AbortSignal} [signal]
 */
async function ask(path, body, signal) {
  /** @type {Record<string, string>} */
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  if (key) headers.Authorization = `Bearer ${key}`;
  const method = body === undefined ? "GET" : "POST";
  let response;
  try {
    response = await fetch(path, { method, headers, body: JSON.stringify(body), signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refusal("", 0);
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refusal(String(answer.error ?? response.statusText), response.status);
  return answer;
}
