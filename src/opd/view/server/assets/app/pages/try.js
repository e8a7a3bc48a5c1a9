// One try: what it was made from, what came of it, and every file that its receipt names.

import { html, useState } from '/assets/vendor/htm-preact.js';
import { api, useAsked, usePaged } from '../asking.js';
import { List } from '../list.js';
import { Facts, Json, Waiting } from '../parts.js';
import { Said } from '../text.js';
import { bytes, clock, count, duration, plural } from '../words.js';

export function Try({ id, one, close }) {
  const { value: found, error } = useAsked(api(`runs/${id}/receipt`, { try: one.folder, limit: 1 }), one.liveness === 'sealed' ? 0 : one.files);
  const [files, setFiles] = useState(false);
  return html`
    <section class="panel" aria-label=${one.name}>
      <div class="tools"><h2><${Said} text=${one.name} /></h2><span class="space"></span><button type="button" onClick=${close}>Close</button></div>
      <div class="split">
        <${Facts} rows=${[
          ['outcome', (one.outcome ?? one.liveness).replaceAll('_', ' ')], one.because && ['because', one.because],
          ['time', `${one.began_utc?.slice(0, 10) ?? ''} ${clock(one.began_utc)} to ${clock(one.ended_utc)} UTC`], ['at work', duration(one.active_seconds)],
          ['files', `${plural(one.files ?? 0, 'file')}, ${bytes(one.bytes)}`],
        ]} />
        <div><h3>Made from</h3><${Facts} rows=${Object.entries(one.made_from ?? {}).map(([name, sha256]) => [name, html`<code title=${sha256}>${String(sha256).slice(0, 16)}…</code>`])} /></div>
      </div>
      ${found?.missing && html`<p class="note"><${Said} text=${found.missing} /></p>`}
      ${error && html`<${Waiting} error=${error} />`}
      ${one.outcome_json && html`<${Json} name="outcome.json" value=${one.outcome_json} />`}
      ${found?.receipt && html`<${Json} name="receipt.json, without its files" value=${found.receipt} />`}
      ${found?.files?.total > 0 && html`<details onToggle=${event => setFiles(event.target.open)}><summary>${plural(found.files.total, 'entry', 'entries')} in the receipt, ${bytes(found.files.bytes)}</summary>
        ${files && html`<${Files} id=${id} folder=${one.folder} total=${found.files.total} />`}</details>`}
    </section>`;
}

function Files({ id, folder, total }) {
  const { row, error } = usePaged(folder, offset => api(`runs/${id}/receipt`, { try: folder, offset, limit: 200 }), { size: 200, rows: answer => answer.files.rows });
  if (error) return html`<${Waiting} error=${error} />`;
  return html`<${List} label="Files" count=${total} height=${32} most="50vh"
    head=${html`<span>file</span><span class="right">size</span><span>sha256</span>`}
    row=${index => { const file = row(index); return file ? html`
      <span role="cell"><${Said} text=${file.path} most=${140} /></span><span role="cell" class="right">${file.kind === 'file' ? count(file.bytes) : file.kind}</span><code role="cell">${(file.sha256 ?? file.target ?? '').slice(0, 16)}</code>` : html`<span class="quiet" role="cell">…</span>`; }} />`;
}
