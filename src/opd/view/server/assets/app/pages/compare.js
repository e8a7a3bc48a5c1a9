// Two scores, paired by question: how much they differ, whether that is more than noise, and which questions flipped.

import { html, useMemo, useState } from '/assets/vendor/htm-preact.js';
import { change, go, to, useHere } from '../address.js';
import { api, useAsked } from '../asking.js';
import { useKeys } from '../keys.js';
import { List } from '../list.js';
import { Choice, Delta, Empty, Facts, Pick, Tile, Title, Waiting } from '../parts.js';
import { Said } from '../text.js';
import { count, interval, number, plural, scored, signed } from '../words.js';
import { Pairs } from './pairs.js';

export default function Compare() {
  const { query } = useHere();
  const { value: runs, error } = useAsked(api('runs'));
  const scores = (runs?.runs ?? []).filter(row => row.kind === 'score' && row.mean !== null);
  const both = query.a && query.b;
  useKeys({ s: ['change sides', () => both && change({ a: query.b, b: query.a })] });
  if (!runs) return html`<${Waiting} error=${error} what="Looking for scores" />`;
  const protocol = scores.find(row => row.id === query.a)?.protocol_digest;
  const choices = side => [['', 'choose a score'], ...scores
    .filter(row => side === 'a' || row.id !== query.a)
    .sort((one, other) => (other.protocol_digest === protocol) - (one.protocol_digest === protocol))
    .map(row => [row.id, `${row.name}, ${scored(row)}${side === 'b' && protocol && row.protocol_digest !== protocol ? ' (another protocol)' : ''}`])];
  const known = side => !query[side] || scores.some(row => row.id === query[side]) ? [] : [[query[side], 'inside of an attempt']];
  return html`
    <${Title} over="Two scores, paired by question" name="Compare" />
    <div class="tools">
      <${Pick} label="A" options=${[...choices('a'), ...known('a')]} chosen=${query.a ?? ''} choose=${a => change({ a, cell: null, question: null })} />
      <${Pick} label="B" options=${[...choices('b'), ...known('b')]} chosen=${query.b ?? ''} choose=${b => change({ b, cell: null, question: null })} />
      <button type="button" disabled=${!both} onClick=${() => change({ a: query.b, b: query.a, cell: null })}>Change sides</button>
    </div>
    ${both ? html`<${Both} key=${`${query.a} ${query.b}`} a=${query.a} b=${query.b} query=${query} />` : html`<${Empty}>
      <h2>${scores.length < 2 ? 'There are not two scores yet' : 'Choose two scores'}</h2>
      <p>${scores.length < 2 ? html`Evaluate two checkpoints with <code>opd evaluate</code>, and come back.` : 'Two scores compare when their protocols are the same.'}</p><//>`}`;
}

function Both({ a, b, query }) {
  const { value: quick, error } = useAsked(api('compare', { a, b, part: 'questions' }));
  const { value: slow, error: refused } = useAsked(api('compare', { a, b }));
  const found = slow ?? quick;
  if (!found) return html`<${Waiting} error=${error ?? refused} what="Pairing the questions" />`;
  return html`
    <${Finding} found=${found} waits=${!slow && !refused} error=${refused} />
    ${found.questions?.length > 0 && html`<${Questions} found=${found} query=${query} />`}`;
}

function Finding({ found, waits, error }) {
  const said = found.comparison;
  const names = [found.a, found.b].map(row => html`<a href=${to('score', row.id)}><${Said} text=${row.name} most=${100} /></a>`);
  return html`
    ${said ? html`<p class="said-of-both"><${Said} text=${named(said)} most=${900} /></p>` : waits ? html`<${Waiting} what="Asking opd compare" />` : ''}
    ${(error || found.missing) && html`<p class="trouble" role="alert"><${Said} text=${error?.message ?? found.missing} most=${900} /></p>`}
    <div class="tiles">
      <${Tile} name=${html`A: ${names[0]}`} tone="start" value=${number(found.a.mean)} below=${html`± ${number(found.a.stderr)}`} />
      <${Tile} name=${html`B: ${names[1]}`} tone="distilled" value=${number(found.b.mean)} below=${html`± ${number(found.b.stderr)}`} />
      <${Tile} name="B − A" value=${said ? html`<${Delta} value=${said.difference} />` : waits ? '…' : '—'} below=${!said && !waits ? 'not known; why is said above' : said && html`± ${number(said.stderr)}, 95 % interval ${interval(said.ci95, signed)}<${Reach} said=${said} />`} />
    </div>
    ${said && html`<${Facts} abreast rows=${[
      ['by t', said.p === null ? 'undefined' : chance(said.p)], ['by sign flips', chance(said.p_permutation)],
      ['with these very questions', chance(said.p_fixed_questions)],
      ['found four times in five', said.detectable === null ? 'undefined' : `a true difference of ${number(said.detectable)}`],
      ...said.notes.map(note => ['note', note]),
    ]} />`}`;
}

/** The verdict with A and B for the folders, of which one's name may begin with the other's. */
function named({ verdict, a, b }) {
  return [[a, 'A'], [b, 'B']].sort(([one], [other]) => other.length - one.length).reduce((said, [path, letter]) => said.replaceAll(path, letter), verdict)
    .replace(/\bp ([<=]) /g, 'p\u00a0$1\u00a0'); // stays on one line
}

const chance = p => (p === null || p === undefined ? 'not tested' : p < 0.0001 ? 'p < 0.0001' : `p = ${Number(p.toPrecision(2))}`);

/** The interval of the difference, with zero marked. */
function Reach({ said: { ci95, difference } }) {
  if (!ci95) return null;
  const far = 1.15 * Math.max(Math.abs(ci95[0]), Math.abs(ci95[1]), 0.01);
  const at = value => `${50 + (50 * value) / far}%`;
  return html`
    <svg class="whisker zero" role="img" aria-label=${`95 % interval ${interval(ci95, signed)}, zero ${ci95[0] > 0 || ci95[1] < 0 ? 'outside' : 'inside'}`} width="100%" height="18">
      <line class="axis" x1="0" x2="100%" y1="9" y2="9" /><line class="nought" x1="50%" x2="50%" y1="0" y2="18" />
      <line class="reach" x1=${at(ci95[0])} x2=${at(ci95[1])} y1="9" y2="9" /><circle cx=${at(difference)} cy="9" r="4" />
    </svg>`;
}

function Questions({ found, query }) {
  const [current, setCurrent] = useState(null);
  const all = useMemo(() => found.questions.map((question, at) => ({
    question, a: found.a_right[at], as: found.a_samples[at], b: found.b_right[at], bs: found.b_samples[at],
    difference: found.b_right[at] / (found.b_samples[at] || 1) - found.a_right[at] / (found.a_samples[at] || 1),
  })), [found]);
  const only = query.only ?? 'flipped';
  const cell = query.cell ? query.cell.split('-').map(Number) : null;
  const rows = useMemo(() => all
    .filter(one => (cell ? one.a === cell[0] && one.b === cell[1] : only === 'all' || (only === 'gained' ? one.difference > 0 : only === 'lost' ? one.difference < 0 : one.difference !== 0)))
    .sort((one, other) => Math.abs(other.difference) - Math.abs(one.difference)), [all, only, query.cell]);
  const many = { gained: all.filter(one => one.difference > 0).length, lost: all.filter(one => one.difference < 0).length };
  const options = [['flipped', 'differ', many.gained + many.lost], ['gained', 'B does better', many.gained], ['lost', 'B does worse', many.lost], ['all', 'all', all.length]];
  return html`
    <section class="split">
      <figure><h2>Question by question</h2>
        <${Pairs} all=${all} chosen=${cell} choose=${(a, b) => change({ cell: cell && cell[0] === a && cell[1] === b ? null : `${a}-${b}` })} />
        <figcaption>A dot is a number of questions; its area is how many. Above the line B is right more often, below it A. Click one to see its questions.</figcaption></figure>
      <div><div class="tools"><h2>Questions</h2><${Choice} label="Which" options=${options} chosen=${cell ? [] : [only]} choose=${which => change({ only: which === 'flipped' ? null : which, cell: null })} /></div>
        ${rows.length === 0 ? html`<${Empty}><h2>None</h2><p>No question is like that.</p><//>` : html`
        <${List} label="Questions" count=${rows.length} height=${40} most="60vh" current=${current} move=${setCurrent}
          open=${index => go(to('score', found.b.id, { question: rows[index].question }))}
          head=${html`<span>${plural(rows.length, 'question')}</span><span class="right">A</span><span class="right">B</span><span class="right">B − A</span>`}
          row=${index => html`<${Pair} one=${rows[index]} found=${found} />`} />`}</div>
    </section>`;
}

const Pair = ({ one, found }) => html`
  <span role="cell"><${Said} text=${one.question} most=${60} /></span>
  <span role="cell" class="right"><a href=${to('score', found.a.id, { question: one.question })}>${count(one.a)} of ${count(one.as)}</a></span>
  <span role="cell" class="right"><a href=${to('score', found.b.id, { question: one.question })}>${count(one.b)} of ${count(one.bs)}</a></span>
  <span role="cell" class="right"><${Delta} value=${one.difference} digits=${2} /></span>`;
