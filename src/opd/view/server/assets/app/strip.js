// Many values side by side as columns on one line: a rollout's gaps, a score's questions. Where there are more values
// than pixels, a column shows the furthest of those that it stands for. Click, or arrows, to go to one.

import { html, useEffect, useRef, useState } from '/assets/vendor/htm-preact.js';
import { useMedia } from './list.js';

/**
 * `values` are numbers; `tone(value)` the CSS variable of a column's colour with an alpha, `[name, alpha]`; `from` and
 * `until` the ends of the axis; `base` where columns stand. `says(index)` is what a pointer or a reader is told.
 */
export function Strip({ values, tone, from, until, base = 0, current = null, pick, says, label, height = 72 }) {
  const canvas = useRef(null);
  const [width, setWidth] = useState(0);
  const [hovered, setHovered] = useState(null);
  const dark = useMedia('(prefers-color-scheme: dark)');

  useEffect(() => {
    const sizes = new ResizeObserver(([{ contentRect }]) => setWidth(Math.floor(contentRect.width)));
    sizes.observe(canvas.current);
    return () => sizes.disconnect();
  }, []);
  useEffect(() => {
    if (width) draw(canvas.current, { values, tone, from, until, base, current, width, height });
  }, [values, width, current, dark, from, until]);

  const whose = event => {
    const { left, width: wide } = canvas.current.getBoundingClientRect();
    return Math.min(values.length - 1, Math.max(0, Math.floor(((event.clientX - left) / wide) * values.length)));
  };
  const arrows = event => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by || !values.length) return;
    event.preventDefault();
    pick(Math.min(values.length - 1, Math.max(0, (current ?? -1) + by)));
  };
  const told = hovered ?? current;
  return html`
    <div class="strip">
      <canvas ref=${canvas} tabindex="0" role="slider" aria-label=${label} aria-valuemin="0" aria-valuemax=${Math.max(0, values.length - 1)}
              aria-valuenow=${current ?? 0} aria-valuetext=${current === null ? 'none is chosen' : says(current)}
              style=${{ height: `${height}px` }} onKeyDown=${arrows}
              onPointerMove=${event => values.length && setHovered(whose(event))} onPointerLeave=${() => setHovered(null)}
              onClick=${event => values.length && pick(whose(event))}></canvas>
      <p class="reading quiet">${told === null || told >= values.length ? '\u00a0' : says(told)}</p>
    </div>`;
}

function draw(canvas, { values, tone, from, until, base, current, width, height }) {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const ink = canvas.getContext('2d');
  ink.scale(ratio, ratio);
  const css = getComputedStyle(document.documentElement);
  const y = value => height - (height * (Math.min(until, Math.max(from, value)) - from)) / (until - from || 1);
  const columns = Math.min(values.length, width);
  const wide = width / (columns || 1);
  for (let column = 0; column < columns; column += 1) {
    const first = Math.floor((column * values.length) / columns);
    const last = Math.max(first + 1, Math.floor(((column + 1) * values.length) / columns));
    let furthest = values[first];
    for (let at = first; at < last; at += 1) if (Math.abs(values[at] - base) > Math.abs(furthest - base)) furthest = values[at];
    const [name, alpha] = tone(furthest);
    ink.globalAlpha = alpha;
    ink.fillStyle = css.getPropertyValue(name).trim();
    const top = Math.min(y(furthest), y(base));
    ink.fillRect(column * wide, top, Math.max(1, wide - (wide > 3 ? 1 : 0)), Math.max(1, Math.abs(y(furthest) - y(base))));
  }
  ink.globalAlpha = 1;
  ink.fillStyle = css.getPropertyValue('--muted').trim();
  ink.fillRect(0, Math.min(height - 1, y(base)), width, 1);
  if (current !== null && current < values.length) {
    ink.fillStyle = css.getPropertyValue('--ink').trim();
    ink.fillRect((current / values.length) * width, 0, Math.max(2, width / values.length), 3);
    ink.fillRect((current / values.length) * width, height - 3, Math.max(2, width / values.length), 3);
  }
}
