// Where the reader is: the address holds all of it, so that a link leads to the same view.
//
//     /run/ID   /rollouts/ID?step=3&at=7   /score/ID?verdict=wrong   /compare?a=ID&b=ID   /attempt/ID   /

import { createContext, useContext } from '/assets/vendor/htm-preact.js';

export const Here = createContext(null);

/** { page, id, query }, of the address as it stands. */
export function here() {
  const [page = '', id = ''] = location.pathname.split('/').filter(Boolean).map(decode);
  return { page: page || 'runs', id, query: Object.fromEntries(new URLSearchParams(location.search)) };
}

/** The address of a page; what is null, false or empty stands in no address. */
export function to(page, id, query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== '' && value !== false);
  const asked = new URLSearchParams(kept).toString();
  const path = page === 'runs' ? '/' : '/' + [page, id].filter(Boolean).map(encodeURIComponent).join('/');
  return path + (asked ? `?${asked}` : '');
}

/** The page that shows a row of the list of runs. */
export function toRow(row) {
  return to({ train: 'run', score: 'score', attempt: 'attempt' }[row.kind], row.id);
}

export function go(address) {
  if (address === location.pathname + location.search) return;
  history.pushState(null, '', address);
  dispatchEvent(new Event('moved'));
  scrollTo(0, 0);
}

/** Changes some of the query and keeps the rest; a change of view within a page is no new page to go back from. */
export function change(part) {
  const { page, id, query } = here();
  history.replaceState(null, '', to(page, id, { ...query, ...part }));
  dispatchEvent(new Event('moved'));
}

/** A switch that stands in the address: `const [shown, show] = useSwitch('formulas')`. */
export function useSwitch(name) {
  return [useHere().query[name] === 'true', on => change({ [name]: on })];
}

/** Links inside stay inside: no page is loaded twice. Frames, files and other windows are the browser's business. */
export function followLinks() {
  document.addEventListener('click', event => {
    const link = event.target.closest?.('a[href]');
    if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    if (link.target || link.origin !== location.origin || /^\/(reports|assets|api)\//.test(link.pathname)) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}

export const useHere = () => useContext(Here);

function decode(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}
