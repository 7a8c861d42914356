/** Downloads: SVG and PNG of a drawing, and the JSON record. */

import { h } from "../drawing/dom.js";

const PROPERTIES = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity",
  "font-family", "font-size", "font-weight", "visibility",
];

/**
 * @param {unknown} record
 * @param {string} name
 */
export function keepJson(record, name) {
  hand(new Blob([JSON.stringify(record, null, 1)], { type: "application/json" }), `${name}.json`);
}

/**
 * @param {SVGElement} picture
 * @param {string} name
 */
export function keepSvg(picture, name) {
  hand(new Blob([standalone(picture)], { type: "image/svg+xml" }), `${name}.svg`);
}

/**
 * @param {SVGElement} picture
 * @param {string} name
 */
export async function keepPng(picture, name) {
  const width = Number(picture.getAttribute("width"));
  const height = Number(picture.getAttribute("height"));
  const url = URL.createObjectURL(new Blob([standalone(picture)], { type: "image/svg+xml" }));
  const image = new Image();
  image.src = url;
  await image.decode();
  const canvas = document.createElement("canvas");
  const scale = Math.min(3, 8000 / Math.max(width, height));
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(url);
  canvas.toBlob((blob) => blob && hand(blob, `${name}.png`), "image/png");
}

/**
 * A standalone copy of the drawing, with inlined styles and a background.
 * @param {SVGElement} picture
 */
function standalone(picture) {
  const copy = /** @type {SVGElement} */ (picture.cloneNode(true));
  const seen = [picture, ...picture.querySelectorAll("*")];
  const written = [copy, ...copy.querySelectorAll("*")];
  seen.forEach((element, index) => {
    const style = getComputedStyle(element);
    for (const property of PROPERTIES) written[index].setAttribute(property, style.getPropertyValue(property));
    for (const name of ["class", "tabindex", "role", "aria-label", "aria-describedby"]) {
      written[index].removeAttribute(name);
    }
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  paper.setAttribute("width", "100%");
  paper.setAttribute("height", "100%");
  paper.setAttribute("fill", getComputedStyle(document.body).backgroundColor);
  copy.prepend(paper);
  return new XMLSerializer().serializeToString(copy);
}

/**
 * @param {Blob} blob
 * @param {string} name
 */
function hand(blob, name) {
  const url = URL.createObjectURL(blob);
  const link = h("a", { href: url, download: name.replace(/[^\p{L}\p{N}._-]+/gu, "-") });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
