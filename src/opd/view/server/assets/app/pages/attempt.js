// An attempt: its official score, what is due, its course, and for each try what was made from what.

import { html, useMemo } from '/assets/vendor/htm-preact.js';
import { change, to, useHere } from '../address.js';
import { api, useAsked } from '../asking.js';
import { useKeys } from '../keys.js';
import { useVersion } from '../live.js';
import { Elsewhere, Facts, State, Tile, Title, Trouble, Troubles, Waiting, Whisker, reach } from '../parts.js';
import { Said } from '../text.js';
import { count, duration, number, plural, scored } from '../words.js';
import { Audit } from './audit.js';
import { Exploration } from './exploration.js';
import { Log } from './log.js';
import { Timeline } from './timeline.js';
import { Try } from './try.js';

const ROLES = { proxy: 'measured during the exploration', exploration: 'trained during the exploration', formal: 'the formal training', final: 'final evaluation' };

export default function Attempt() {
  const { id, query } = useHere();
  const version = useVersion(id);
  const { value: found, error } = useAsked(api(`runs/${id}`), version);
  const { value: asked } = useAsked(api(`runs/${id}/status`), version);
  const tries = found?.tries ?? [];
  const move = by => {
    const place = tries.findIndex(one => one.name === query.try);
    if (tries.length) change({ try: tries[(place + by + tries.length) % tries.length].name });
  };
  useKeys({ j: ['the next try', () => move(1)], k: ['the try before', () => move(query.try ? -1 : 0)], Escape: ['close the try', () => change({ try: null })] });
  if (!found) return html`<${Waiting} error=${error} what="Reading the attempt" />`;
  const { row, identity, task } = found;
  if (row.kind !== 'attempt') return html`<${Elsewhere} row=${row} kind="attempt" />`;
  const chosen = tries.find(one => one.name === query.try);
  const exploration = tries.filter(one => one.stage === 'explore');
  return html`
    <${Title} over=${html`Attempt at <b><${Said} text=${task?.name ?? row.task ?? 'a task'} /></b>`} name=${row.name}>
      <p class="lead"><${State} state=${row.state} /> <${Said} text=${row.said} />${task?.description && html`<span class="quiet"> · <${Said} text=${task.description} /></span>`}</p>
    <//>
    ${error && html`<${Waiting} error=${error} />`}
    <${Troubles} of=${[row.trouble, ...found.trouble]} />
    <${Standing} found=${found} asked=${asked} />
    <section><h2>Course</h2><${Timeline} tries=${tries} chosen=${query.try} choose=${name => change({ try: query.try === name ? null : name })} /></section>
    ${chosen ? html`<${Try} key=${chosen.folder} id=${id} one=${chosen} close=${() => change({ try: null })} />` : html`<p class="quiet hint">Choose a try to see its receipt, or press <kbd>j</kbd>.</p>`}
    <${Parts} parts=${found.parts} inside=${row.name} />
    ${exploration.map(one => html`<${Exploration} key=${one.folder} id=${id} one=${one} version=${version} />`)}
    ${found.audits.map(name => html`<${Audit} key=${name} id=${id} name=${name} />`)}
    <${Reports} reports=${found.reports} />
    <${Log} id=${id} events=${found.events} version=${version} />
    <section><h2>Identity</h2><${Facts} rows=${Object.entries(identity ?? {}).map(([name, one]) => [name.replaceAll('_', ' '), one === null ? 'none' : typeof one === 'string' ? one : JSON.stringify(one)])} /></section>`;
}

function Standing({ found: { row, tries, parts }, asked }) {
  const status = asked?.status ?? null;
  const official = status?.official ?? null;
  const taken = tries.filter(one => one.stage === 'explore').map(one => one.active_seconds);
  const explored = taken.length && taken.every(one => one !== null) ? taken.reduce((sum, one) => sum + one, 0) : null;
  return html`
    <div class="tiles">
      <${Tile} name="Official score" tone="distilled" value=${number(row.mean)} below=${row.mean === null ? status?.missing ?? 'not there yet' : html`± ${number(row.stderr)}<br /><${Said} text=${row.scored ?? ''} />`} />
      ${official && html`<${Tile} name="Right" value=${count(official.correct)} below=${`of ${count(official.samples)} samples, at step ${count(official.step)}`} />`}
      <${Tile} name="Exploration" value=${duration(explored)} below=${`${plural(parts.filter(one => one.role === 'proxy').length, 'proxy measurement')}`} />
      <${Tile} name="Tries" value=${count(tries.length)} below=${`${count(tries.filter(one => one.liveness === 'sealed').length)} sealed; ${duration(row.seconds)} at work`} />
    </div>
    ${asked?.missing && html`<p class="note"><${Said} text=${asked.missing} /></p>`}
    ${status?.waits_for && html`<p class="note">It waits for <${Said} text=${typeof status.waits_for === 'string' ? status.waits_for : JSON.stringify(status.waits_for)} />.</p>`}
    ${status?.due?.length > 0 && html`<div class="note"><b>Due next</b><ul>${status.due.map(one => html`<li>${one.stage}${one.name && html` <${Said} text=${one.name} />`}: <${Said} text=${one.because ?? ''} most=${600} /></li>`)}</ul></div>`}
    ${status?.contradictions?.length > 0 && html`<${Trouble}><b>What its files say does not fit together</b><ul>${status.contradictions.map(one => html`<li><${Said} text=${typeof one === 'string' ? one : JSON.stringify(one)} most=${900} /></li>`)}</ul><//>`}`;
}

function Parts({ parts, inside }) {
  const axis = useMemo(() => reach(parts), [parts]);
  if (!parts.length) return null;
  const short = name => (name.startsWith(`${inside}/`) ? name.slice(inside.length + 1) : name).replace(/\/evaluation$/, '');
  return html`
    <section><h2>Runs and scores in it</h2>
      <div class="scroll"><table class="scores">
        <thead><tr><th scope="col">run or score</th><th scope="col" class="text">what it is</th><th scope="col">score</th><th scope="col" class="wide">95 % interval, ${number(axis.from, 2)} to ${number(axis.until, 2)}</th><th scope="col">time</th></tr></thead>
        <tbody>${parts.map(one => html`<tr>
          <th scope="row"><a href=${to(one.kind === 'train' ? 'run' : 'score', one.id)}><${Said} text=${short(one.name)} /></a></th>
          <td class="text"><span class="quiet">${one.role === 'proxy' && one.kind === 'train' ? 'what the explorer’s own trainer said' : ROLES[one.role] ?? one.role}</span></td>
          <td>${one.mean === null ? html`<span class="quiet"><${Said} text=${one.said} most=${80} /></span>` : scored(one)}</td>
          <td class="wide">${one.mean !== null && html`<${Whisker} ...${one} ...${axis} tone=${one.role} />`}</td>
          <td>${duration(one.seconds)}</td></tr>`)}</tbody>
      </table></div></section>`;
}

function Reports({ reports }) {
  if (!reports.length) return html`<section><h2>Report</h2><p class="quiet">There is none yet: <code>opd attempt report</code> writes it.</p></section>`;
  const newest = reports[reports.length - 1];
  return html`
    <section class="report"><div class="tools"><h2>Report</h2><span class="space"></span><a href=${newest.url} target="_blank" rel="noopener">Open it alone</a></div>
      <p class="quiet">${reports.map(one => html`<${Said} text=${one.try} />: ${one.files.map(file => html`<a href=${file.url} target="_blank" rel="noopener"><${Said} text=${file.name} /></a> `)}`)}</p>
      <iframe title="The report" loading="lazy" sandbox="allow-same-origin" src=${newest.url}></iframe>
    </section>`;
}
