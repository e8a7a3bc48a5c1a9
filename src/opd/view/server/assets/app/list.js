// A long list of which only the rows in view exist. Rows have one height; `j` and `k` move through it.

import { html, useEffect, useRef, useState } from '/assets/vendor/htm-preact.js';
import { useKeys } from './keys.js';

const SPARE = 8; // rows above and below the window
const HEAD = 30; // pixels of the heading, which stays in view

/**
 * `row(index)` gives what stands in a row. `current` is where the reader is, `move(index)` goes elsewhere,
 * `open(index)` is what Enter does.
 */
export function List({ label, count, height, row, current = null, move = null, open = null, most = '70vh', head = null }) {
  const box = useRef(null);
  const above = head ? HEAD : 0;
  const [seen, setSeen] = useState({ top: 0, tall: 800 });

  useEffect(() => {
    const look = () => setSeen({ top: box.current.scrollTop, tall: box.current.clientHeight });
    const sizes = new ResizeObserver(look);
    sizes.observe(box.current);
    box.current.addEventListener('scroll', look, { passive: true });
    return () => sizes.disconnect();
  }, []);
  useEffect(() => {
    if (current === null) return;
    const top = current * height;
    const { scrollTop, clientHeight } = box.current;
    if (top < scrollTop) box.current.scrollTop = top;
    else if (top + height > scrollTop + clientHeight - above) box.current.scrollTop = top + height - clientHeight + above;
  }, [current, height, count]);

  const step = by => move && count && move(Math.min(count - 1, Math.max(0, current === null ? 0 : current + by)));
  useKeys(move ? {
    j: ['the next row', () => step(1)],
    k: ['the row before', () => step(-1)],
    ...(open ? { Enter: ['open the row', () => current !== null && open(current)] } : {}),
  } : {});

  const first = Math.max(0, Math.floor(seen.top / height) - SPARE);
  const last = Math.min(count, Math.ceil((seen.top + seen.tall) / height) + SPARE);
  const rows = [];
  for (let index = first; index < last; index += 1)
    rows.push(html`
      <div key=${index} class=${index === current ? 'row current' : 'row'} role="row" aria-rowindex=${index + 1}
           aria-current=${index === current ? 'true' : null}
           style=${{ height: `${height}px`, transform: `translateY(${index * height}px)` }}
           onClick=${move ? () => move(index) : null}>${row(index)}</div>`);
  return html`
    <div class="list" role="table" aria-label=${label} aria-rowcount=${count} ref=${box} tabindex="0"
         style=${{ maxHeight: most, height: `${above + count * height + 1}px` }}>
      ${head && html`<div class="head" role="row" style=${{ height: `${HEAD}px` }}>${head}</div>`}
      <div role="rowgroup" class="all" style=${{ height: `${count * height}px` }}>${rows}</div>
    </div>`;
}

/** Whether a media query holds, now and when it changes. */
export function useMedia(query) {
  const [holds, setHolds] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const asked = matchMedia(query);
    const look = () => setHolds(asked.matches);
    asked.addEventListener('change', look);
    return () => asked.removeEventListener('change', look);
  }, [query]);
  return holds;
}
