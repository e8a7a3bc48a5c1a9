// The frame around every page: where one is, whether it is live, what the keys do.

import { html, render, useEffect, useErrorBoundary, useRef, useState } from '/assets/vendor/htm-preact.js';
import { Here, followLinks, go, here, to } from './address.js';
import { known, listen, useKeys } from './keys.js';
import { follow, useLost } from './live.js';
import { Waiting } from './parts.js';

const PAGES = {
  runs: () => import('./pages/runs.js'),
  run: () => import('./pages/run.js'),
  rollouts: () => import('./pages/rollouts.js'),
  score: () => import('./pages/score.js'),
  compare: () => import('./pages/compare.js'),
  attempt: () => import('./pages/attempt.js'),
};
const made = new Map(); // what each page that was loaded is made by

function App() {
  const [place, setPlace] = useState(here);
  const [helping, setHelping] = useState(false);
  useEffect(() => {
    const look = () => setPlace(here());
    for (const kind of ['popstate', 'moved']) addEventListener(kind, look);
    return () => { for (const kind of ['popstate', 'moved']) removeEventListener(kind, look); };
  }, []);
  useKeys({
    'g r': ['all runs', () => go(to('runs'))],
    'g c': ['compare two scores', () => go(to('compare'))],
    '/': ['find', () => document.querySelector('[data-find]')?.focus()],
    '?': ['these keys', () => setHelping(true)],
  });
  return html`
    <${Here.Provider} value=${place}>
      <a class="skip" href="#page">To the content</a>
      <nav class="bar" aria-label="Pages">
        <a class="mark" href="/">opd</a>
        <a href="/" aria-current=${place.page === 'runs' ? 'page' : null}>Runs</a>
        <a href="/compare" aria-current=${place.page === 'compare' ? 'page' : null}>Compare</a>
        <span class="space"></span>
        <${Pulse} />
        <button type="button" class="help" aria-label="Keys" onClick=${() => setHelping(true)}>?</button>
      </nav>
      <main id="page" class=${place.page} tabindex="-1"><${Page} key=${`${place.page}/${place.id}`} page=${place.page} /></main>
      ${helping && html`<${Help} close=${() => setHelping(false)} />`}
    <//>`;
}

async function load(page) {
  const module = PAGES[page];
  if (!module) return { error: new Error(`There is no page ${page}; there are: ${Object.keys(PAGES).join(', ')}.`) };
  try {
    made.set(page, { content: (await module()).default });
    return made.get(page);
  } catch (error) {
    return { error };
  }
}

function Page({ page }) {
  const [found, setFound] = useState(made.get(page));
  const [fault] = useErrorBoundary(error => console.error(error));
  useEffect(() => { if (!found) load(page).then(setFound); }, []);
  if (fault) return html`<${Waiting} error=${new Error(`This page has a fault: ${fault.message}. Load it again; the files are as they were.`)} />`;
  if (!found) return null;
  return found.error ? html`<${Waiting} error=${found.error} />` : html`<${found.content} />`;
}

function Pulse() {
  const lost = useLost();
  const said = !lost ? 'live' : lost.stranger ? 'started anew: open the address that opd view printed' : 'not connected';
  return html`<span class=${lost ? 'pulse lost' : 'pulse'} role="status" title=${lost?.message ?? 'what changes on the disk is shown within seconds'}>${said}</span>`;
}

function Help({ close }) {
  const dialog = useRef(null);
  useEffect(() => { dialog.current.showModal(); }, []);
  return html`
    <dialog ref=${dialog} class="keys" onClose=${close} onClick=${event => event.target === dialog.current && dialog.current.close()}>
      <h2>Keys</h2>
      <dl>${known().map(([key, does]) => html`<div><dt>${key.split(' ').map(one => html`<kbd>${one}</kbd>`)}</dt><dd>${does}</dd></div>`)}</dl>
      <button type="button" onClick=${() => dialog.current.close()}>Close</button>
    </dialog>`;
}

followLinks();
listen();
await load(here().page); // it came with this module
render(html`<${App} />`, document.getElementById('app'));
follow();
