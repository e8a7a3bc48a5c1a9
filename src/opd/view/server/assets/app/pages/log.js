// The events of an attempt, one below the other, each chained to the one before.

import { html, useState } from '/assets/vendor/htm-preact.js';
import { api, usePaged } from '../asking.js';
import { List } from '../list.js';
import { Waiting } from '../parts.js';
import { Said } from '../text.js';
import { clock, plural } from '../words.js';

export function Log({ id, events, version }) {
  const [open, setOpen] = useState(false);
  return html`
    <section><details onToggle=${event => setOpen(event.target.open)}><summary><span class="h2">Log</span> <span class="quiet">${plural(events.count, 'event')}${events.head_sha256 && html`, head <code>${events.head_sha256.slice(0, 12)}</code>`}</span></summary>
      ${open && html`<${Events} id=${id} count=${events.count} version=${version} />`}</details></section>`;
}

function Events({ id, count, version }) {
  const { row, error } = usePaged(`${id} ${version}`, (offset, limit) => api(`runs/${id}/log`, { offset, limit }));
  if (error) return html`<${Waiting} error=${error} />`;
  return html`<${List} label="Events" count=${count} height=${32} most="50vh"
    head=${html`<span class="right">seq</span><span>UTC</span><span>what</span><span>who</span><span>data</span>`}
    row=${index => { const one = row(index); return one ? html`
      <span role="cell" class="right">${one.seq}</span><span role="cell">${clock(one.at?.utc)}</span><b role="cell">${one.kind}</b>
      <span role="cell"><${Said} text=${one.actor} most=${60} /></span><span role="cell" class="quiet"><${Said} text=${JSON.stringify(one.data)} most=${200} /></span>` : html`<span class="quiet" role="cell">…</span>`; }} />`;
}
