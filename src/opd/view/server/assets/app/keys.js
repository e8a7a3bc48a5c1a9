// The keyboard. A page says what its keys do; `?` lists them. Two keys in a row are written with a space: `g r`.

import { useLayoutEffect, useRef } from '/assets/vendor/htm-preact.js';

const layers = []; // references to bindings, so that a function that is called sees the newest state
let waiting = '';
let timer = null;

/** While the component is there, `{ j: ['the next row', () => …] }` holds; what came last goes first. */
export function useKeys(bindings) {
  const layer = useRef(bindings);
  layer.current = bindings;
  useLayoutEffect(() => { // what can be seen can be used: an effect after the picture would lose a quick key
    layers.push(layer);
    return () => layers.splice(layers.indexOf(layer), 1);
  }, []);
}

/** [key, what it does] of every key that holds now. */
export function known() {
  const found = new Map();
  for (const { current } of [...layers].reverse())
    for (const [key, [does]] of Object.entries(current)) if (!found.has(key)) found.set(key, does);
  return [...found].sort(([one], [other]) => one.localeCompare(other));
}

export function listen() {
  document.addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || document.querySelector('dialog[open]')) return;
    const typing = event.target.closest?.('input:not([type=range]):not([type=checkbox]), select, textarea');
    if (typing) {
      if (event.key === 'Escape') event.target.blur();
      return;
    }
    if (event.key === 'Enter' && event.target.closest?.('a, button, summary')) return; // its own business
    const pressed = waiting ? `${waiting} ${event.key}` : event.key;
    const binding = layers.findLast(({ current }) => Object.hasOwn(current, pressed))?.current[pressed];
    clearTimeout(timer);
    waiting = '';
    if (binding) {
      event.preventDefault();
      binding[1]();
    } else if (layers.some(({ current }) => Object.keys(current).some(key => key.startsWith(`${pressed} `)))) {
      waiting = pressed;
      timer = setTimeout(() => { waiting = ''; }, 1500);
    }
  });
}
