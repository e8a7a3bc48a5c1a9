// Everything that was found: filtered, grouped by what differs between recipes, and set side by side.

import { html, useMemo, useState } from '/assets/vendor/htm-preact.js';
import { change, go, to, toRow, useHere } from '../address.js';
import { api, useAsked } from '../asking.js';
import { useKeys } from '../keys.js';
import { List, useMedia } from '../list.js';
import { useVersion } from '../live.js';
import { Choice, Empty, Pick, Share, State, Title, Troubles, Waiting, Whisker, reach } from '../parts.js';
import { Said, seen } from '../text.js';
import { ago, count, duration, plural, scored, value } from '../words.js';
import { SideBySide } from './side_by_side.js';

const KINDS = [['train', 'training'], ['score', 'scores'], ['attempt', 'attempts']];

export default function Runs() {
  const { query } = useHere();
  const { value: found, error } = useAsked(api('runs'), useVersion());
  const narrow = useMedia('(max-width: 48rem)');
  const [current, setCurrent] = useState(null);

  const chosen = useMemo(() => (query.chosen ? query.chosen.split(',') : []), [query.chosen]);
  const rows = useMemo(() => (found ? grouped(filtered(found, query), query.group, found.varying) : []), [found, query.q, query.kind, query.state, query.group]);
  const varying = found?.varying ?? [];
  const axis = useMemo(() => reach(found?.runs ?? []), [found]);
  const choose = id => change({ chosen: (chosen.includes(id) ? chosen.filter(one => one !== id) : [...chosen, id]).join(',') });
  const picked = chosen.map(id => found?.runs.find(row => row.id === id)).filter(Boolean);
  const scores = picked.map(row => (row.kind === 'score' ? row.id : row.score_id)).filter(Boolean);

  useKeys({
    x: ['choose the row, to set it beside others', () => rows[current]?.row && choose(rows[current].row.id)],
    c: ['compare the two that are chosen', () => scores.length === 2 && go(to('compare', null, { a: scores[0], b: scores[1] }))],
    Escape: ['choose none', () => change({ chosen: null })],
  });
  if (!found) return html`<${Waiting} error=${error} what="Looking for runs" />`;
  const kinds = KINDS.map(([kind, said]) => [kind, said, found.runs.filter(row => row.kind === kind).length]);
  const columns = varying.slice(0, 3);
  return html`
    <${Title} over=${html`<${Roots} roots=${found.roots} />`} name="Runs" />
    <div class="tools">
      <input type="search" data-find placeholder="Find by name, model, recipe…" aria-label="Find" value=${query.q ?? ''}
             onInput=${event => change({ q: event.target.value })} />
      <${Choice} label="Kind" options=${kinds} chosen=${[query.kind]} choose=${kind => change({ kind: query.kind === kind ? null : kind })} />
      <${Pick} label="Group by" chosen=${query.group ?? ''} choose=${group => change({ group })}
        options=${[['', 'nothing'], ['kind', 'kind'], ['state', 'state'], ['benchmark', 'benchmark'], ['folder', 'folder'], ...varying.map(key => [key, key])]} />
    </div>
    ${error && html`<${Waiting} error=${error} />`}
    <${Troubles} of=${found.closed.map(one => `${one.path} can't be looked into: ${one.why}`)} />
    ${picked.length > 0 && html`<${SideBySide} rows=${picked} varying=${varying} scores=${scores} />`}
    ${rows.length === 0 ? html`<${Nothing} found=${found} query=${query} />` : html`
      <${List} label="Runs" count=${rows.length} height=${narrow ? 92 : 52} most="72vh" current=${current} move=${setCurrent}
        open=${index => rows[index].row && go(toRow(rows[index].row))}
        head=${html`<span></span><span>name</span><span>state</span><span>progress</span><span>score, 95 % interval</span>
          <span class="varies">${columns.length ? columns.join(', ') : 'about'}</span><span class="right">seconds</span><span class="right">changed</span>`}
        row=${index => (rows[index].row
          ? html`<${Line} row=${rows[index].row} axis=${axis} columns=${columns} chosen=${chosen.includes(rows[index].row.id)} choose=${choose} />`
          : html`<span class="group" role="cell">${rows[index].group} <span class="quiet">${plural(rows[index].many, 'run')}</span></span>`)} />`}
    <p class="quiet hint"><kbd>j</kbd> <kbd>k</kbd> move, <kbd>Enter</kbd> opens, <kbd>x</kbd> chooses, <kbd>?</kbd> all keys</p>`;
}

/** The folders that are looked through, by their names; by their paths where two have one name. */
function Roots({ roots }) {
  const alike = new Set(roots.map(root => root.name)).size < roots.length;
  return roots.map((root, place) => html`${place ? ', ' : ''}<span title=${root.path}><${Said} text=${alike ? root.path : root.name} most=${200} /></span>`);
}

function Line({ row, axis, columns, chosen, choose }) {
  const damaged = row.state === 'damaged' && row.trouble;
  return html`
    <span class="box" role="cell"><input type="checkbox" checked=${chosen} aria-label=${`choose ${row.name}`} onClick=${event => event.stopPropagation()} onChange=${() => choose(row.id)} /></span>
    <span class="name" role="cell"><a href=${toRow(row)} title=${seen(row.name)}><${Said} text=${row.name} most=${120} /></a>
      <span class="quiet">${row.kind === 'train' ? 'training' : row.kind}${row.trouble && !damaged ? html`, <b class="down"><${Said} text=${row.trouble} most=${160} /></b>` : ''}</span></span>
    <span class="where" role="cell"><${State} state=${row.state} /></span>
    ${damaged ? html`<b class="why down" role="cell" title=${seen(row.trouble)}><${Said} text=${row.trouble.replaceAll(`${row.path}/`, '')} /></b>` : html`<span class="progress" role="cell">${row.step === null ? html`<span class="quiet">—</span>` : html`
      <span>${row.kind === 'attempt' ? 'step ' : ''}${count(row.step)}${row.asked ? html`<span class="quiet"> of ${count(row.asked)}</span>` : ''}</span>
      ${row.asked && html`<${Share} share=${row.step / row.asked} />`}`}</span>
    <span class="scored" role="cell">${row.mean === null ? html`<span class="quiet">${row.kind === 'train' ? 'no score yet' : '—'}</span>` : html`
      <span title=${row.scored}>${scored(row)}</span><${Whisker} ...${row} ...${axis} tone=${row.kind} />`}</span>
    <span class="varies" role="cell"><${Said} text=${about(row, columns)} most=${90} /></span>`}
    <span class="right" role="cell">${duration(row.seconds)}</span>
    <span class="right quiet" role="cell" title=${new Date(row.changed * 1000).toISOString()}>${ago(row.changed)}</span>`;
}

function about(row, columns) {
  if (row.kind === 'score') return row.benchmark ?? '';
  if (row.kind === 'attempt') return row.task ?? '';
  return columns.length ? columns.map(key => (key in row.varies ? value(row.varies[key]) : '—')).join(', ') : row.objective ?? '';
}

function Nothing({ found, query }) {
  if (!found.runs.length) return html`
    <${Empty}><h2>Nothing here yet</h2>
      <p>Below ${found.roots.map(root => html`<code>${root.path}</code> `)} there is no training run, score or attempt.</p>
      <p>Start one, and it appears here while it grows: <code>opd demo</code>, <code>opd train RECIPE</code>, or give another folder: <code>opd view PATH</code>.</p><//>`;
  return html`<${Empty}><h2>None of ${plural(found.runs.length, 'run')} fits</h2>
    <p>${query.q && html`No name, model or recipe holds “${query.q}”. `}<button type="button" onClick=${() => change({ q: null, kind: null, state: null })}>Show all</button></p><//>`;
}

/** Every word has to stand somewhere in the row. */
export function filtered(found, { q = '', kind, state }) {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  return found.runs.filter(row => {
    if ((kind && row.kind !== kind) || (state && row.state !== state)) return false;
    if (!words.length) return true;
    const told = [row.name, row.kind, row.state, row.said, row.objective, row.student, row.teacher, row.benchmark, row.task, row.model,
      ...Object.entries(row.varies ?? {}).map(([key, one]) => `${key}=${value(one)}`)].join(' ').toLowerCase();
    return words.every(word => told.includes(word));
  });
}

/** Lines of the list: rows, with a line before each group. */
export function grouped(rows, by, varying) {
  if (!by) return rows.map(row => ({ row }));
  const groups = new Map();
  for (const row of rows) {
    const name = varying.includes(by) ? (row.varies && by in row.varies ? `${by} = ${value(row.varies[by])}` : `without ${by}`)
      : by === 'folder' ? row.name.split('/').slice(0, -1).join('/') || '.' : String(row[by] ?? `no ${by}`);
    groups.set(name, [...(groups.get(name) ?? []), row]);
  }
  return [...groups].sort(([one], [other]) => one.localeCompare(other, 'en', { numeric: true }))
    .flatMap(([group, held]) => [{ group, many: held.length }, ...held.map(row => ({ row }))]);
}
