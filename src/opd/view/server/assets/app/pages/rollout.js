// One rollout, token by token: coloured by gap = log teacher − log student, in nats, as `opd/view/tokens.py` does.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from '/assets/vendor/htm-preact.js';
import { change, useSwitch } from '../address.js';
import { api, useAsked } from '../asking.js';
import { useKeys } from '../keys.js';
import { Waiting } from '../parts.js';
import { Strip } from '../strip.js';
import { Long, Said, element, layOut, linesIn, setText } from '../text.js';
import { count, number, plural, probability, signed } from '../words.js';

const MOST = 20000;   // tokens that are asked for at once
const BLOCK = 600;    // tokens that are laid out at once
const NAMED = 8;      // of the widest gaps

export function Rollout({ id, step, index, place }) {
  const from = place === null ? 0 : Math.floor((place - 1) / MOST) * MOST;
  const { value: rollout, error } = useAsked(api(`runs/${id}/rollouts/${step}/${index}`, { from, count: MOST }));
  const [rendered, setRendered] = useSwitch('formulas');
  const [pointed, setPointed] = useState(null);
  const gaps = useMemo(() => rollout?.student.map((logp, at) => (rollout.teacher[at] === null || logp === null ? 0 : rollout.teacher[at] - logp)) ?? [], [rollout]);
  const at = place === null ? null : place - 1 - from;
  const jump = to => change({ place: to });
  const worst = by => {
    const places = rollout?.worst.map(one => one.place) ?? [];
    if (places.length) jump(places[(places.indexOf(place) + by + places.length) % places.length]);
  };
  useKeys({
    w: ['the token with the next widest gap', () => worst(1)],
    W: ['back to a wider one', () => worst(-1)],
    m: ['text with its formulas, or tokens', () => setRendered(!rendered)],
    ArrowRight: ['the next token', () => place !== null && jump(Math.min(rollout.tokens, place + 1))],
    ArrowLeft: ['the token before', () => place !== null && jump(Math.max(1, place - 1))],
  });
  if (!rollout) return html`<article class="rollout-page"><${Waiting} error=${error} what="Reading the rollout" /></article>`;
  const told = pointed ?? at;
  return html`
    <article class="rollout-page" aria-label=${`Rollout ${index} of step ${step}`}>
      <p class="quiet">${plural(rollout.tokens, 'token')}; ${rollout.stop === 'length' ? 'cut short by the limit' : `ended by ${rollout.stop}`}; row ${count(rollout.row)} of the data, epoch ${rollout.epoch}, sample ${rollout.sample}; right would be <b><${Said} text=${rollout.answer ?? 'unknown'} most=${120} /></b>${rollout.taught_by !== null && html`; scored by teacher <b><${Said} text=${rollout.taught_by} most=${80} /></b>`}
        ${rollout.repeats_at !== null && html`; <b class="down">in a loop from token ${count(rollout.repeats_at)}</b>`}</p>
      ${rollout.text_missing && html`<p class="note"><${Said} text=${rollout.text_missing} /></p>`}
      <details class="prompt" open=${(rollout.prompt ?? '').length < 600}><summary>Prompt</summary><${Long} text=${rollout.prompt ?? rollout.problem ?? ''} maths=${rendered} /></details>
      ${rollout.teacher_prompt !== null && html`<details class="prompt" open=${rollout.teacher_prompt.length < 600}><summary>Prompt, as teacher <${Said} text=${rollout.taught_by ?? ''} most=${80} /> saw it</summary><${Long} text=${rollout.teacher_prompt} maths=${rendered} /></details>`}
      <${Strip} label="Gap of every token; arrows move" values=${gaps} from=${-3} until=${3} current=${at} pick=${to => jump(from + to + 1)} height=${56}
        tone=${gap => [gap < 0 ? '--lower-ink' : '--higher-ink', Math.abs(gap) < rollout.levels[0] ? 0.35 : 0.95]} says=${to => words(rollout, gaps, to, from)} />
      <${Reading} rollout=${rollout} at=${told} from=${from} />
      <div class="tools">
        <button type="button" aria-pressed=${rendered} onClick=${() => setRendered(!rendered)}>Formulas</button>
        <span class="quiet">widest</span>
        ${rollout.worst.slice(0, NAMED).filter(one => Math.abs(one.gap) >= rollout.levels[0]).map(one => html`<button type="button" class="jump" aria-pressed=${one.place === place} onClick=${() => jump(one.place)} title=${`token ${one.place}`}>${signed(one.gap, 1)}</button>`)}
      </div>
      ${rendered ? html`<${Long} text=${rollout.texts.join('')} maths kind="tokens" />`
        : html`<${Tokens} rollout=${rollout} gaps=${gaps} at=${at} point=${setPointed} jump=${to => jump(from + to + 1)} />`}
      ${rollout.tokens > rollout.ids.length && html`<p class="tools">Tokens ${count(from + 1)} to ${count(from + rollout.ids.length)} of ${count(rollout.tokens)}
        <button type="button" disabled=${from === 0} onClick=${() => jump(from - MOST + 1)}>before</button>
        <button type="button" disabled=${from + MOST >= rollout.tokens} onClick=${() => jump(from + MOST + 1)}>after</button></p>`}
      <${Legend} levels=${rollout.levels} />
    </article>`;
}

/** What is known of a token, for the eye and for a reader. */
function Reading({ rollout, at, from }) {
  const kind = `token-reading ${rollout.alternatives ? 'tall' : ''}`; // as high without a token, and for any: nothing below may move under the pointer
  if (at === null || at >= rollout.ids.length) return html`<p class=${`${kind} quiet`}><span>Point at a token, or press <kbd>w</kbd> for the widest gap.</span></p>`;
  const gap = rollout.teacher[at] - rollout.student[at];
  return html`
    <div class=${kind} aria-live="polite">
      <div class="line">
        <code class="its-text"><${Said} text=${rollout.texts[at] === '' ? '(a part of a character)' : rollout.texts[at].replaceAll('\n', '↵')} most=${40} /></code>
        <span>gap <b class=${gap < 0 ? 'lower' : 'higher'}>${signed(gap)}</b> nats</span>
        <span>student <b>${number(rollout.student[at])}</b> nats <span class="quiet">${probability(rollout.student[at])}</span></span>
        <span>teacher <b>${number(rollout.teacher[at])}</b> nats <span class="quiet">${probability(rollout.teacher[at])}</span></span>
        <span class="quiet">token ${count(from + at + 1)}, id ${rollout.ids[at]}</span>
      </div>
      ${rollout.alternatives && html`<${Likeliest} all=${rollout.alternatives} at=${at} taken=${rollout.ids[at]} />`}
    </div>`;
}

/** What the teacher found likeliest here, the likeliest first; the token that was sampled is marked, where it is one of them. */
function Likeliest({ all, at, taken }) {
  const places = Array.from({ length: all.count }, (_, rank) => at * all.count + rank);
  return html`
    <div class="line likeliest">the teacher's likeliest <ol>${places.map(place => html`<li class=${all.ids[place] === taken ? 'taken' : ''} title=${`id ${all.ids[place]}, ${number(all.logp[place])} nats`}>
      <code class="its-text"><${Said} text=${(all.texts[all.ids[place]] ?? `⟨${all.ids[place]}⟩`).replaceAll('\n', '↵')} most=${20} /></code> ${probability(all.logp[place])}</li>`)}</ol></div>`;
}

const words = (rollout, gaps, at, from) => `token ${count(from + at + 1)}, gap ${signed(gaps[at])} nats`;

/** The tokens as spans, in blocks that end with a line where they can; only blocks near the window are laid out. */
function Tokens({ rollout, gaps, at, point, jump }) {
  const box = useRef(null);
  const blocks = useMemo(() => blocksOf(rollout.texts), [rollout]);
  useLayoutEffect(() => layOut(box.current, blocks.map(([first, last]) => linesIn(rollout.texts.slice(first, last).join(''))),
    (block, place) => fill(block, rollout, gaps, blocks[place])), [rollout]);
  useEffect(() => {
    box.current.querySelector('.t.current')?.classList.remove('current');
    const place = at === null ? -1 : blocks.findIndex(([first, last]) => at >= first && at < last);
    if (place < 0) return;
    const token = box.current.reach(place).children[at - blocks[place][0]];
    token.classList.add('current');
    const around = box.current.getBoundingClientRect();
    const { top, bottom } = token.getBoundingClientRect();
    if (top < around.top || bottom > around.bottom) box.current.scrollTop += top - around.top - around.height / 2;
    token.scrollIntoView({ block: 'nearest' });
  }, [at, rollout]);
  const whose = event => { const token = event.target.closest('.t'); return token && box.current.contains(token) ? token.place : null; };
  return html`
    <div class="tokens" ref=${box} tabindex="0" role="region" aria-label="Tokens"
         onMouseOver=${event => point(whose(event))} onMouseLeave=${() => point(null)}
         onClick=${event => { const token = whose(event); if (token !== null) jump(token); }}></div>`;
}

function fill(block, { texts, levels }, gaps, [first, last]) {
  for (let at = first; at < last; at += 1) {
    const span = element('span', `t ${kindOf(gaps[at], levels)}`);
    span.place = at;
    setText(span, texts[at], { marked: true });
    block.append(span);
  }
}

function kindOf(gap, levels) {
  const reached = levels.filter(level => Math.abs(gap) >= level).length;
  return reached ? `${gap > 0 ? 'p' : 'n'}${reached}` : '';
}

/** [first, last) of blocks of tokens. */
function blocksOf(texts) {
  const found = [];
  for (let first = 0; first < texts.length;) {
    let last = Math.min(texts.length, first + BLOCK);
    if (last < texts.length) {
      for (let at = last; at > first + BLOCK / 3; at -= 1) if (texts[at - 1].endsWith('\n')) { last = at; break; }
    }
    found.push([first, last]);
    first = last;
  }
  return found;
}

function Legend({ levels }) {
  const classes = [...levels.map((_, at) => `n${levels.length - at}`), '', ...levels.map((_, at) => `p${at + 1}`)];
  const bounds = [...[...levels].reverse().map(level => `−${level}`), '0', ...levels.map(level => `+${level}`)];
  return html`
    <div class="scale" role="img" aria-label="Colours by gap: orange where the student is surer than the teacher, blue where the teacher is surer">
      <ul class="legend">${classes.map((kind, at) => html`<li><span class=${`swatch t ${kind}`}></span>${bounds[at]}</li>`)}</ul>
      <p class="ends"><span>the student is surer</span><span>gap, nats</span><span>the teacher is surer</span></p>
    </div>`;
}
