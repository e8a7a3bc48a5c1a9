// The recipe, and in it what was set differently from the default.

import { html, useState } from '/assets/vendor/htm-preact.js';
import { api, useAsked } from '../asking.js';
import { Choice, Waiting, useSeen } from '../parts.js';
import { Said } from '../text.js';
import { value } from '../words.js';

export function Recipe({ recipe, all, choose }) {
  const [wanted, setWanted] = useState(false);
  const node = useSeen(() => setWanted(true));
  const { value: known, error } = useAsked(wanted ? api('defaults') : null);
  const marked = recipe.map(one => ({ ...one, ...standing(one, recipe, known?.defaults) }));
  const differing = marked.filter(one => one.usual === false);
  const unknown = error || known?.missing; // then there is nothing to set it against
  const shown = all || unknown ? marked : differing;
  return html`
    <section ref=${node}><div class="tools"><h2>Recipe</h2><span class="space"></span>
      <${Choice} label="Keys" options=${[['set', 'what differs from the default', known?.defaults ? differing.length : null], ['all', 'every key', recipe.length]]}
        chosen=${[all || unknown ? 'all' : 'set']} choose=${which => choose(which === 'all')} /></div>
      ${!known && !error && !all && html`<${Waiting} what="Asking opd show for the defaults" />`}
      ${unknown && html`<p class="quiet">Which keys are defaults is not known: <${Said} text=${error?.message ?? known.missing} /></p>`}
      ${shown.length > 0 && html`<div class="scroll"><table class="recipe">
        <thead><tr><th scope="col">key</th><th scope="col">value</th><th scope="col">default</th></tr></thead>
        <tbody>${shown.map(one => html`<tr class=${one.usual === false ? 'set' : ''} title=${one.doc}>
          <th scope="row"><${Said} text=${one.key} /></th>
          <td><${Said} text=${value(one.value)} /></td>
          <td class="quiet">${one.usual === null ? '' : one.required ? 'has none' : one.usual ? 'the same' : html`<${Said} text=${value(one.standard)} />`}</td></tr>`)}</tbody>
      </table></div>`}
    </section>`;
}

/** Whether a key has its default; null where that isn't known. Those of the objective are the chosen objective's, and every teacher has the same. */
function standing({ key, value: held }, recipe, defaults) {
  const objective = recipe.find(one => one.key === 'objective.name')?.value;
  const own = key.startsWith('objective.') ? defaults?.objectives?.[objective]?.[key.slice('objective.'.length)] : null;
  const known = own ?? defaults?.recipe?.[key.replace(/^teachers\.[^.]+\./, 'teachers.NAME.')];
  if (!known) return { usual: null, standard: null, required: false, doc: null };
  const usual = JSON.stringify(held) === JSON.stringify(known.default);
  return { usual, standard: known.default, required: known.required, doc: known.doc };
}
