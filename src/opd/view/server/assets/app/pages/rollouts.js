// The rollouts of a run: those of a step on the left, one of them token by token on the right.

import { html, useEffect, useMemo, useRef, useState } from '/assets/vendor/htm-preact.js';
import { change, to, useHere } from '../address.js';
import { api, useAsked, usePaged } from '../asking.js';
import { useKeys } from '../keys.js';
import { List } from '../list.js';
import { useVersion } from '../live.js';
import { Choice, Empty, Pick, Title, Waiting } from '../parts.js';
import { Said } from '../text.js';
import { count, plural, signed } from '../words.js';
import { Rollout } from './rollout.js';

const KINDS = [
  ['truncated', 'cut short', 'truncated'], ['ended', 'ended by itself', 'ended'], ['repeated', 'in a loop', 'repeated'],
  ['right', 'right', 'right'], ['wrong', 'wrong', 'wrong'], ['ungraded', 'ungraded', 'ungraded'],
];
const SORTS = [['order', 'as sampled'], ['worst', 'widest gap first'], ['gap', 'largest mean gap first'], ['longest', 'longest first'], ['shortest', 'shortest first']];

export default function Rollouts() {
  const { id, query } = useHere();
  const version = useVersion(id);
  const begun = useRef(null);
  const { value: run } = useAsked(api(`runs/${id}`), version);
  const { value: kept, error } = useAsked(api(`runs/${id}/rollouts`), version);
  if (!kept) return html`<${Waiting} error=${error} what="Looking for rollouts" />`;
  const steps = kept.tables.map(table => table.step);
  const name = run?.row.name ?? id;
  const over = html`<a href=${to('run', id)}>Training run</a> · rollouts`;
  if (!steps.length) return html`<${Title} over=${over} name=${name} />
    <${Empty}><h2>No rollouts are kept</h2><p>With <code>save.rollouts: true</code> in the recipe each step leaves its rollouts, with both log-probabilities of every token.</p><//>`;
  begun.current ??= steps[steps.length - 1]; // a run that grows doesn't turn the page under the reader
  const asked = Number(query.step) || begun.current;
  const step = steps.includes(asked) ? asked : steps.reduce((best, one) => (Math.abs(one - asked) < Math.abs(best - asked) ? one : best));
  return html`
    <${Title} over=${over} name=${name} />
    ${kept.text_missing && html`<p class="trouble"><${Said} text=${kept.text_missing} /></p>`}
    ${query.step !== undefined && step !== Number(query.step) && html`<p class="note" role="status">No rollouts of step <b><${Said} text=${query.step} most=${40} /></b> are kept; these are of step ${count(step)}, the ${Number(query.step) ? 'nearest' : 'newest'}.</p>`}
    <${Steps} steps=${steps} step=${step} />
    <${Table} key=${step} id=${id} step=${step} query=${query} />`;
}

function Steps({ steps, step }) {
  const place = steps.indexOf(step);
  const move = by => change({ step: steps[Math.min(steps.length - 1, Math.max(0, place + by))], at: null, place: null });
  useKeys({ '[': ['the step before', () => move(-1)], ']': ['the next step', () => move(1)] });
  return html`
    <div class="tools steps">
      <button type="button" aria-label="the step before" disabled=${place === 0} onClick=${() => move(-1)}>←</button>
      <label class="pick"><span>Step <b>${count(step)}</b> <span class="quiet">of ${count(steps[steps.length - 1])}</span></span>
        <input type="range" min="0" max=${steps.length - 1} value=${place} aria-valuetext=${`step ${step}`}
               onChange=${event => change({ step: steps[Number(event.target.value)], at: null, place: null })} /></label>
      <button type="button" aria-label="the next step" disabled=${place === steps.length - 1} onClick=${() => move(1)}>→</button>
    </div>`;
}

function Table({ id, step, query }) {
  const filters = query.filter ? query.filter.split(',') : [];
  const graded = query.grades || filters.some(one => ['right', 'wrong', 'ungraded'].includes(one)) ? 1 : null;
  const asked = { filter: query.filter, teacher: query.teacher, sort: query.sort, grades: graded };
  const key = JSON.stringify([id, step, asked]);
  const { answer, row, error } = usePaged(key, (offset, limit) => api(`runs/${id}/rollouts/${step}`, { ...asked, offset, limit }));
  const [current, setCurrent] = useState(null);
  const at = query.at === undefined ? null : Number(query.at);

  const open = index => { const found = row(index); if (found) { setCurrent(index); change({ at: found.index, place: null }); } };
  const first = answer?.rows[0]?.index ?? null;
  const narrowed = query.filter !== undefined || query.teacher !== undefined || query.sort !== undefined;
  useEffect(() => { setCurrent(narrowed ? null : at); }, [key]); // unless narrowed, a row's place in the list is its place in the table
  const options = useMemo(() => KINDS.map(([value, said, name]) => [value, said, answer?.counts[name] ?? null]), [answer]);
  const toggle = kind => change({ filter: (filters.includes(kind) ? filters.filter(one => one !== kind) : [...filters, kind]).join(','), at: null, place: null });
  const teachers = Object.entries(answer?.teachers ?? {}).map(([name, many]) => [name, name, many]);
  const chosen = query.teacher ? query.teacher.split(',') : [];
  const teach = name => change({ teacher: (chosen.includes(name) ? chosen.filter(one => one !== name) : [...chosen, name]).join(','), at: null, place: null });
  const shown = at ?? first;
  return html`
    <div class="tools">
      <${Choice} label="Only" options=${options} chosen=${filters} choose=${toggle} />
      ${teachers.length > 1 && html`<${Choice} label="Teacher" options=${teachers} chosen=${chosen} choose=${teach} />`}
      <${Pick} label="Order" options=${SORTS} chosen=${query.sort ?? 'order'} choose=${sort => change({ sort: sort === 'order' ? null : sort, at: null, place: null })} />
      ${answer && !answer.graded && html`<button type="button" onClick=${() => change({ grades: 1 })}>Grade them</button>`}
    </div>
    ${graded && !answer && !error && html`<p class="quiet waiting" role="status">Asking opd grade …</p>`}
    ${answer?.grades_missing && html`<p class="note"><${Said} text=${answer.grades_missing} /></p>`}
    ${error && html`<${Waiting} error=${error} />`}
    ${answer && html`<div class="beside">
      ${answer.matching === 0 ? html`<${Empty}><h2>None of ${plural(answer.total, 'rollout')} fits</h2><button type="button" onClick=${() => change({ filter: null, teacher: null })}>Show all</button><//>` : html`
        <${List} label="Rollouts" count=${answer.matching} height=${64} most="76vh" current=${current} move=${open} row=${index => html`<${Line} row=${row(index)} />`}
          head=${html`<span>${plural(answer.matching, 'rollout')}${answer.matching === answer.total ? '' : ` of ${count(answer.total)}`}</span>`} />`}
      ${shown !== null && html`<${Rollout} key=${`${step}/${shown}`} id=${id} step=${step} index=${shown} place=${query.place ? Number(query.place) : null} />`}
    </div>`}`;
}

function Line({ row }) {
  if (!row) return html`<span class="quiet" role="cell">…</span>`;
  return html`<div class="rollout-line" role="cell">
    <span class="problem"><${Said} text=${row.problem.replaceAll('\n', ' ')} most=${110} /></span>
    <span class="quiet">${row.taught_by !== null && html`<b><${Said} text=${row.taught_by} most=${40} /></b>, `}${count(row.tokens)} tokens, gap ${signed(row.mean_gap, 2)}, widest <b class=${row.worst?.gap < 0 ? 'lower' : 'higher'}>${signed(row.worst?.gap ?? null, 2)}</b>
      ${row.stop === 'length' && html` <b class="tag cut">cut short</b>`}${row.repeated && html` <b class="tag cut">loop</b>`}
      ${row.verdict && html` <b class=${`tag ${row.verdict}`}>${row.verdict.replaceAll('_', ' ')}</b>`}</span></div>`;
}
