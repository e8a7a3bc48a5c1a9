// Text that others wrote. It becomes text nodes and nothing else: what would be invisible, or would turn the
// direction of the page, is shown by its code point, and every piece is isolated from what stands around it.

import { html, useLayoutEffect, useRef } from '/assets/vendor/htm-preact.js';
import { mathIn, setMath } from './maths.js';

const UNSEEN = /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}]/u;
const EVERY_UNSEEN = new RegExp(UNSEEN.source, 'gu');
const BLOCK = 3000;     // characters: what is laid out at once
const LINE = 1.7;       // em
const NEAR = 1200;      // pixels from the window: what is about to be seen

/** The text as one that can go where no element can, such as the name of the window. */
export const seen = text => text.replace(EVERY_UNSEEN, coded);

/** Appends the text to the node. `marked` shows where lines end. */
export function setText(node, text, { marked = false } = {}) {
  let from = 0;
  const plain = until => {
    if (until <= from) return;
    const piece = text.slice(from, until);
    if (!marked) { node.append(piece); return; }
    piece.split('\n').forEach((line, place, lines) => {
      if (line) node.append(line);
      if (place < lines.length - 1) node.append(element('i', 'end'), '\n');
    });
  };
  if (UNSEEN.test(text)) {
    for (const found of text.matchAll(EVERY_UNSEEN)) {
      plain(found.index);
      node.append(element('i', 'code', coded(found[0])));
      from = found.index + found[0].length;
    }
  }
  plain(text.length);
}

const coded = one => `U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}`;

export function element(tag, kind = '', text = null) {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  if (text !== null) made.textContent = text;
  return made;
}

/** A short text in a line, isolated; `most` cuts it and says so. */
export function Said({ text, most = 400, kind = '' }) {
  const node = useRef(null);
  const whole = String(text ?? '');
  useLayoutEffect(() => {
    node.current.replaceChildren();
    setText(node.current, whole.length > most ? `${head(whole, most)}…` : whole);
  }, [whole, most]);
  return html`<bdi class=${`said ${kind}`} ref=${node}></bdi>`;
}

/** A text of any length: blocks of lines, and only those near the window are laid out. `maths` renders LaTeX. */
export function Long({ text, maths = false, kind = '' }) {
  const node = useRef(null);
  useLayoutEffect(() => {
    const pieces = blocksOf(text);
    return layOut(node.current, pieces.map(linesIn), (block, place) => fill(block, pieces[place], maths));
  }, [text, maths]);
  return html`<div class=${`long ${kind}`} ref=${node} dir="auto"></div>`;
}

/**
 * Blocks in the holder, each as tall as so many lines until it comes near the window; `fill(block, place)` then puts in
 * what it holds. Gives back what ends the watching. The holder gets `reach(place)`, which fills a block and all that
 * is near it, so that nothing moves under the eye once one has gone there, and gives the block.
 */
export function layOut(holder, lines, fill) {
  const blocks = lines.map(many => {
    const block = element('div', 'block');
    block.style.minHeight = `${many * LINE}em`;
    return block;
  });
  const fillOnce = place => {
    if (blocks[place].firstChild) return;
    blocks[place].style.minHeight = '';
    fill(blocks[place], place);
  };
  const scrolls = getComputedStyle(holder).overflowY === 'auto'; // a margin counts from what scrolls, and from nothing around it
  const watching = new IntersectionObserver(seen => {
    for (const { target, isIntersecting } of seen) if (isIntersecting) fillOnce(blocks.indexOf(target));
  }, { root: scrolls ? holder : null, rootMargin: `${NEAR}px` });
  holder.replaceChildren(...blocks);
  holder.reach = place => {
    fillOnce(place);
    for (const by of [-1, 1]) {
      for (let tall = 0, at = place + by; blocks[at] && tall < 2 * NEAR; at += by) {
        fillOnce(at);
        tall += blocks[at].offsetHeight;
      }
    }
    return blocks[place];
  };
  if (blocks.length) fillOnce(0);
  blocks.forEach(block => watching.observe(block));
  return () => watching.disconnect();
}

/** About how many lines a text takes. */
export const linesIn = text => text.split('\n').reduce((sum, line) => sum + Math.max(1, Math.ceil(line.length / 90)), 0);

/** Shows the end of a long text. */
export function toEnd(holder) {
  holder.reach(holder.children.length - 1);
  holder.scrollTop = holder.scrollHeight;
  holder.scrollIntoView({ block: 'nearest' });
}

function fill(block, text, maths) {
  if (!maths) { setText(block, text); return; }
  for (const part of mathIn(text)) {
    if (!part.tex) { setText(block, part.text); continue; }
    const place = element('span', part.display ? 'math display' : 'math');
    setText(place, part.text);
    block.append(place);
    setMath(place, part);
  }
}

/** The text cut where paragraphs or lines end, if there is such a place, and never inside a character. */
export function blocksOf(text) {
  const blocks = [];
  for (let from = 0; from < text.length;) {
    let until = Math.min(text.length, from + BLOCK);
    if (until < text.length) {
      const paragraph = text.lastIndexOf('\n\n', until);
      const line = text.lastIndexOf('\n', until - 1);
      if (paragraph > from + BLOCK / 3) until = paragraph + 2;
      else if (line > from + BLOCK / 3) until = line + 1;
      else until = whole(text, until);
    }
    blocks.push(text.slice(from, until));
    from = until;
  }
  return blocks.length ? blocks : [''];
}

const whole = (text, until) => (/[\uD800-\uDBFF]/.test(text[until - 1]) ? until - 1 : until);
const head = (text, most) => text.slice(0, whole(text, most));
