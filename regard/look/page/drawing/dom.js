/** Create elements without innerHTML: text is inserted as text, so user input cannot become markup. */

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Set attributes; a function becomes a listener. For plain attributes `true` is an empty value and `false` none; ARIA
 * attributes get "true" and "false"; null and undefined set nothing.
 * @param {Element} element
 * @param {Record<string, unknown>} attributes
 */
function dress(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    const plain = !name.startsWith("aria-");
    if (value === null || value === undefined || (plain && value === false)) continue;
    if (typeof value === "function") element.addEventListener(name, /** @type {EventListener} */ (value));
    else element.setAttribute(name, plain && value === true ? "" : String(value));
  }
}

/**
 * @param {Element} element
 * @param {Child[]} children
 */
function fill(element, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/**
 * An HTML element: h("button", { class: "quiet", click: stop }, "Stop").
 * @param {string} tag
 * @param {Record<string, unknown>} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  dress(element, attributes);
  fill(element, children);
  return element;
}

/**
 * An SVG element.
 * @param {string} tag
 * @param {Record<string, unknown>} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {SVGElement}
 */
export function s(tag, attributes = {}, ...children) {
  const element = /** @type {SVGElement} */ (document.createElementNS(SVG, tag));
  dress(element, attributes);
  fill(element, children);
  return element;
}

/**
 * Replace all children.
 * @param {Element} element
 * @param {...Child} children
 */
export function replace(element, ...children) {
  element.replaceChildren();
  fill(element, children);
}

/**
 * Run once per animation frame, for any number of calls.
 * @param {() => void} draw
 */
export function onceAFrame(draw) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
}

/** Whether the user prefers reduced motion. */
export function stillness() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/**
 * Write a text that differs: writing the same again costs a layout, and a screen reader may announce it twice.
 * @param {Element} element
 * @param {string} text
 */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Set the attributes that differ: hundreds are looked at when the pointer moves, and few change.
 * @param {Element} element
 * @param {Record<string, string>} attributes
 */
export function put(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }
}

/**
 * Show or hide an element, if it is not so already.
 * @param {HTMLElement} element
 * @param {boolean} hidden
 */
export function hide(element, hidden) {
  if (element.hidden !== hidden) element.hidden = hidden;
}
